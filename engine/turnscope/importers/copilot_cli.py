"""GitHub Copilot CLI sessions: `events.jsonl` under `~/.copilot/session-state/ID`, events of `{type, data, id, timestamp}`.

An answer has its output tokens alone; the session's tokens are in its last event. Events of agents name the call that
started them: each is a subagent. Longer than a mapping for those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text, make_thinking
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "copilot-cli"
REPEATS = (
    "tool.execution_start",
    "assistant.turn_start",
    "assistant.turn_end",
    "hook.",
    "assistant.message_delta",
    "session.info",
    "session.compaction_start",
)
USAGE = {"cacheReadTokens": "cache_read_tokens", "cacheWriteTokens": "cache_write_tokens"}
ABOUT = ("sessionId", "copilotVersion", "producer", "selectedModel")
Event = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    framed = [row for row in rows if isinstance(row.get("data"), dict) and {"type", "id", "timestamp"} <= row.keys()]
    kinds = {as_text(row.get("type")) for row in framed}
    return 90 if kinds & {"session.start", "assistant.message", "user.message"} else 0


def find_places(machine: Machine) -> Iterator[Place]:
    home = machine.find_folder("COPILOT_HOME", machine.home / ".copilot")
    for folder in ("session-state", "history-session-state"):
        yield Place(home / folder, "*/events.jsonl")
        yield Place(home / folder, "*.jsonl")


class _Events:
    """The nodes of a session and of its agents while events are read. The agent of "" is the session itself."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.nodes: dict[str, list[Node]] = {"": []}
        self.model = ""
        self.before: float | None = None
        self.thoughts: list[str] = []

    def add_event(self, event: Event, line: int) -> None:
        kind, data = as_text(event.get("type")), as_mapping(event.get("data"))
        at, agent = parse_time(event.get("timestamp")), as_text(data.get("parentToolCallId"))
        match kind:
            case "session.start" | "session.resume":
                self.builder.about = {**{key: data[key] for key in ABOUT if data.get(key)}, **self.builder.about}
                self.model = as_text(data.get("selectedModel")) or self.model
            case "session.model_change":
                self.model = as_text(data.get("newModel")) or self.model
            case "system.message":
                self._add(agent, NodeMessage("system", as_text(data.get("content")), "system", fence=True), at)
            case "user.message":
                self._add_prompt(agent, data, at)
            case "assistant.reasoning":
                self.thoughts.append(as_text(data.get("content")))
            case "assistant.message":
                self._add_answer(agent, data, at)
            case "tool.execution_complete":
                self._add_result(agent, data, at)
            case "session.error":
                self.builder.add_note("warning", line, f"a request failed: {as_text(data.get('message'))[:200]}")
            case "session.shutdown":
                self._add_totals(data, line)
            case "session.truncation":
                removed = data.get("messagesRemovedDuringTruncation")
                self.builder.add_note(
                    "warning", line, f"the tool left {removed} messages out from here on; which ones is not logged"
                )
            case "assistant.usage":
                self._add_usage(agent, data)
            case "session.compaction_complete" if data.get("success") is not False and data.get("summaryContent"):
                self._add_summary(as_text(data.get("summaryContent")), at)
            case _ if not kind.startswith(REPEATS):
                self.passed.add(kind, event, line)

    def _add(self, agent: str, message: NodeMessage, at: float | None) -> None:
        nodes = self.nodes.setdefault(agent, [])
        nodes.append(Node(str(len(nodes)), None, [message], at))

    def _add_prompt(self, agent: str, data: Event, at: float | None) -> None:
        """A prompt as it was sent; the title is as it was typed."""
        typed, sent = as_text(data.get("content")), as_text(data.get("transformedContent"))
        self.builder.title = self.builder.title or " ".join(typed.split())[:80]
        self._add(agent, NodeMessage("user", sent or typed), at)
        for one in as_rows(data.get("attachments")):
            self.passed.add("attachment", one)
        self.before = at

    def _add_answer(self, agent: str, data: Event, at: float | None) -> None:
        """An answer. Chunks under one id are one answer."""
        reasoning = as_text(data.get("reasoningText")) or "\n".join(self.thoughts)
        signature = as_text(data.get("encryptedContent")) or as_text(data.get("reasoningOpaque"))
        blocks = [*make_thinking(reasoning, signature), *make_text(as_text(data.get("content")))]
        for use in as_rows(data.get("toolRequests")):
            blocks.append(make_call(as_text(use.get("toolCallId")), as_text(use.get("name")), use.get("arguments")))
        self.thoughts = []
        id = as_text(data.get("apiCallId")) or as_text(data.get("messageId"))
        last = self.nodes.get(agent, [])[-1:]
        message = last[0].messages[0] if last else None
        if message is not None and message.role == "assistant" and id and (message.request or {}).get("id") == id:
            message.content = [*message.content, *blocks]
            return
        count = data.get("outputTokens")
        request: dict[str, Any] = {"model": as_text(data.get("model")) or self.model, "sent_at": self.before, "answered_at": at}
        request |= {"id": id} if id else {}
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            self.builder.about.setdefault("outputTokens", {})[id] = count  # no usage: what was sent is unknown
        self._add(agent, NodeMessage("assistant" if blocks else "", blocks, request=request), at)

    def _add_usage(self, agent: str, data: Event) -> None:
        """What a request took, told beside its answer: of the newest one that nothing is known of."""
        known = (
            message.request for node in reversed(self.nodes.get(agent, [])) for message in node.messages if message.request
        )
        request = next(known, None)
        if isinstance(request, dict) and "usage" not in request:
            counted = {key: data.get(key) for key in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")}
            request["usage"] = convert_usage({USAGE.get(key, key): count for key, count in counted.items()})
            request["model"] = as_text(data.get("model")) or request["model"]
        else:
            self.passed.add("assistant.usage without its answer", data)

    def _add_summary(self, summary: str, at: float | None) -> None:
        """A compaction: the summary stands for all that came before it."""
        nodes = self.nodes[""]
        id = str(len(nodes))
        cut = Cut("compacted: what came before the summary is not sent any more", [], id)
        nodes.append(Node(id, None, [NodeMessage("user", summary, "summary", "summary")], at, cut))

    def _add_result(self, agent: str, data: Event, at: float | None) -> None:
        gave = as_mapping(data.get("result"))
        output = gave.get("content", as_mapping(data.get("error")).get("message"))
        result = make_result(as_text(data.get("toolCallId")), output, data.get("success") is False)
        nodes = self.nodes.setdefault(agent, [])
        if nodes and nodes[-1].messages[0].origin == "tool":
            nodes[-1].messages[0].content = [*nodes[-1].messages[0].content, result]
        else:
            self._add(agent, NodeMessage("user", [result], "tool"), at)
        self.before = at

    def _add_totals(self, data: Event, line: int) -> None:
        details = as_mapping(data.get("tokenDetails"))
        counts = [f"{as_mapping(one).get('tokenCount')} {name.replace('_', ' ')}" for name, one in details.items()]
        if counts:
            self.builder.add_note("info", line, f"tokens of the whole session: {', '.join(counts)}")
        requests = data.get("totalPremiumRequests")
        self.builder.about |= {"premiumRequests": requests} if isinstance(requests, (int, float)) else {}

    def build(self) -> Session:
        """The session with its agents."""
        self.passed.add_notes(self.builder)
        session = build_thread(self.builder, self.nodes[""]).session
        agents: list[Session] = []
        for call, nodes in self.nodes.items():
            if call:
                own = build_thread(Builder(f"{session.id}~{call}", NAME), nodes).session
                uses = (b.at for b in session.blocks if b.kind == "tool_use" and as_mapping(b.raw).get("id") == call)
                agents.append(structs.replace(own, parent=session.id, at=next(uses, -1)))
        return structs.replace(session, subagents=tuple(one for one in agents if one.blocks))


def read(source: Source, _entry: Entry) -> Thread:
    name = source.path.absolute().parent.name if source.path.name == "events.jsonl" else source.path.stem
    events = _Events(Builder(name, NAME))
    for event, line in iter_objects(source.iter_records(), events.builder, events.passed):
        events.add_event(event, line)
    return Thread(events.build())


IMPORTER = Importer(
    NAME,
    "GitHub Copilot CLI session (events.jsonl)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="events with `data`, such as user.message",
    right="calls with results; agents as subagents; compactions; what the session took as a whole",
    version=2,
)
