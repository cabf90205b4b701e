"""A session whose log records its requests whole: the same requests, with the envelopes that were really sent.

The transcript says which requests make a path, what each was billed and what it was answered; the recorded bodies, of the log
or of a folder of raw bodies, say what each carried, and `unrecorded` infers what those without a record did. Bodies are laid
along each other as those of an API log are, so that system prompt, tools, reminders and re-injected files are blocks, and what
a compaction left out is seen in the first body without it. Holds no parsing: `paths` reads the transcript, `api_requests`
rebuilds the bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from msgspec import structs

from turnscope.importers.claude_code.api_requests import ApiRequest
from turnscope.importers.claude_code.body_folders import add_raw_bodies
from turnscope.importers.claude_code.lines import File
from turnscope.importers.claude_code.paths import UNANSWERED
from turnscope.importers.claude_code.unrecorded import STATIC_ROLES, Unrecorded, find_answer, read_message
from turnscope.reading.alignment import Alignment
from turnscope.reading.placeholders import Label
from turnscope.reading.recorded_body import RecordedBody, RecordedMessage, parse_body
from turnscope.reading.source import Source
from turnscope.session.builder import Builder
from turnscope.session.model import EXACT_REQUESTS, JSON, Fork, Note, ObservedEdit, Request, Session, join_path

REMINDER = "<system-reminder>"
TOOL, PROMPT, META, SUMMARY = "tool", "prompt", "meta", "summary"
REFUSED = "the provider refused it, or it was interrupted"


def _find_origins(source: Source, file: File) -> Iterator[Source]:
    """Files in the folder of a resumed or forked session that hold the requests of the answers which it copies.

    Args:
        source: The session's file.
        file: Its lines, which name the sessions that were copied.
    """
    for session in file.origins:
        is_other_file = session == PurePath(session).name != source.path.stem  # a name that leads elsewhere is none
        if is_other_file and (found := source.open_sibling(f"{session}.jsonl")) is not None:
            yield found


def attach_exact_requests(session: Session, file: File, source: Source) -> Session:
    """The session with the envelopes that its log records, and between them inferred ones; as it is where it records none.

    Args:
        session: a session as its transcript has it.
        file: the lines that it was made of; records that lie elsewhere are added to them.
        source: the main session's file. Records of what it copies, and raw bodies, may lie near it.
    """
    for origin in _find_origins(source, file):
        file.api.add_origin(origin)
    add_raw_bodies(source, file)
    if not file.api:
        return session
    reading = _Reading(file)
    paths = (session, *(join_path(session, session.forks, number + 1) for number in range(len(session.forks))))
    recorded = [reading.find_bodies(path) for path in paths]
    nearest = next((body for bodies in recorded for body in bodies if body), None)
    if nearest is None:
        return session
    main, *branches = (reading.lay_out(path, bodies, nearest) for path, bodies in zip(paths, recorded, strict=True))
    forks = [_fork(main, branch, fork) for branch, fork in zip(branches, session.forks, strict=True)]
    return structs.replace(main, forks=tuple(forks), subagents=session.subagents)


@dataclass(slots=True)
class _Reading:
    """The bodies of a file, taken apart once."""

    file: File
    parts: dict[str, RecordedMessage] = field(default_factory=dict)  # messages by hash
    statics: dict[str, RecordedBody] = field(default_factory=dict)  # system prompts and tools by hash
    kinds: dict[str, str] = field(default_factory=dict)  # kind of a text that the tool injected

    def __post_init__(self) -> None:
        for entry in self.file.entries.values():
            if entry.put:
                self.kinds |= {part: entry.put.kind for part in entry.put.parts if isinstance(part, str)}
            elif entry.summary and isinstance(content := entry.message.get("content"), str):
                self.kinds[content] = SUMMARY

    def find_record(self, request: Request) -> ApiRequest | None:
        """The record of a request; None where the log has none."""
        return self.file.api.requests.get(self.file.refs.get(request.id, ""))

    def find_bodies(self, path: Session) -> list[RecordedBody | None]:
        """The recorded body of each request of a path; None where the log does not hold it whole."""
        records = map(self.find_record, path.requests)
        return [self.body(record) if record else None for record in records]

    def lay_out(self, path: Session, bodies: list[RecordedBody | None], nearest: RecordedBody) -> Session:
        """One path by its bodies: those that were recorded, and what is inferred of the others.

        Args:
            path: The path, as its transcript has it.
            bodies: What was recorded of each of its requests.
            nearest: A recorded body of the session, for a path without any.
        """
        builder = Builder(path.id, path.source, path.title, **path.about)
        builder.notes, builder.window = list(path.notes), path.window
        alignment = Alignment(builder, label=self.label)
        numbers: list[int] = []  # of the requests of the transcript
        inferred: list[int] = []  # those of them without a record
        compacted = {seen.request for seen in path.observed if seen.edit.action == "condense"}
        laid: list[ApiRequest] = []  # the records of the session, in its order: the unanswered ones among them
        for request, known, body in zip(path.requests, bodies, Unrecorded(path, bodies).fill(nearest), strict=True):
            record = self.find_record(request)
            if known and record:
                for lost, without in self.iter_unanswered(laid[-1].line if laid else 0, record):
                    alignment.add_request(without, None, **_describe_unanswered(lost))
                    laid.append(lost)
                laid.append(record)
            else:
                inferred.append(alignment.requests)
            numbers.append(alignment.requests)
            answer = read_message(path, find_answer(request))
            alignment.add_request(body, answer, compacted=request.n in compacted, **_fields(request))
        self.append_unsent(alignment, path)
        builder.notes += (*_note_left_out(laid), *(self.note_unanswered(laid[-1], path) if laid else ()))
        session = alignment.build()
        about = {**session.about, EXACT_REQUESTS: self.describe(laid, inferred)}
        return structs.replace(session, about=about, observed=_name_compactions(session, path.observed, numbers))

    def append_unsent(self, alignment: Alignment, path: Session) -> None:
        """Append what stands behind the last answer of a path: no request has carried it."""
        last = path.requests[-1].stop if path.requests else 0
        for message in path.messages:
            if message.start >= last and message.role not in STATIC_ROLES:
                alignment.append(read_message(path, message), message.sent_at)

    def describe(self, laid: Sequence[ApiRequest], inferred: Sequence[int]) -> dict[str, JSON]:
        """What `EXACT_REQUESTS` says of a path: how many requests are recorded whole, and proven, and which are inferred."""
        whole = [request for request in laid if not request.cut]
        bodies = sum(request.raw for request in whole)
        counts: dict[str, JSON] = {"requests": len(whole), "proven": self.file.api.count_equal(whole)}
        return counts | ({"bodies": bodies} if bodies else {}) | ({"inferred": list(inferred)} if inferred else {})

    def body(self, request: ApiRequest) -> RecordedBody | None:
        """A recorded body taken apart, each message and each version of system and tools once."""
        api = self.file.api
        messages = [self.message(hash) for hash in request.messages]
        if request.shape not in api.shapes or not messages or None in messages:
            return None
        static = self.statics.get(request.shape)
        if static is None:
            static = self.statics[request.shape] = parse_body({**api.shapes[request.shape], "messages": []})
        marks = [[list(path), value] for path, value in request.marks]
        settings = {**static.settings, **request.params}
        return RecordedBody([m for m in messages if m], static.system, static.tools, settings, marks, [])

    def message(self, hash: str) -> RecordedMessage | None:
        """A recorded message taken apart; None where the file does not hold it."""
        if hash not in self.parts and (found := self.file.api.find(hash)) is not None:
            self.parts[hash] = parse_body({"messages": [found]}).messages[0]
        return self.parts.get(hash)

    def iter_unanswered(self, after: int, until: ApiRequest) -> Iterator[tuple[ApiRequest, RecordedBody]]:
        """Requests that were sent between two answered ones (by line) and have no answer in the log."""
        answered = self.file.api.paused.union(self.file.refs.values())
        for request in self.file.api.requests.values():
            lost = request.id not in answered and request.source == until.source
            if lost and after < request.line < until.line and (body := self.body(request)):
                yield request, body

    def note_unanswered(self, last: ApiRequest, path: Session) -> Iterator[Note]:
        """That requests behind the last answered one were recorded, where the transcript does not show that."""
        behind = (one for one in self.file.api.requests.values() if one.line > last.line and one.source == last.source)
        answered = self.file.api.paused.union(self.file.refs.values())
        lost = next((request for request in behind if request.id not in answered), None)
        if lost and all(note.what != UNANSWERED for note in path.notes):
            yield Note("info", lost.line, UNANSWERED)

    def label(self, message: RecordedMessage) -> Label:
        """What a message of a body is, and the kind of each of its blocks ("" = as its type says)."""
        if message.role != "user":
            return Label()
        texts = [_text(part) for part in message.parts]
        kinds = [self.kinds.get(text, "reminder" if text.startswith(REMINDER) else "") for text in texts]
        results = any(isinstance(part, dict) and part.get("type") == "tool_result" for part in message.parts)
        spoken = any(text and not kind for text, kind in zip(texts, kinds, strict=True))
        origin = SUMMARY if SUMMARY in kinds else PROMPT if spoken and not results else TOOL if results else META
        return Label(origin, kinds)


def _text(part: JSON) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _fields(request: Request) -> dict[str, Any]:
    """What the transcript adds to the body of a request."""
    placed = {"n", "turn", "cut", "stop", "settings", "output_stub"}
    return {name: getattr(request, name) for name in request.__struct_fields__ if name not in placed}


def _describe_unanswered(request: ApiRequest) -> dict[str, Any]:
    return {"model": str(request.params.get("model") or ""), "sent_at": request.sent_at, "stop_reason": "error"}


def _note_left_out(sent: Iterable[ApiRequest]) -> Iterator[Note]:
    """What the records of requests leave out, by their own account."""
    for request in sent:
        if request.cut:
            yield Note("warning", request.line, "the record of a request leaves out texts that were sent")
        if request.withheld:
            names = ", ".join(request.withheld)
            yield Note("info", request.line, f"the record of a request leaves out parameters that were sent: {names}")


def _name_compactions(session: Session, recorded: Sequence[ObservedEdit], numbers: Sequence[int]) -> tuple[ObservedEdit, ...]:
    """What was observed, with the tool's own account of its compactions in place of what the bodies alone show."""
    accounts: Mapping[int, ObservedEdit] = {
        numbers[seen.request]: seen for seen in recorded if seen.edit.action == "condense" and seen.request < len(numbers)
    }
    named: list[ObservedEdit] = []
    for seen in session.observed:
        account = accounts.get(seen.request)
        left = seen.edit.action in ("drop", "condense") and not seen.edit.facts.get("superseded")
        if account and left:
            facts = {name: value for name, value in account.edit.facts.items() if name != "summary"}  # an address of the log's
            edit = structs.replace(seen.edit, action="condense", because=account.edit.because, facts=facts)
            named.append(structs.replace(seen, edit=edit))
        else:
            named.append(seen)
    return tuple(named)


def _fork(main: Session, branch: Session, old: Fork) -> Fork:
    """What a branch adds to the main path: all behind the messages and requests that both begin with."""
    requests = sum(1 for _ in _iter_common(main.requests, branch.requests))
    shared = sum(1 for _ in _iter_common(main.messages, branch.messages))
    last = branch.messages[shared - 1].stop if shared else 0
    start = min(last, main.requests[requests - 1].stop) if requests else 0
    start = next((a.at for a, b in zip(main.blocks[:start], branch.blocks, strict=False) if a.digest != b.digest), start)
    requests = sum(request.stop <= start for request in branch.requests[:requests])
    own = structs.replace(
        branch,
        blocks=branch.blocks[start:],
        messages=tuple(message for message in branch.messages if message.start >= start),
        requests=branch.requests[requests:],
        observed=tuple(seen for seen in branch.observed if seen.request >= requests),
        notes=old.own.notes,
        parent=main.id,
        at=start,
        subagents=old.own.subagents,
    )
    relinked = tuple(b for a, b in zip(main.blocks[:start], branch.blocks, strict=False) if a.pair != b.pair)
    return Fork(own, 0, start, relinked)


def _iter_common(a: Sequence[Any], b: Sequence[Any]) -> Iterator[Any]:
    for one, other in zip(a, b, strict=False):
        if one != other:
            return
        yield one
