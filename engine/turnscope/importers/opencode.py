"""opencode sessions: an export, the storage tree of JSON files (until 1.1), or the SQLite database that came after it.

All three hold the same values: a session, its messages in order, each with its parts. A part `step-start` begins a request. A
user's message with a `compaction` part and the summary that answers it replace what stands before them, but for the tail
that it names; `state.time.compacted` clears an output. Since 1.18 the request for a summary has a system prompt of its own, no
tools, and the conversation as one text: it is a subagent. Longer than a mapping for the three containers, and that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder, make_part
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON, SIDE, Edit, ObservedEdit, Session, Span, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import drop_empty, measured, parse_count, parse_usd
from turnscope.settings import Machine

NAME = "opencode"
CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "[Tool execution was interrupted]"
QUESTION = "What did we do so far?"
TEXT_SINCE = (1, 18)  # the first version that was seen to send the conversation to be summed up as one text
RESULT_CHARS = 2_000  # of each result in that text
UNSENT = ("step-finish", "snapshot", "patch", "agent")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        return 90 if {"session", "message", "part"} <= source.list_tables() else 0
    if source.kind == "folder":
        return 90 if _find_tree(source) else 0
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict):
        return 0
    info = as_mapping(document.get("info"))
    if isinstance(document.get("messages"), list) and as_text(info.get("id")).startswith("ses"):
        return 95
    alone = as_text(document.get("id")).startswith("ses_") and "time" in document and "directory" in document
    return 90 if alone else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for data in dict.fromkeys((machine.data, machine.home / ".local" / "share")):
        yield Place(data / "opencode", "storage/session/*/*.json", find_main_path)
        yield Place(data / "opencode", "opencode*.db", find_main_path)


def find_main_path(path: Path) -> Path:
    """A message's file, or a part's, opens as its session where that is there."""
    if path.suffix != ".json" or path.parent.parent.name != "message":
        return path
    return next(iter(sorted(path.parent.parent.parent.glob(f"session/*/{path.parent.name}.json"))), path)


def _find_tree(source: Source) -> list[Source]:
    return source.find_siblings("session/*/ses_*.json") or source.find_siblings("storage/session/*/ses_*.json")


def _list_infos(source: Source) -> dict[str, tuple[Value, Source | None]]:
    """Every session of a source by its id, with the file that holds it in a tree."""
    if "infos" not in source.cache:
        found: dict[str, tuple[Value, Source | None]] = {}
        if source.kind == "sqlite":
            for row in source.query("select * from session order by time_updated desc, id desc"):
                time = {"created": row.get("time_created"), "updated": row.get("time_updated")}
                revert = parse_if_json(as_text(row.get("revert")))
                info = {**row, "parentID": row.get("parent_id"), "time": time, "revert": revert}
                found[str(row.get("id"))] = info, None
        else:
            files = _find_tree(source) if source.kind == "folder" else [source]
            values = ((as_mapping(as_mapping(f.document).get("info") or f.document), f) for f in files)
            ordered = sorted(values, key=lambda v: -(parse_time(as_mapping(v[0].get("time")).get("updated")) or 0))
            found = {as_text(info.get("id")): (info, file) for info, file in ordered}
        source.cache["infos"] = found
    infos: dict[str, tuple[Value, Source | None]] = source.cache["infos"]
    return infos


def list_entries(source: Source) -> Iterator[Entry]:
    infos = _list_infos(source)
    for id, (info, file) in infos.items():
        if as_text(info.get("parentID")) not in infos:
            at = parse_time(as_mapping(info.get("time")).get("updated"))
            name, size = id if len(infos) > 1 else "", file.size if file else 0
            yield Entry(name, as_text(info.get("title")), at, size, project=as_text(info.get("directory")))


def read(source: Source, entry: Entry) -> Thread:
    return Thread(_build_session(source, entry.id or next(iter(_list_infos(source))), set()))


def _build_session(source: Source, id: str, above: set[str]) -> Session:
    """A session with those that its tasks started."""
    info, file = _list_infos(source)[id]
    builder = Builder(id or source.path.stem, NAME, as_text(info.get("title")))
    builder.about |= {key: info[key] for key in ("directory", "version", "agent", "slug") if info.get(key)}
    version = tuple(map(int, re.findall(r"\d+", as_text(info.get("version")))[:2]))
    laid, passed, cleared = _Layout(version >= TEXT_SINCE), SkippedRecords(), dict[str, float]()
    for message, parts in _iter_messages(source, info, file):
        laid.take(message, parts, passed, cleared)
    passed.add_notes(builder)
    undone = as_text(as_mapping(info.get("revert")).get("messageID"))
    ids = [node.id for node in laid.nodes]
    current = ids[ids.index(undone) - 1] if undone in ids[1:] else ""
    session = build_thread(builder, laid.nodes, current, laid.lead, [lambda path: _observe_cleared(path, cleared)]).session
    children = [k for k, (v, _) in _list_infos(source).items() if id and v.get("parentID") == id and k not in above]
    found = [_build_session(source, child, {*above, id}) for child in children]
    agents = [
        structs.replace(s, parent=session.id, at=_find_start(session, laid.tasks.get(s.id, ""))) for s in found if s.blocks
    ]
    return structs.replace(session, subagents=(*agents, *laid.build_summaries(session)))


def _find_start(session: Session, call_id: str) -> int:
    uses = (b.at for b in session.blocks if call_id and b.kind == "tool_use" and as_mapping(b.raw).get("id") == call_id)
    return next(uses, -1)


def _iter_messages(source: Source, info: Value, file: Source | None) -> Iterator[tuple[Value, list[Value]]]:
    """The messages of a session in order, each with its parts."""
    id = as_text(info.get("id"))
    if file is None:
        parts: dict[str, list[Value]] = {}
        for row in source.query("select * from part where session_id = ? order by id", (id,)):
            parts.setdefault(str(row.get("message_id")), []).append(
                {**as_mapping(parse_if_json(as_text(row.get("data")))), "id": row["id"]}
            )
        for row in source.query("select * from message where session_id = ? order by time_created, id", (id,)):
            yield {**as_mapping(parse_if_json(as_text(row.get("data")))), "id": row["id"]}, parts.get(str(row["id"]), [])
    elif "info" in as_mapping(file.document):
        for message in as_rows(file.document["messages"]):
            yield as_mapping(message.get("info")), as_rows(message.get("parts"))
    else:
        found = [as_mapping(near.document) for near in _iter_subagents(file, "message", id)]
        for message in sorted(
            found, key=lambda m: (parse_time(as_mapping(m.get("time")).get("created")) or 0, as_text(m.get("id")))
        ):
            yield message, [as_mapping(part.document) for part in _iter_subagents(file, "part", as_text(message.get("id")))]


def _iter_subagents(file: Source, kind: str, id: str) -> list[Source]:
    """The files of a tree's message or part folder. An id that is none leads nowhere."""
    return file.find_siblings(f"../../{kind}/{id}/*.json") if id.replace("_", "").isalnum() else []


class _Layout:
    """The nodes of a session while its messages are read. `sums_up_text`: a summary is requested with a prompt of its own."""

    def __init__(self, sums_up_text: bool) -> None:
        self.sums_up_text = sums_up_text
        self.nodes, self.lead = list[Node](), list[NodeMessage]()
        self.requested: tuple[str, str] | None = None  # a requested compaction: its message, where the tail begins
        self.trigger: dict[str, str] = {}  # and who requested it, where the log says so
        self.cut: Cut | None = None
        self.tasks: dict[str, str] = {}  # session of a subagent -> the call that started it
        self.asides: list[tuple[Node, str, NodeMessage]] = []  # of each summary: its node, what it sums up, the answer
        self.sent: list[Node] = []  # what the next request holds, but for the newest summary
        self.summary = ""

    def take(self, message: Value, parts: list[Value], passed: SkippedRecords, cleared: dict[str, float]) -> None:
        id, time = as_text(message.get("id")) or f"#{len(self.nodes)}", as_mapping(message.get("time"))
        node = Node(id, None, [], parse_time(time.get("created")), self.cut)
        self.cut = None
        self.nodes.append(node)
        if message.get("role") == "user":
            system = as_text(message.get("system"))
            if system and len(self.nodes) == 1:
                self.lead = [NodeMessage("system", system, "system")]
            mark = next((part for part in parts if part.get("type") == "compaction"), None)
            node.messages = [NodeMessage("user", make_text(QUESTION), "inferred")] if mark else _make_prompt(parts, passed)
            self.requested = (id, as_text(mark.get("tail_start_id"))) if mark else None
            auto = mark.get("auto") if mark else None
            self.trigger = {"trigger": "auto" if auto else "manual"} if isinstance(auto, bool) else {}
            self.sent += [] if mark else [node]
        elif message.get("role") == "assistant":
            node.messages = list(self._make_answers(message, parts, time, passed, cleared))
            if message.get("summary") is True and self.requested:
                self._sum_up(node, *self.requested, done=not message.get("error") and bool(time.get("completed")))
            else:
                self.sent.append(node)
        else:
            passed.add(f"message of role {message.get('role')}", message)

    def _sum_up(self, node: Node, requested: str, tail_start: str, done: bool) -> None:
        """Take in an answer to a request for a summary."""
        ids = [known.id for known in self.nodes]
        tail = ids[ids.index(tail_start) : ids.index(requested)] if tail_start in ids else []
        if self.sums_up_text and node.messages:
            text = _write_conversation([one for one in self.sent if one.id not in tail], self.summary)
            self.asides.append((node, text, node.messages[0]))
            node.messages[0] = replace(node.messages[0], request=None)
        if done:
            self.cut = Cut("compacted into a summary", [*tail, requested], node.id, self.trigger)
            self.sent = [one for one in self.sent if one.id in tail]
            self.summary = extract_text(node.messages[0].content) if node.messages else ""

    def build_summaries(self, session: Session) -> Iterator[Session]:
        """The requests for summaries that had a prompt of their own, as subagents. Their instructions are not in the log."""
        starts = {message.id: message.start for message in session.messages}
        for node, text, answer in self.asides:
            builder = Builder(f"{session.id}~{node.id}", NAME, "summary")
            builder.about[SIDE] = "summary"
            builder.add_message("user", make_text(text), origin="inferred", sent_at=node.at)
            draft = builder.add_message("assistant", answer.content, sent_at=node.at)
            builder.set_request(draft, **{"id": node.id, **(answer.request or {})})
            yield structs.replace(builder.build(), parent=session.id, at=starts.get(node.id, -1))

    def _make_answers(
        self, message: Value, parts: list[Value], time: Value, passed: SkippedRecords, cleared: dict[str, float]
    ) -> Iterator[NodeMessage]:
        """The requests of a message, each with the results of its calls."""
        steps: list[list[Value]] = [[]]
        for part in parts:
            if part.get("type") == "step-start" and steps[-1]:
                steps.append([])
            steps[-1].append(part)
        kind = "summary" if message.get("summary") is True else ""
        for number, step in enumerate(steps):
            finish = next((part for part in step if part.get("type") == "step-finish"), message)
            blocks, answers = self._convert_parts(step, passed, cleared)
            last = number == len(steps) - 1
            error = as_mapping(message.get("error"))
            request = {
                "model": as_text(message.get("modelID")),
                "usage": _convert_usage(as_mapping(finish.get("tokens"))),
                "logged_usd": parse_usd(finish.get("cost")),
                "sent_at": parse_time(time.get("created")) if not number else None,
                "answered_at": parse_time(time.get("completed")) if last else None,
                "stop_reason": as_text(error.get("name")) or as_text(finish.get("reason") or message.get("finish")) or None,
                "attempts": 1 + sum(part.get("type") == "retry" for part in step),
            }
            yield NodeMessage("assistant" if blocks else "", blocks, kind=kind, origin=kind, request=request)
            if answers:
                yield NodeMessage("user", answers, "tool", at=parse_time(time.get("completed")))

    def _convert_parts(
        self, step: list[Value], passed: SkippedRecords, cleared: dict[str, float]
    ) -> tuple[list[JSON], list[JSON]]:
        blocks: list[JSON] = []
        answers: list[JSON] = []
        for part in step:
            match part.get("type"):
                case "text":
                    blocks += make_text(as_text(part.get("text")))
                case "reasoning":
                    blocks += make_thinking(as_text(part.get("text")))
                case "tool":
                    state, id = as_mapping(part.get("state")), as_text(part.get("callID"))
                    blocks.append(make_call(id, as_text(part.get("tool")), state.get("input")))
                    answers.append(_make_output(id, state))
                    if (at := parse_time(as_mapping(state.get("time")).get("compacted"))) is not None:
                        cleared[id] = at
                    if child := as_text(as_mapping(state.get("metadata")).get("sessionId")):
                        self.tasks[child] = id
                case "step-start" | "retry":
                    pass
                case kind if kind not in UNSENT:
                    passed.add(f"part {kind}", part)
        return blocks, answers


def _write_conversation(nodes: Iterable[Node], summary: str) -> str:
    """A conversation as the text that is to be summed up, after an earlier summary."""
    written = "\n\n".join("\n".join(_write_lines(node)) for node in nodes if node.messages)
    text = f"<conversation>\n{written}\n</conversation>"
    return f"{text}\n\n<prior-summary>\n{summary}\n</prior-summary>" if summary else text


def _write_lines(node: Node) -> Iterator[str]:
    for message in node.messages:
        blocks = make_text(message.content) if isinstance(message.content, str) else message.content
        for block in map(as_mapping, blocks):
            text = extract_text(block)
            match block["type"]:
                case "text":
                    yield f"[{message.role.capitalize()}]: {text}"
                case "thinking":
                    yield f"[Assistant reasoning]: {block['thinking']}"
                case "tool_use":
                    yield f"[Assistant tool call]: {block['name']}({dumps(block['input'])})"
                case "tool_result":
                    yield f"[Tool result]: {text[:RESULT_CHARS]}" + ("\n[truncated]" if len(text) > RESULT_CHARS else "")


def _make_prompt(parts: list[Value], passed: SkippedRecords) -> list[NodeMessage]:
    """A user's message. A text file is text that the tool made, next to the part that names the file."""
    blocks: list[JSON] = []
    for part in parts:
        kind, mime = part.get("type"), as_text(part.get("mime"))
        if kind == "text" and part.get("ignored") is not True:
            blocks += make_text(as_text(part.get("text")))
        elif kind == "file" and mime.startswith("image/"):
            blocks.append(make_image(as_text(part.get("url"))))
        elif kind == "file" and mime == "application/pdf":
            blocks.append({**make_image(as_text(part.get("url"))), "type": "document"})
        elif kind == "subtask":
            blocks += make_text(as_text(part.get("prompt")))
        elif kind not in ("file", *UNSENT):
            passed.add(f"part {kind}", part)
    made = all(part.get("synthetic") is True for part in parts if part.get("type") == "text")
    return [NodeMessage("user", blocks, "meta" if made and blocks else "")] if blocks else []


def _make_output(id: str, state: Value) -> JSON:
    done = state.get("status") == "completed"
    reported = as_text(state.get("output")) if done else as_text(state.get("error")) or INTERRUPTED
    media = [
        make_image(as_text(a.get("url")))
        for a in as_rows(state.get("attachments"))
        if as_text(a.get("mime")).startswith("image/")
    ]
    return make_result(id, [*make_text(reported), *media] if media else reported, not done)


@measured
def _convert_usage(tokens: Value) -> Usage | None:
    """`output` holds the reasoning in versions that log no total; later the total shows it."""
    cache = as_mapping(tokens.get("cache"))
    fresh, read, made, answer, thought, total = (
        parse_count({**tokens, **cache}.get(key), key) for key in ("input", "read", "write", "output", "reasoning", "total")
    )
    apart = thought if total > fresh + answer + read + made else 0
    return drop_empty(Usage(fresh, made, read, answer + apart))


def _observe_cleared(session: Session, cleared: Mapping[str, float]) -> Iterable[ObservedEdit]:
    """Outputs that were marked, cleared from the first request on that was sent after that."""
    for block in session.blocks if cleared else ():
        id = as_text(as_mapping(block.raw).get("tool_use_id")) if block.kind == "tool_result" else ""
        if id in cleared:
            later = (r.n for r in session.requests if r.cut > block.at and r.sent_at is not None and r.sent_at > cleared[id])
            if (n := next(later, None)) is not None:
                body = (make_part("user", {**block.raw, "content": CLEARED}),)
                yield ObservedEdit(n, Edit("clear", "an old tool result was cleared", Span(block.at, block.at + 1), body))


IMPORTER = Importer(
    NAME,
    "opencode session (export, storage folder or database)",
    sniff,
    read,
    list_entries,
    find_places,
    part_of=find_main_path,
    suffixes=(".json", ".db"),
    version=2,
    wants="`info` of a session next to `messages`, nor its tables or folders",
    right="compactions and cleared outputs apart from the timeline, requests for summaries as subagents; three containers, "
    "one reading",
)
