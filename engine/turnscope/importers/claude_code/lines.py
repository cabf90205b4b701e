"""The lines of one file: read in one pass, and their chain of parents repaired.

Holds what a line is and what becomes of lines that are lost, doubled or moved. It builds no messages (see `paths`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

from turnscope.importers.claude_code.api_requests import TYPES, ApiRequests, parse_time
from turnscope.importers.claude_code.attachments import Injection, get_fields, get_name, is_known, parse_injection
from turnscope.importers.claude_code.limits import WindowRecords
from turnscope.importers.claude_code.stored import replace_inputs
from turnscope.reading.source import Source
from turnscope.session.content import dumps, extract_block_text
from turnscope.session.model import Note
from turnscope.session.usage import parse_usd

TITLES = {"ai-title": "aiTitle", "custom-title": "customTitle"}  # the later one here wins
ABOUT = ("version", "cwd", "gitBranch")
LINKED = frozenset({"user", "assistant", "system", "attachment", "progress"})  # types of lines in the chain of parents
# Types of lines aside that hold nothing of the conversation. What others hold is not known.
WITHOUT_MESSAGE = frozenset(
    "agent-color agent-name agent-setting atis-latch attribution-snapshot file-history-delta file-history-snapshot last-prompt "
    "mode permission-mode pr-link queue-operation speculation-accept tag task-summary tools-used worktree-state".split()
)
NOTED = 5  # notes of one kind with a line number of their own; the rest is counted


class Entry(Struct):
    """One line that stands in the chain of `parentUuid`s."""

    line: int
    uuid: str
    parent: str
    side: bool
    data: dict[str, Any]
    at: float | None = None
    agent: str = ""
    type: str = ""
    message: dict[str, Any] = {}
    id: str = ""  # of the message that this line is a part of
    given: str = ""  # the parent that the line itself names
    spoken: bool = False  # it holds a message, or a part of one
    summary: bool = False  # it holds the summary that a compaction left
    put: Injection | None = None  # what the tool injected

    def __post_init__(self) -> None:
        data = self.data
        self.given = self.parent
        self.type = kind = as_string(data.get("type"))
        message = data.get("message")
        if isinstance(message, dict):
            self.message, self.id = message, as_string(message.get("id"))
            self.spoken = bool(message) and kind in ("user", "assistant")
        self.summary = kind == "user" and data.get("isCompactSummary") is True
        self.put = parse_injection(data) if kind == "attachment" else None

    def get_object(self, *keys: str) -> dict[str, Any]:
        """The object at the end of a path of keys; an empty one where there is none."""
        found: Any = self.data
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(slots=True, eq=False)
class Chain:
    """How far the chain of parents is repaired, and what the lines to come need to know of it."""

    entries: int = 0
    last: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)  # preserved line -> the summary that it now follows
    lost: set[str] = field(default_factory=set)  # lines that others name and that are not in the file
    preserved: dict[str, frozenset[str]] = field(default_factory=dict)  # compact boundary -> lines that it kept
    notes: list[Note] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """What the lines leave. More may be fed to it as the file grows."""

    entries: dict[str, Entry] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)  # by leaf uuid, or by the type of line that gave it
    about: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, None] = field(default_factory=dict)  # every session id that a line names, in order
    seen: list[Note] = field(default_factory=list)  # of single lines
    spawned: dict[str, str] = field(default_factory=dict)  # agent id -> tool_use id
    progress: dict[str, list[Entry]] = field(default_factory=dict)  # agent id -> nested messages
    aside: Tally[str] = field(default_factory=Tally)  # lines of known types that hold no message
    unknown: dict[str, list[int]] = field(default_factory=dict)  # lines of unknown types: [how many, their bytes]
    unsent: Tally[str] = field(default_factory=Tally)  # attachments by type
    strange: dict[tuple[str, bool], list[int]] = field(default_factory=dict)  # unknown types: [how many, their characters]
    chain: Chain = field(default_factory=Chain)
    snapshots: dict[str, tuple[Entry, int]] = field(default_factory=dict)  # the newest of each strand, and its number
    completed: bool = False  # a line that was linked before says more now
    windows: WindowRecords = field(default_factory=WindowRecords)
    api: ApiRequests = field(default_factory=ApiRequests)  # requests that the log records whole
    refs: dict[str, str] = field(default_factory=dict)  # answer -> the recorded request that it answers
    origins: dict[str, None] = field(default_factory=dict)  # sessions whose answers were copied here, with their ids
    replaced: dict[str, str] = field(default_factory=dict)  # call -> what was sent in place of its result
    run_usd: float | None = None  # the tool's own sum so far; None where an answer came after it

    def add_note(self, severity: Literal["info", "warning", "error"], line: int, what: str) -> None:
        """Note something about a line.

        Args:
            severity: How much it matters.
            line: The line in the file, from 1; 0 = the file as a whole.
            what: A sentence; what stands before a colon is its kind.
        """
        self.seen.append(Note(severity, line, what))

    @property
    def preserved_lines(self) -> dict[str, frozenset[str]]:
        return self.chain.preserved

    def boundary_of(self, summary: Entry) -> Entry | None:
        """The line about the compaction that left a summary; attachments may be between the two."""
        found = self.entries.get(summary.parent)
        while found is not None and found.type == "attachment":
            found = self.entries.get(found.parent)
        return found if found is not None and found.data.get("subtype") == "compact_boundary" else None

    def make_notes(self, last: Iterable[Note] = ()) -> tuple[Note, ...]:
        """What a person should know; of many notes alike only the first few with their line. `last`: of a last line."""
        tally: Tally[str] = Tally()
        found: list[Note] = []
        for note in (*self.seen, *last, *self.chain.notes):
            kind = note.what.partition(":")[0]
            tally[kind] += 1
            if tally[kind] <= NOTED:
                found.append(note)
        more = ((kind, count - NOTED) for kind, count in tally.items() if count > NOTED)
        found += [Note("info", 0, f"{count} more lines like this: {kind}") for kind, count in more]
        if self.aside:
            what = ", ".join(f"{kind} ({count})" for kind, count in sorted(self.aside.items()))
            found.append(Note("info", 0, f"line types that carry no message were skipped: {what}"))
        if self.unknown:
            what = ", ".join(f"{kind} ({count}, {size:,} bytes)" for kind, (count, size) in sorted(self.unknown.items()))
            skipped = sum(size for _, size in self.unknown.values())
            found.append(Note("info", 0, f"lines of unknown types were skipped: {what}", skipped))
        if self.unsent:
            what = ", ".join(f"{kind} ({count})" for kind, count in sorted(self.unsent.items()))
            found.append(Note("info", 0, f"attachments that are not sent, or hold nothing: {what}"))
        for worded in (False, True):
            rows = [(kind, count, size) for (kind, own), (count, size) in sorted(self.strange.items()) if own == worded]
            if rows:
                what = ", ".join(f"{kind} ({count}, {size:,} characters)" for kind, count, size in rows)
                done = "taken as the log words them" if worded else "skipped"
                skipped = 0 if worded else sum(size for *_, size in rows)
                found.append(
                    Note("info" if worded else "warning", 0, f"attachments of unknown types were {done}: {what}", skipped)
                )
        return tuple(found)


def scan(source: Source) -> File:
    """Read a file's lines and repair their chain."""
    file = File()
    feed(file, source.iter_records(), source.on_text)
    return file


def feed(file: File, records: Iterable[tuple[Any, int]], hear: Callable[[str], object] | None = None) -> bool:
    """Take further lines in. Gives whether what was there before is as it was: False where a lost line has come, or one that
    completes what an earlier one says.

    Args:
        file: What the lines before left. It is changed.
        records: Parsed lines, or notes about them, each with its number from 1.
        hear: Gets each text of their messages; None = nobody does.
    """
    for record, line in records:
        if isinstance(record, Note):
            file.seen.append(record)
        elif not isinstance(record, dict):
            file.add_note("warning", line, "not a record of Claude Code (no object), skipped")
        else:
            _add_entry(file, record, line)
            if hear and isinstance(message := record.get("message"), dict):
                _pass_text_on(message.get("content"), hear)
    kept = file.chain.lost.isdisjoint(islice(file.entries, file.chain.entries, None)) and not file.completed
    file.completed = False
    if not kept:
        for entry in file.entries.values():
            entry.parent = entry.given
        file.chain = Chain()
    _link(file)
    return kept


def _add_entry(file: File, record: dict[str, Any], line: int) -> None:
    """Take one record in."""
    get = record.get
    kind = as_string(get("type"))
    file.windows.add(record)
    if len(file.about) < len(ABOUT):
        file.about = {key: record[key] for key in ABOUT if isinstance(get(key), str) and record[key]} | file.about
    if isinstance(session := get("sessionId"), str):
        file.sessions[session] = None
    if kind == "summary" and isinstance(get("summary"), str):
        file.titles[as_string(get("leafUuid"))] = record["summary"]
    elif kind in TITLES and isinstance(get(TITLES[kind]), str):
        file.titles[kind] = record[TITLES[kind]]
    uuid = get("uuid")
    if not isinstance(uuid, str):
        _add_aside(file, kind, record, line)
        return
    parent = get("parentUuid") or get("logicalParentUuid")
    result = record.pop("toolUseResult", None)  # a second copy of the result: only the subagent's id is of use
    if kind == "progress" or isinstance(result, dict):
        _read_agents(file, record, result, line)
    if uuid in file.entries:
        file.add_note("info", line, "a line with the same uuid stands earlier in the file; the first was kept")
        return
    at, side = parse_time(get("timestamp")), get("isSidechain") is True
    data = {"type": kind} if kind == "progress" else record
    entry = Entry(line, uuid, as_string(parent), side, data, at, as_string(get("agentId")))
    if kind in ("user", "assistant") and not entry.message:
        file.add_note("warning", line, "a message without content, skipped")
    file.entries[uuid] = entry
    if kind not in LINKED:
        _count_unknown(file, kind, record)
    if entry.spoken:
        _refer(file, entry)
    elif kind == "attachment":
        _count_unsent(file, entry)
        _complete_snapshot(file, entry)


def _add_aside(file: File, kind: str, record: dict[str, Any], line: int) -> None:
    """Take in a record that is no line of the conversation."""
    if kind in TYPES:
        file.api.add(record, line)
    elif kind == "cost-state":
        complete = record.get("hasUnknownModelCost") is not True
        file.run_usd = parse_usd(record.get("totalCostUSD")) if complete else None
    elif kind == "content-replacement":
        _add_replacements(file, record)
    elif kind in ("user", "assistant"):
        file.add_note("warning", line, "a message without a uuid, skipped")
    elif kind in WITHOUT_MESSAGE:
        file.aside[kind] += 1
    elif kind not in ("summary", *TITLES):
        _count_unknown(file, kind, record)


def _count_unknown(file: File, kind: str, record: Mapping[str, Any]) -> None:
    row = file.unknown.setdefault(kind[:60] or "no type", [0, 0])
    row[:] = row[0] + 1, row[1] + len(dumps(record))


def _complete_snapshot(file: File, entry: Entry) -> None:
    """A snapshot of the prompt is written twice: before the first request without tools, and again with them.

    The first of the two then says what both say, for the first request carried the tools, too.
    """
    fields = get_fields(entry.data)
    if get_name(fields) != "prompt_snapshot":
        return
    strand = entry.agent if entry.side else ""
    first, number = file.snapshots.get(strand, (entry, 0))
    if fields.get("tools") and fields.get("systemPrompt") == get_fields(first.data).get("systemPrompt"):
        first.data = {**first.data, "attachment": fields}
        file.completed = file.completed or number < file.chain.entries
    file.snapshots[strand] = (entry, len(file.entries) - 1)


def _refer(file: File, entry: Entry) -> None:
    """Note a message for the requests that hold it, and which recorded request an answer belongs to."""
    file.api.hear(entry.message, replace_inputs(entry.message.get("content"), entry.data))
    if entry.type == "assistant" and entry.message.get("usage"):
        file.run_usd = None
    ref, origin = as_string(entry.data.get("requestRef")), as_string(entry.data.get("requestSessionId"))
    if ref and entry.id:
        file.refs[entry.id] = ref
        if origin and origin != entry.data.get("sessionId"):
            file.origins[origin] = None


def _add_replacements(file: File, record: Mapping[str, Any]) -> None:
    """Note the results that the tool sent a shorter form of, which the transcript holds whole."""
    listed = record.get("replacements")
    for row in listed if isinstance(listed, list) else ():
        if isinstance(row, dict) and row.get("kind") == "tool-result" and isinstance(row.get("replacement"), str):
            file.replaced[as_string(row.get("toolUseId"))] = row["replacement"]


def _pass_text_on(content: Any, hear: Callable[[str], object]) -> None:
    """Say the texts of a message, as its blocks will have them."""
    for part in content if isinstance(content, list) else (content,):
        hear(extract_block_text(as_string(part.get("type")), part) if isinstance(part, dict) else as_string(part))


def _count_unsent(file: File, entry: Entry) -> None:
    """Count an attachment that is not sent, or of which that is not known."""
    name = get_name(get_fields(entry.data))
    if not is_known(entry.data):
        row = file.strange.setdefault((name, entry.put is not None), [0, 0])
        row[:] = row[0] + 1, row[1] + len(dumps(entry.data.get("attachment")))
    elif entry.put is None and name != "hook_success":  # most hooks have nothing to say to the model
        file.unsent[name] += 1


def _link(file: File) -> None:
    """Repair the chain of parents: lines whose parent is lost, and what continues from messages that a compaction preserved."""
    chain = file.chain
    for entry in islice(file.entries.values(), chain.entries, None):
        strand = (entry.agent or entry.uuid) if entry.side else ""
        if entry.parent in chain.moved:
            entry.parent = chain.moved[entry.parent]
        elif entry.parent and entry.parent not in file.entries:
            chain.lost.add(entry.parent)
            entry.parent = chain.last.get(strand, "")
            where = "; it was hung from the line before" if entry.parent else ""
            chain.notes.append(Note("info", entry.line, f"its parent line is not in the file{where}"))
        elif not entry.parent and (entry.summary or entry.agent):  # an old summary; a subagent that was resumed
            entry.parent = chain.last.get(strand, "")
        if entry.data.get("subtype") == "compact_boundary":
            chain.preserved[entry.uuid] = preserved = _find_preserved(entry, file)
            chain.moved.update(dict.fromkeys(preserved, entry.uuid))
        elif entry.summary and (boundary := file.boundary_of(entry)) is not None:
            chain.moved.update(dict.fromkeys(chain.preserved.get(boundary.uuid, ()), entry.uuid))
        chain.last[strand] = entry.uuid
    chain.entries = len(file.entries)


def _find_preserved(boundary: Entry, file: File) -> frozenset[str]:
    """The lines that a compaction left in the window with its summary: named one by one, or from head to tail."""
    segment, named = (
        boundary.get_object("compactMetadata", "preservedSegment"),
        boundary.get_object("compactMetadata", "preservedMessages"),
    )
    uuids = as_strings(named.get("uuids"))
    preserved = {uuid for uuid in uuids if uuid in file.entries}
    chain: list[str] = []
    at = segment.get("tailUuid")
    while isinstance(at, str) and at in file.entries and len(chain) <= len(file.entries):
        chain.append(at)
        if at == segment.get("headUuid"):
            preserved.update(chain)
            break
        at = file.entries[at].parent
    file.chain.lost.update(uuid for uuid in (*uuids, as_string(at)) if uuid and uuid not in file.entries)
    return frozenset(preserved)


def as_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read_agents(file: File, record: dict[str, Any], result: Any, line: int) -> None:
    """Which tool call started which subagent, and the messages that `progress` lines carry of one."""
    content = record["message"].get("content") if isinstance(record.get("message"), dict) else None
    if isinstance(result, dict) and isinstance(result.get("agentId"), str) and isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str):
                file.spawned.setdefault(result["agentId"], block["tool_use_id"])  # a later one resumed it
    data = record.get("data")
    if record.get("type") == "progress" and isinstance(data, dict) and data.get("type") == "agent_progress":
        inner, agent = data.get("message"), as_string(data.get("agentId") or record.get("parentToolUseID"))
        if isinstance(inner, dict) and isinstance(inner.get("message"), dict):
            if isinstance(record.get("parentToolUseID"), str):
                file.spawned.setdefault(agent, record["parentToolUseID"])
            uuid = as_string(inner.get("uuid")) or f"{agent}:{line}"
            at = parse_time(inner.get("timestamp") or record.get("timestamp"))
            entry = Entry(line, uuid, "", True, inner, at, agent)
            known = file.progress.setdefault(agent, [])
            if entry.spoken and all(e.uuid != uuid for e in known[-3:]):
                known.append(entry)
