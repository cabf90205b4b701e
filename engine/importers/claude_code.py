"""Claude Code session files: JSON lines under `~/.claude/projects/<folder>/<session>.jsonl`.

The format has no public description; what is done here follows what real files of versions 1.0 to 2.1 hold. One API message
is several lines (one per content block) that share `message.id` and need not be neighbours; `parentUuid` chains run through
lines of any type; nothing is removed from the file when the tool compacts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from engine.builder import Builder, Draft, drop, usage
from engine.content import text_of
from engine.importers import Importer, Source
from engine.model import Edit, Note, Observed, Part, Session, Span

NAME = "claude-code"
SYNTHETIC = "<synthetic>"  # model name of lines that the tool wrote itself: error texts, never sent
CLEARED = "[Old tool result content cleared]"  # what microcompaction leaves of a tool result
NOT_PROMPTS = ("<local-command-stdout>", "<bash-", "[Request interrupted", "<task-notification>")
REMINDERS = frozenset({"hook_additional_context", "skill_listing", "queued_command", "file", "directory", "nested_memory"})
TITLES = {"ai-title": "aiTitle", "custom-title": "customTitle"}


@dataclass(slots=True)
class Entry:
    """One line that stands in the chain of `parentUuid`s."""

    line: int
    uuid: str
    parent: str
    type: str
    side: bool
    at: float | None
    data: dict[str, Any]
    agent: str = ""

    @property
    def message(self) -> dict[str, Any]:
        found = self.data.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def spoken(self) -> bool:
        return self.type in ("user", "assistant") and bool(self.message)


@dataclass(slots=True)
class File:
    """What one pass over the lines leaves."""

    entries: dict[str, Entry] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)  # by leaf uuid; "" = of the session
    about: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    spawned: dict[str, str] = field(default_factory=dict)  # agent id -> tool_use id
    progress: dict[str, list[Entry]] = field(default_factory=dict)  # agent id -> nested messages
    unknown: dict[str, int] = field(default_factory=dict)


def sniff(source: Source) -> bool:
    return any(_ours(record) for record in source.first)


def _ours(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return False
    if "parentUuid" in record and "sessionId" in record:
        return True
    return record["type"] == "summary" and isinstance(record.get("leafUuid"), str) and "summary" in record


def read(source: Source) -> tuple[Session, ...]:
    file = _scan(source)
    entries = list(file.entries.values())
    main = [e for e in entries if not e.side] if any(e.spoken and not e.side for e in entries) else entries
    sessions = _paths(main, file, source.path.stem)
    if not sessions:
        return ()
    inline = [e for e in entries if e.side] if main is not entries else []
    subagents = (*_inline(inline, file), *_beside(source, file))
    known = {agent.id for agent in subagents}
    nested = [_nested(agent, found) for agent, found in file.progress.items() if agent not in known]
    placed = [_placed(agent, file, sessions[0]) for agent in (*subagents, *(n for n in nested if n))]
    return (replace(sessions[0], subagents=tuple(placed), branches=tuple(sessions[1:])),)


def _scan(source: Source) -> File:
    file = File()
    last = ""
    for record, line in source.records():
        if isinstance(record, Note):
            file.notes.append(record)
        elif not isinstance(record, dict):
            file.notes.append(Note("warning", line, "not a record of Claude Code (no object), skipped"))
        else:
            last = _entry(file, record, line, last)
    if file.unknown:
        what = ", ".join(f"{kind} ({count})" for kind, count in sorted(file.unknown.items()))
        file.notes.append(Note("info", 0, f"line types that carry no message were passed over: {what}"))
    return file


def _entry(file: File, record: dict[str, Any], line: int, last: str) -> str:
    """Take one record in. Gives the uuid that a line with a lost parent hangs from."""
    kind = record.get("type")
    for key in ("version", "cwd", "gitBranch", "sessionId"):
        if isinstance(record.get(key), str) and record[key]:
            file.about.setdefault(key, record[key])
    if kind == "summary" and isinstance(record.get("summary"), str):
        file.titles[str(record.get("leafUuid"))] = record["summary"]
    elif kind in TITLES and isinstance(record.get(TITLES[kind]), str):
        file.titles[""] = record[TITLES[kind]]
    uuid = record.get("uuid")
    if not isinstance(uuid, str):
        if kind not in ("summary", *TITLES):
            file.unknown[str(kind)] = file.unknown.get(str(kind), 0) + 1
        return last
    parent = record.get("parentUuid") or record.get("logicalParentUuid") or ""
    if parent and parent not in file.entries:
        file.notes.append(Note("info", line, "its parent line is not in the file; it was hung from the line before"))
        parent = last
    result = record.pop("toolUseResult", None)  # a second copy of the result: only the subagent's id is of use
    _agents(file, record, result, line)
    if uuid in file.entries:
        file.notes.append(Note("info", line, "a line with the same uuid stands earlier in the file; the first was kept"))
        return last
    agent = record.get("agentId")
    entry = Entry(line, uuid, str(parent), str(kind), record.get("isSidechain") is True, _time(record.get("timestamp")), record)
    entry.agent = agent if isinstance(agent, str) else ""
    if kind == "progress":
        entry.data = {}
    file.entries[uuid] = entry
    return last if entry.side else uuid


def _agents(file: File, record: dict[str, Any], result: Any, line: int) -> None:
    """Which tool call started which subagent, and the messages that `progress` lines carry of one."""
    content = record["message"].get("content") if isinstance(record.get("message"), dict) else None
    if isinstance(result, dict) and isinstance(result.get("agentId"), str) and isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str):
                file.spawned[result["agentId"]] = block["tool_use_id"]
    data = record.get("data")
    if record.get("type") == "progress" and isinstance(data, dict) and data.get("type") == "agent_progress":
        inner, agent = data.get("message"), str(data.get("agentId") or record.get("parentToolUseID") or "")
        if isinstance(inner, dict) and isinstance(inner.get("message"), dict):
            if isinstance(record.get("parentToolUseID"), str):
                file.spawned.setdefault(agent, record["parentToolUseID"])
            uuid = str(inner.get("uuid") or f"{agent}:{line}")
            at = _time(inner.get("timestamp") or record.get("timestamp"))
            entry = Entry(line, uuid, "", str(inner.get("type")), True, at, inner, agent)
            known = file.progress.setdefault(agent, [])
            if entry.spoken and all(e.uuid != uuid for e in known[-3:]):
                known.append(entry)


def _paths(entries: list[Entry], file: File, stem: str) -> list[Session]:
    """The path of the newest leaf first, then one session per branch that was left."""
    by = {entry.uuid: entry for entry in entries}
    left = {entry.uuid for entry in entries if entry.spoken}
    fragments: dict[str, list[Entry]] = {}
    results: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.spoken:
            for key in _belongs_to(entry):
                (fragments if entry.type == "assistant" else results).setdefault(key, []).append(entry)
    sessions: list[Session] = []
    for leaf in reversed([entry for entry in entries if entry.spoken]):
        if leaf.uuid not in left:
            continue
        path = _complete(_chain(leaf, by), fragments, results)
        left.difference_update(entry.uuid for entry in path)
        name = str(file.about.get("sessionId") or stem)
        session = _session(path, file, name if not sessions else f"{name}~{len(sessions)}", notes=not sessions)
        if sessions:
            session = replace(session, parent=sessions[0].id, at=_fork(sessions[0], session))
        sessions.append(session)
    return sessions


def _belongs_to(entry: Entry) -> Iterator[str]:
    """Ids that tie a line to others: an answer's message id, the calls that its results answer."""
    if entry.type == "assistant":
        if isinstance(entry.message.get("id"), str):
            yield entry.message["id"]
        return
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str):
            yield block["tool_use_id"]


def _chain(leaf: Entry, by: dict[str, Entry]) -> list[Entry]:
    path: list[Entry] = []
    seen: set[str] = set()
    at: Entry | None = leaf
    while at is not None and at.uuid not in seen:
        seen.add(at.uuid)
        path.append(at)
        at = by.get(at.parent)
    path.reverse()
    return path


def _complete(path: list[Entry], fragments: dict[str, list[Entry]], results: dict[str, list[Entry]]) -> list[Entry]:
    """Add what one API exchange holds besides the chain: sibling fragments of a message, results of parallel calls."""
    on = {entry.uuid for entry in path}
    whole: list[Entry] = []
    for entry in path:
        whole.append(entry)
        if entry.type != "assistant" or not entry.spoken:
            continue
        for fragment in fragments.get(str(entry.message.get("id")), ()):
            if fragment.uuid not in on:
                on.add(fragment.uuid)
                whole.append(fragment)
            for call in _calls(fragment):
                for result in results.get(call, ()):
                    if result.uuid not in on:
                        on.add(result.uuid)
                        whole.append(result)
    return whole


def _calls(entry: Entry) -> Iterator[str]:
    content = entry.message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("id"), str):
            yield block["id"]


def _session(path: list[Entry], file: File, name: str, notes: bool) -> Session:
    builder = Builder(name, NAME, _title(path, file), **file.about)
    looks: list[Callable[[Session], Iterable[Observed]]] = []
    lines: dict[int, Draft] = {}
    before: float | None = None
    attempts = 1
    for entry in path:
        if entry.type == "system":
            attempts += entry.data.get("subtype") == "api_error"
            if entry.data.get("subtype") == "microcompact_boundary":
                looks.append(_microcompacted(entry, builder))
        elif entry.type == "attachment":
            _reminder(builder, entry)
        elif entry.spoken:
            draft = _spoken(builder, entry, before, attempts)
            lines.setdefault(entry.line, draft)
            if entry.type == "assistant":
                attempts = 1
            if entry.data.get("isCompactSummary") is True:
                looks.append(_compacted(path, entry, draft))
            if _unsent(entry):
                looks.append(_never_sent(draft))
            before = entry.at if entry.type == "user" else before
    if notes:
        builder.notes.extend(file.notes)
    session = builder.build(looks)
    stubs = sum(request.output_stub for request in session.requests)
    if stubs and notes:
        what = f"{stubs} answers record fewer output tokens than their text can have; those are counted instead"
        session = replace(session, notes=(*session.notes, Note("warning", 0, what)))
    return session


def _spoken(builder: Builder, entry: Entry, before: float | None, attempts: int) -> Draft:
    message, data = entry.message, entry.data
    content = message.get("content")
    content = content if isinstance(content, (str, list)) else ""
    if entry.type == "user":
        summary = data.get("isCompactSummary") is True
        text = text_of(content[:1] if isinstance(content, list) else content).lstrip()
        aside = data.get("isMeta") is True or text.startswith(NOT_PROMPTS)
        origin = "summary" if summary else "meta" if aside else ""
        return builder.message("user", content, origin=origin, kind="summary" if summary else "", sent_at=entry.at)
    id = message.get("id") if isinstance(message.get("id"), str) else ""
    if _unsent(entry):
        builder.note("info", entry.line, f"a message of the tool itself, never sent: {text_of(content)[:80]}")
        return builder.message("assistant", content, kind="notice", sent_at=entry.at, origin="meta")
    draft = builder.message("assistant", content, id=id or entry.uuid, sent_at=entry.at)
    found = usage(message.get("usage"))
    if found is not None:
        earlier = draft.request
        builder.request(
            draft,
            id=id,
            model=str(message.get("model") or ""),
            usage=found,
            sent_at=earlier.sent_at if earlier else before,
            answered_at=entry.at,
            stop_reason=message.get("stop_reason") if isinstance(message.get("stop_reason"), str) else None,
            attempts=earlier.attempts if earlier else attempts,
        )
    return draft


def _unsent(entry: Entry) -> bool:
    return entry.type == "assistant" and (
        entry.message.get("model") == SYNTHETIC or entry.data.get("isApiErrorMessage") is True
    )


def _reminder(builder: Builder, entry: Entry) -> None:
    """Attachments that the tool puts into the prompt as reminders."""
    found = entry.data.get("attachment")
    if isinstance(found, dict) and found.get("type") in REMINDERS:
        text = text_of(found.get("content") or found.get("prompt"))
        if text:
            builder.message("user", text, origin="meta", kind="reminder", sent_at=entry.at)


def _title(path: list[Entry], file: File) -> str:
    if "" in file.titles:
        return file.titles[""]
    named = [file.titles[e.uuid] for e in path if e.uuid in file.titles]
    if named:
        return named[-1]
    for entry in path:
        if entry.type == "user" and entry.spoken and entry.data.get("isMeta") is not True:
            text = " ".join(text_of(entry.message.get("content")).split())
            if text and not text.startswith("<"):
                return text[:80]
    return ""


def _first_request(session: Session, at: int) -> int:
    """Number of the first request that was sent when block `at` existed; past the end where none was."""
    return next((request.n for request in session.requests if request.cut > at), len(session.requests))


def _compacted(path: list[Entry], summary: Entry, draft: Draft) -> Callable[[Session], Iterable[Observed]]:
    """Everything before the summary left the window, but for messages that the boundary names as preserved."""
    boundary = next((e for e in path if e.uuid == summary.parent and e.data.get("subtype") == "compact_boundary"), None)
    found = boundary.data.get("compactMetadata") if boundary else None
    meta: dict[str, Any] = found if isinstance(found, dict) else {}
    trigger = "the user asked for it" if meta.get("trigger") == "manual" else "the window was nearly full"
    facts = {key: meta[key] for key in ("trigger", "preTokens", "postTokens") if key in meta}

    def look(session: Session) -> Iterator[Observed]:
        request = _first_request(session, draft.start)
        if draft.start > 0 and request < len(session.requests):
            because = f"compacted into a summary ({trigger})"
            yield drop(request, 0, draft.start, because, "condense", summary=draft.start, **facts)

    return look


def _microcompacted(entry: Entry, builder: Builder) -> Callable[[Session], Iterable[Observed]]:
    """The named tool results were cleared for later requests; the calls stay."""
    found = entry.data.get("microcompactMetadata")
    meta: dict[str, Any] = found if isinstance(found, dict) else {}
    ids = {i for i in meta.get("compactedToolIds") or () if isinstance(i, str)}
    after = builder.drafts[-1] if builder.drafts else None

    def look(session: Session) -> Iterator[Observed]:
        request = _first_request(session, after.stop - 1) if after else 0
        if request >= len(session.requests):
            return
        for block in session.blocks[: session.requests[request].cut]:
            if block.kind == "tool_result" and block.raw.get("tool_use_id") in ids:
                raw = {**block.raw, "content": CLEARED}
                body = (Part("user", "tool_result", CLEARED, raw),)
                facts: dict[str, Any] = {key: meta[key] for key in ("trigger", "preTokens", "tokensSaved") if key in meta}
                because = "microcompacted: an old tool result was cleared, its call stays"
                yield Observed(request, Edit("clear", because, Span(block.at, block.at + 1), body, facts=facts))

    return look


def _never_sent(draft: Draft) -> Callable[[Session], Iterable[Observed]]:
    def look(session: Session) -> Iterator[Observed]:
        request = _first_request(session, draft.start)
        if request < len(session.requests):
            yield drop(request, draft.start, draft.stop, "the tool's own message, never sent")

    return look


def _inline(entries: list[Entry], file: File) -> list[Session]:
    """Subagents of versions up to 1.0: side chains inside the file, one per root."""
    by = {entry.uuid: entry for entry in entries}
    groups: dict[str, list[Entry]] = {}
    roots: dict[str, str] = {}
    for entry in entries:
        root = entry.agent or (roots.get(entry.parent, entry.uuid) if entry.parent in by else entry.uuid)
        roots[entry.uuid] = root
        groups.setdefault(root, []).append(entry)
    sessions = []
    for root, group in groups.items():
        if any(entry.spoken for entry in group):
            paths = _paths(group, File(about={**file.about, "sessionId": root}), root)
            sessions.append(replace(paths[0], branches=tuple(paths[1:])))
    return sessions


def _nested(agent: str, entries: list[Entry]) -> Session | None:
    return _session(entries, File(), agent, notes=False) if entries else None


def _beside(source: Source, file: File) -> list[Session]:
    """Subagents in files of their own: `SESSION/subagents/agent-ID.jsonl`, or `agent-ID.jsonl` beside the session."""
    agents: list[Session] = []
    for agent in source.beside():
        if agent.parent == source.path.parent and _session_of(agent) != file.about.get("sessionId"):
            continue
        try:
            read_in = Source(agent, agent.read_bytes())
        except OSError:
            continue
        scanned = _scan(read_in)
        if sessions := _paths(list(scanned.entries.values()), scanned, agent.stem):
            name = agent.stem.removeprefix("agent-")
            _meta(agent, name, file)
            agents.append(replace(sessions[0], id=name, branches=tuple(sessions[1:])))
    return agents


def _meta(path: Path, agent: str, file: File) -> None:
    try:
        call = orjson.loads(path.with_suffix(".meta.json").read_bytes()).get("toolUseId")
    except (OSError, ValueError, AttributeError):
        return
    if isinstance(call, str):
        file.spawned.setdefault(agent, call)


def _session_of(path: Path) -> str:
    try:
        with path.open("rb") as lines:
            return str(orjson.loads(lines.readline()).get("sessionId"))
    except (OSError, ValueError, AttributeError):
        return ""


def _placed(agent: Session, file: File, main: Session) -> Session:
    """Link a subagent to the call that started it: by id, else by the prompt that both hold."""
    call = file.spawned.get(agent.id)
    prompt = agent.blocks[0].text if agent.blocks else ""
    for block in main.blocks:
        if block.kind == "tool_use" and isinstance(block.raw, dict):
            given = block.raw.get("input")
            same = isinstance(given, dict) and given.get("prompt") == prompt
            if block.raw.get("id") == call or (call is None and prompt and same):
                return replace(agent, parent=main.id, at=block.at)
    return replace(agent, parent=main.id)


def _fork(main: Session, branch: Session) -> int:
    """First block of `branch` that `main` does not share."""
    pairs = zip(main.blocks, branch.blocks, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.digest != b.digest), min(len(main.blocks), len(branch.blocks)))


def _time(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return None


IMPORTER = Importer(NAME, "Claude Code session (JSON lines)", sniff, read)
