"""Kimi Code sessions: `agents/<agent>/wire.jsonl` under `~/.kimi-code/sessions`, operations on the context, one a line.

The events of a step hold the parts of its answer. Compactions and clearings change what is sent, undone turns are branches.
Longer than a mapping for those, and because a step may be sent several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result
from turnscope.reading.messages import convert_content, convert_tool
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Session, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import drop_empty, measured, parse_count
from turnscope.settings import Machine

NAME = "kimi-code"
MARKS = ("context.", "llm.", "turn.", "config.update")
APART = ("metadata", "turn.", "permission.", "plan_mode.", "tools.", "token_counting.", "runtime.", "full_compaction.")
"""Kinds of records that say nothing of what was sent, or say it again."""
USAGE_KEYS = ("inputOther", "inputCacheCreation", "inputCacheRead", "output")
Record = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    kinds = [as_text(row.get("type")) for row in rows]
    begun = any(kind == "metadata" and "protocol_version" in row for kind, row in zip(kinds, rows, strict=True))
    marked = sum(kind.startswith(MARKS) for kind in kinds)
    return 90 if marked and (begun or any(kind.startswith("context.append_") for kind in kinds)) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".kimi-code" / "sessions", "**/agents/main/wire.jsonl")


def find_main_path(path: Path) -> Path:
    """Find the log of the agent that started this one; the path itself where there is none."""
    main = path.parent.parent / "main" / path.name
    return main if path.name == "wire.jsonl" and path.parent.parent.name == "agents" and main.is_file() else path


def find_agents(source: Source) -> list[Source]:
    """Find the logs of the agents that the main one started."""
    folder = source.path.absolute().parent
    main = source.kind == "file" and (folder.name, folder.parent.name) == ("main", "agents")
    return [one for one in source.find_siblings("../*/wire.jsonl") if one.path.parent.name != "main"] if main else []


@measured
def convert_usage(record: Any) -> Usage | None:
    fields = as_mapping(record)
    other, made, read, output = (parse_count(fields.get(key), key) for key in USAGE_KEYS)
    return drop_empty(Usage(other, made, read, output))


class _Log:
    """The timeline of one log, and the ids of what is in the context now."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.nodes: dict[str, Node] = {}
        self.context: list[str] = []
        self.prompts: set[str] = set()
        self.tools: list[JSON] = []
        self.system = self.model = ""
        self.up: str = ""
        self.before: float | None = None
        self.step: Node | None = None  # the answer that is being read
        self.cut: Cut | None = None

    def add_record(self, record: Record, line: int) -> None:
        kind, at = as_text(record.get("type")), parse_time(record.get("time"))
        match kind:
            case "config.update" | "profile.bind":
                self._set_up(record, str(line))
            case "llm.tools_snapshot":
                self.tools = self.tools or [convert_tool(tool) for tool in as_rows(record.get("tools"))]
            case "llm.request":
                self._add_attempt(record)
            case "context.append_message":
                self._add_message(as_mapping(record.get("message")), str(line), at)
            case "context.append_loop_event":
                self._add_event(as_mapping(record.get("event")), record, line, at)
            case "context.clear":
                self.cut, self.context = Cut("the context was cleared", [], action="drop"), []
            case "context.apply_compaction":
                self._add_summary(record, str(line), at)
            case "context.undo":
                self._undo(record.get("count"))
            case "usage.record":
                self._set_usage(record)
            case _ if not kind.startswith(APART):
                self.passed.add(kind, record, line)

    def _set_up(self, record: Record, id: str) -> None:
        self.model = as_text(record.get("modelAlias")) or self.model
        system = as_text(record.get("systemPrompt"))
        if system and self.system and system != self.system:
            self._add(id, NodeMessage("system", system, "system", fence=True), None)
        self.system = self.system or system

    def _add(self, id: str, message: NodeMessage, at: float | None) -> Node:
        node = self.nodes[id] = Node(id, self.up, [message], at, self.cut)
        self.cut = None
        self.context.append(id)
        self.up, self.before = id, at or self.before
        return node

    def _add_attempt(self, record: Record) -> None:
        answer = self.step.messages[0] if self.step else None
        if answer is None:
            return
        about = dict(answer.request or {})
        attempts = about.get("attempts", 0) + 1
        answer.request = {**about, "attempts": attempts, "model": as_text(record.get("model")) or self.model}

    def _add_message(self, message: Record, id: str, at: float | None) -> None:
        role, origin = message.get("role"), as_text(as_mapping(message.get("origin")).get("kind"))
        blocks = convert_content(message.get("content"))
        for use in as_rows(message.get("toolCalls")):
            blocks.append(make_call(as_text(use.get("id")), as_text(use.get("name")), use.get("arguments")))
        if role == "tool":
            self._add_result(as_text(message.get("toolCallId")), blocks, bool(message.get("isError")), id, at)
        elif role == "user":
            self._add(id, NodeMessage("user", blocks, "" if origin in ("", "user") else "meta"), at)
            self.prompts |= {id} if origin in ("", "user") else set()
        elif role in ("assistant", "system"):
            request = {"model": self.model, "sent_at": self.before} if role == "assistant" else None
            self._add(id, NodeMessage(role, blocks, fence=role == "system", request=request), at)
        else:
            self.passed.add(f"message of role {role}", message, int(id))

    def _add_event(self, event: Record, record: Record, line: int, at: float | None) -> None:
        kind = event.get("type")
        if kind == "step.begin":
            request = {"model": self.model, "sent_at": at or self.before}
            self.step = self._add(str(line), NodeMessage("", [], request=request), at)
        elif kind == "tool.result":
            result = as_mapping(event.get("result"))
            output = result.get("output")
            blocks = convert_content(output) if isinstance(output, list) else output
            self._add_result(as_text(event.get("toolCallId")), blocks, result.get("isError") is True, str(line), at)
        elif self.step is not None and kind == "content.part":
            self._add_blocks(convert_content(event.get("part")))
        elif self.step is not None and kind == "tool.call":
            self._add_blocks([make_call(as_text(event.get("toolCallId")), as_text(event.get("name")), event.get("args"))])
        elif self.step is not None and kind == "step.end":
            answer = self.step.messages[0]
            answer.role, self.step.at = "assistant", at or self.step.at
            about = {"stop_reason": as_text(event.get("finishReason")) or None, "usage": convert_usage(event.get("usage"))}
            answer.request = {**(answer.request or {}), **{key: value for key, value in about.items() if value is not None}}
        else:
            self.passed.add(f"event {kind}", record, line)

    def _add_blocks(self, blocks: list[JSON]) -> None:
        answer = self.step.messages[0] if self.step else NodeMessage("")
        answer.role, answer.content = "assistant", [*answer.content, *blocks]

    def _add_result(self, id: str, content: Any, failed: bool, node: str, at: float | None) -> None:
        result, last = make_result(id, content, failed), self.nodes.get(self.up)
        message = last.messages[0] if last else None
        if message is not None and message.origin == "tool":
            message.content = [*message.content, result]
            self.before = at or self.before
        else:
            self._add(node, NodeMessage("user", [result], "tool"), at)

    def _add_summary(self, record: Record, id: str, at: float | None) -> None:
        count = record.get("compactedCount")
        kept = self.context[count:] if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else []
        facts = {key: record[key] for key in ("tokensBefore", "tokensAfter", "compactedCount") if record.get(key) is not None}
        self.cut = Cut("compacted: a summary stands for what came before", [id, *kept], id, facts)
        self._add(id, NodeMessage("user", as_text(record.get("summary")), "summary", kind="summary"), at)
        self.context = [id, *kept]

    def _undo(self, count: Any) -> None:
        """Go back before the last prompts. What comes next is another branch."""
        anchors = [at for at, id in enumerate(self.context) if id in self.prompts]
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= len(anchors):
            first = self.context[anchors[-count]]
            self.up, self.context = self.nodes[first].parent or "", self.context[: anchors[-count]]

    def _set_usage(self, record: Record) -> None:
        """Usage outside a step: the usage at the step's end counts."""
        answer = self.step.messages[0] if self.step else None
        if answer is not None and not (answer.request or {}).get("usage"):
            answer.request = {**(answer.request or {}), "usage": convert_usage(record.get("usage"))}

    def build(self) -> Thread:
        self.passed.add_notes(self.builder)
        lead = [NodeMessage("tools", self.tools, "system")] if self.tools else []
        lead += [NodeMessage("system", self.system, "system")] if self.system else []
        for node in self.nodes.values():
            fields = dict(node.messages[0].request or {})
            if fields:
                node.messages[0].request = {**fields, "attempts": max(1, fields.get("attempts", 1))}
        return build_thread(self.builder, self.nodes.values(), self.up, lead=lead)


def _read_log(source: Source, id: str) -> Thread:
    log = _Log(Builder(id, NAME))
    for record, line in iter_objects(source.iter_records(), log.builder, log.passed):
        log.add_record(record, line)
    return log.build()


def read(source: Source, _entry: Entry) -> Thread:
    folder = source.path.absolute().parent
    stored = source.path.name == "wire.jsonl" and folder.parent.name == "agents"
    id = folder.parent.parent.name if stored and folder.name == "main" else folder.name if stored else source.path.stem
    thread = _read_log(source, id)
    agents: list[Session] = []
    for one in find_agents(source):
        own = _read_log(one, one.path.parent.name).session
        agents += [structs.replace(own, parent=thread.session.id)] if own.blocks else []
    return Thread(structs.replace(thread.session, subagents=tuple(agents))) if agents else thread


IMPORTER = Importer(
    NAME,
    "Kimi Code session (wire.jsonl)",
    sniff,
    read,
    finds=find_places,
    related=find_agents,
    part_of=find_main_path,
    suffixes=(".jsonl",),
    wants="operations such as context.append_message",
    right="answers of their steps, with usage; compactions; undone turns as branches; agents as subagents",
)
