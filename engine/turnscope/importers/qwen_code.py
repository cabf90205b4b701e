"""Qwen Code sessions: JSON lines under `~/.qwen/projects/<folder>/chats`, with Claude Code's frame and Google's contents.

Records are chained by `uuid` and `parentUuid`, and `message` holds `parts`. A `chat_compression` holds the history that is sent
from there on; what was being sent while it was made follows behind it. System prompt, tools and the first message about date
and folder are not stored. Requests outside the chat, of its agents and for summaries, are logged without their prompts: each
group is a subagent. Longer than a mapping for the compressions and those requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_google_part, join_blocks, make_usage
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.recorded_body import find_common
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.model import BEGINS_MID_CONVERSATION, JSON, Part, Session, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count
from turnscope.settings import Machine

NAME = "qwen-code"
ABOUT = ("sessionId", "version", "cwd", "gitBranch")
REPORTED = {
    "input_token_count": "promptTokenCount",
    "output_token_count": "candidatesTokenCount",
    "cached_content_token_count": "cachedContentTokenCount",
    "total_token_count": "totalTokenCount",
}
RESPONSE = "qwen-code.api_response"  # telemetry of an answered request, whoever sent it
Record = Mapping[str, Any]
_ROUND = re.compile(r"#\d+$")  # ends the id of each request of an agent


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    framed = [row for row in rows if {"uuid", "sessionId", "type"} <= row.keys()]
    spoken = any(isinstance(as_mapping(row.get("message")).get("parts"), list) for row in framed)
    return 95 if spoken else 90 if any("systemPayload" in row for row in framed) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    home = machine.find_folder("QWEN_HOME", machine.home / ".qwen")
    yield Place(machine.find_folder("QWEN_RUNTIME_DIR", home) / "projects", "*/chats/*.jsonl")


class _Chat:
    """The nodes of a session while its lines are read. `above`: the node that each one follows."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.nodes: dict[str, Node] = {}
        self.before: float | None = None  # time of the newest message
        self.pending: list[tuple[Record, float | None]] = []  # reported responses that are no answer of the chat (yet)

    def add_line(self, record: Record, line: int) -> None:
        self.builder.about = {**{key: record[key] for key in ABOUT if record.get(key)}, **self.builder.about}
        id, at = as_text(record.get("uuid")) or f"#{line}", parse_time(record.get("timestamp"))
        payload = as_mapping(record.get("systemPayload"))
        node = Node(id, as_text(record.get("parentUuid")), self._make_messages(record, at), at)
        match record.get("subtype"):
            case "chat_compression":
                node.cut = self._make_cut(node, payload)
            case "ui_telemetry":
                event = as_mapping(payload.get("uiEvent"))
                self.pending += [(event, at)] if event.get("event.name") == RESPONSE else []
            case "custom_title":
                self.builder.title = as_text(payload.get("customTitle")) or self.builder.title
            case kind if not node.messages:
                self.passed.add(kind or record.get("type"), record, line)
        self.before = at if node.messages else self.before
        if node.messages or node.cut or as_text(record.get("uuid")):  # a line that is in no tree is no end of one
            self.nodes.setdefault(id, node)

    def _make_messages(self, record: Record, at: float | None) -> list[NodeMessage]:
        parts = as_mapping(record.get("message")).get("parts")
        blocks = [block for part in parts for block in convert_google_part(part)] if isinstance(parts, list) else []
        match record.get("type"):
            case "assistant":
                return [NodeMessage("assistant" if blocks else "", blocks, request=self._make_request(record, at))]
            case "tool_result" if blocks:
                return [NodeMessage("user", _mark_failed(blocks, record), "tool")]
            case "user" if blocks:
                return [NodeMessage("user", join_blocks(blocks), "meta" if record.get("subtype") else "")]
        return []

    def _make_request(self, record: Record, at: float | None) -> dict[str, Any]:
        window = record.get("contextWindowSize")
        if isinstance(window, int) and not isinstance(window, bool) and window > 0:
            self.builder.window = window
        used = as_mapping(record.get("usageMetadata"))
        reported = used.get("promptTokenCount") or 0, used.get("candidatesTokenCount") or 0
        match = next((n for n, (event, _) in enumerate(self.pending) if _get_tokens(event) == reported), None)
        if match is not None:
            del self.pending[match]
        usage = _convert_usage(used)
        return {"model": as_text(record.get("model")), "usage": usage, "sent_at": self.before, "answered_at": at}

    def _make_cut(self, node: Node, payload: Record) -> Cut:
        """What the history is from here on: the messages that it holds, and those that were being sent behind it.

        The tool may write it late, with answers in it that came afterwards: what stands behind the newest message is left out.
        """
        path = self._find_path(node.parent or "")
        mine = [(one.role, dumps(_list_blocks(one.content))) for _, one in path]
        history = [message for content in as_rows(payload.get("compressedHistory")) for message in _convert_content(content)]
        same = {y: x for x, y in find_common(mine, [(role, dumps(blocks)) for role, blocks in history])}
        history = history[: next((y + 1 for y, x in same.items() if x == len(path) - 1), None)]
        keep: list[str | tuple[Part, ...]] = [
            path[same[n]][0] if n in same else make_message_parts(role, blocks, "" if n else "summary")
            for n, (role, blocks) in enumerate(history)
        ]
        last = max((n for n, (_, one) in enumerate(path) if one.role != "user"), default=-1)
        keep += [id for n, (id, _) in enumerate(path) if n > last and n not in same.values()]
        before = as_mapping(payload.get("info")).get("originalTokenCount")
        return Cut("compacted into a summary", keep, facts={"preTokens": before} if isinstance(before, int) else {})

    def _find_path(self, leaf: str) -> list[tuple[str, NodeMessage]]:
        """The messages from the beginning to a node, each with the node's id."""
        found: list[tuple[str, NodeMessage]] = []
        seen: set[str] = set()
        while leaf in self.nodes and leaf not in seen:
            seen.add(leaf)
            found += [(leaf, message) for message in reversed(self.nodes[leaf].messages)]
            leaf = self.nodes[leaf].parent or ""
        return found[::-1]

    def build_asides(self, session: Session) -> Iterator[Session]:
        """Requests outside the chat, as subagents: by the tool's own agents, and for summaries. No prompt is logged."""
        groups: dict[str, list[tuple[Record, float | None]]] = {}
        for event, at in self.pending:
            groups.setdefault(_ROUND.sub("", as_text(event.get("prompt_id"))), []).append((event, at))
        for id, events in groups.items():
            builder = Builder(f"{session.id}~{id}", NAME, as_text(events[0][0].get("subagent_name")) or "summary")
            builder.about[BEGINS_MID_CONVERSATION] = True
            for event, at in events:
                usage = _convert_usage({name: event.get(key) for key, name in REPORTED.items()})
                answer = builder.add_message("assistant", as_text(event.get("response_text")), sent_at=at)
                builder.set_request(answer, model=as_text(event.get("model")), usage=usage, answered_at=at)
            start = events[0][1] or 0.0
            place = max((m.start for m in session.messages if m.sent_at is not None and m.sent_at <= start), default=-1)
            yield structs.replace(builder.build(), parent=session.id, at=place)


def _get_tokens(event: Record) -> tuple[Any, Any]:
    """Prompt and output tokens of a response, as reported."""
    return event.get("input_token_count") or 0, event.get("output_token_count") or 0


def _list_blocks(content: Any) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


@measured
def _convert_usage(used: Record) -> Usage | None:
    """Thoughts are part of the answer with some providers, and apart with others: the total shows which."""
    names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
    prompt, answer, total = (parse_count(used.get(name), name) for name in names)
    return make_usage(prompt, max(answer, total - prompt), used.get("cachedContentTokenCount"))


def _mark_failed(blocks: list[JSON], record: Record) -> list[JSON]:
    failed = as_mapping(record.get("toolCallResult")).get("status") == "error"
    return [{**block, "is_error": True} if failed and block.get("type") == "tool_result" else block for block in blocks]


def _convert_content(content: Record) -> Iterator[tuple[str, list[JSON]]]:
    """One content of a history as the messages of the log: each tool result is one of its own there."""
    parts = content.get("parts")
    blocks = [block for part in parts for block in convert_google_part(part)] if isinstance(parts, list) else []
    if content.get("role") == "model":
        yield "assistant", blocks
    elif any(block.get("type") == "tool_result" for block in blocks):
        yield from (("user", [block]) for block in blocks)
    else:
        yield "user", blocks


def read(source: Source, _entry: Entry) -> Thread:
    chat = _Chat(Builder(source.path.stem, NAME))
    for record, line in iter_objects(source.iter_records(), chat.builder, chat.passed):
        chat.add_line(record, line)
    chat.passed.add_notes(chat.builder)
    thread = build_thread(chat.builder, chat.nodes.values())
    return Thread(structs.replace(thread.session, subagents=tuple(chat.build_asides(thread.session))))


IMPORTER = Importer(
    NAME,
    "Qwen Code session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="record with `uuid` and `sessionId` whose message holds `parts`",
    right="compressions with the history that they left; rewinds as branches; requests outside the chat",
    version=3,
)
