"""A session whose log records its requests whole: the same requests, with the envelopes that were really sent.

The transcript says which requests make a path, what each was billed and what it was answered; the recorded bodies say what
each carried. Bodies are laid along each other as those of an API log are, so that system prompt, tools, reminders and
re-injected files are blocks, and what a compaction left out is seen in the first body without it. Holds no parsing: `paths`
reads the transcript, `api_requests` rebuilds the bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turnscope.importers.claude_code.api_requests import ApiRequest, ApiRequests, as_blocks
from turnscope.importers.claude_code.lines import File
from turnscope.reading.align import Alignment
from turnscope.reading.body import Msg, RecordedBody, take_apart
from turnscope.reading.standins import Label
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Fork, Message, Observed, Request, Session, joined

EXACT = "exact_requests"  # key of Session.about: how many requests were recorded whole, of how many
REMINDER = "<system-reminder>"
TOOL, PROMPT, META, SUMMARY = "tool", "prompt", "meta", "summary"
REFUSED = "the provider refused it, or it was interrupted"


def with_exact_requests(session: Session, file: File) -> Session:
    """The session with the envelopes that its log records; the session as it is where the log records none.

    A request without a record (of an earlier version, or copied from another file) carries what was said until then.
    """
    if not file.api:
        return session
    reading = _Reading(file)
    main = reading.lay_out(session)
    if main is None:
        return session
    forks: list[Fork] = []
    for number in range(len(session.forks)):
        branch = reading.lay_out(joined(session, session.forks, number + 1))
        if branch is None:
            return session  # its blocks would stand at other addresses than those of the main path
        forks.append(_fork(main, branch, session.forks[number]))
    return structs.replace(main, forks=tuple(forks), subagents=session.subagents)


@dataclass(slots=True)
class _Reading:
    """The bodies of a file, taken apart once."""

    file: File
    parts: dict[str, Msg] = field(default_factory=dict)  # messages by hash
    statics: dict[str, RecordedBody] = field(default_factory=dict)  # system prompts and tools by hash
    kinds: dict[str, str] = field(default_factory=dict)  # kind of a text that the tool injected

    def __post_init__(self) -> None:
        for entry in self.file.entries.values():
            if entry.put:
                self.kinds |= {part: entry.put.kind for part in entry.put.parts if isinstance(part, str)}
            elif entry.summary and isinstance(content := entry.message.get("content"), str):
                self.kinds[content] = SUMMARY

    def lay_out(self, path: Session) -> Session | None:
        """One path by its recorded bodies; None where none of its requests has one."""
        api, refs = self.file.api, self.file.refs
        answered = {refs.get(request.id): request for request in path.requests}
        bodies = {id: body for id in answered if id in api.requests and (body := self.body(api.requests[id]))}
        if not bodies:
            return None
        builder = Builder(path.id, path.source, path.title, **path.about)
        builder.notes, builder.window = list(path.notes), path.window
        alignment = Alignment(builder, label=self.label)
        numbers: list[int] = []  # of the requests of the transcript
        compacted = {seen.request for seen in path.observed if seen.edit.action == "condense"}
        said, at, after = list(path.messages), 0, -1
        for request in path.requests:
            ref = refs.get(request.id, "")
            body = bodies.get(ref)
            if body:
                for lost in self.unanswered(api, after, api.requests[ref]):
                    alignment.request(lost[0], None, **_unanswered(lost[1]))
                after = api.requests[ref].line
            while at < len(said) and said[at].stop <= request.cut:
                if body is None:
                    self.append(alignment, path, said[at])
                at += 1
            at = at + 1 if at < len(said) else at
            answer = _message(path, Message(request.cut, request.stop, "assistant"))
            numbers.append(alignment.requests)
            fields = _fields(request)
            if body:
                alignment.request(body, answer, compacted=request.n in compacted, **fields)
            else:
                draft = alignment.append(answer, request.answered_at)
                draft.id = request.id
                builder.request(draft, settings=request.settings, **fields)
                alignment.requests += 1
        for message in said[at:]:
            self.append(alignment, path, message)
        session = alignment.build()
        about = {**session.about, EXACT: [len(bodies), len(path.requests)]}
        return structs.replace(session, about=about, observed=_named(session, path.observed, numbers))

    def body(self, request: ApiRequest) -> RecordedBody | None:
        """A recorded body taken apart, each message and each version of system and tools once."""
        api = self.file.api
        messages = [self.message(hash) for hash in request.messages]
        if request.shape not in api.shapes or not messages or None in messages:
            return None
        static = self.statics.get(request.shape)
        if static is None:
            static = self.statics[request.shape] = take_apart({**api.shapes[request.shape], "messages": []})
        marks = [[list(path), value] for path, value in request.marks]
        settings = {**static.settings, **request.params}
        return RecordedBody([m for m in messages if m], static.system, static.tools, settings, marks, [])

    def message(self, hash: str) -> Msg | None:
        """A recorded message taken apart; None where the file does not hold it."""
        if hash not in self.parts and (found := self.file.api.find(hash)) is not None:
            self.parts[hash] = take_apart({"messages": [found]}).messages[0]
        return self.parts.get(hash)

    def unanswered(self, api: ApiRequests, after: int, until: ApiRequest) -> Iterator[tuple[RecordedBody, ApiRequest]]:
        """Requests that were sent between two answered ones and have no answer in the log."""
        answered = set(self.file.refs.values())
        for request in api.requests.values():
            between = after < request.line < until.line and after >= 0
            if between and request.id not in answered and request.source == until.source and (body := self.body(request)):
                yield body, request

    def append(self, alignment: Alignment, path: Session, message: Message) -> None:
        """A message of the transcript that no recorded body has held so far."""
        found = _message(path, message)
        if found.key not in alignment.where:
            alignment.append(found, message.sent_at)

    def label(self, message: Msg) -> Label:
        """What a message of a body is, and the kind of each of its blocks ("" = as its type says)."""
        if message.role != "user":
            return Label()
        texts = [_text(part) for part in message.parts]
        kinds = [self.kinds.get(text, "reminder" if text.startswith(REMINDER) else "") for text in texts]
        results = any(isinstance(part, dict) and part.get("type") == "tool_result" for part in message.parts)
        said = any(text and not kind for text, kind in zip(texts, kinds, strict=True))
        origin = SUMMARY if SUMMARY in kinds else PROMPT if said and not results else TOOL if results else META
        return Label(origin, kinds)


def _message(path: Session, message: Message) -> Msg:
    raws = [block.raw for block in path.blocks[message.start : message.stop]]
    content = raws[0] if len(raws) == 1 and isinstance(raws[0], str) else raws
    return take_apart({"messages": [{"role": message.role, "content": as_blocks(content)}]}).messages[0]


def _text(part: JSON) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _fields(request: Request) -> dict[str, Any]:
    """What the transcript knows of a request, beside what its body says."""
    placed = {"n", "turn", "cut", "stop", "settings", "output_stub"}
    return {name: getattr(request, name) for name in request.__struct_fields__ if name not in placed}


def _unanswered(request: ApiRequest) -> dict[str, Any]:
    return {"model": str(request.params.get("model") or ""), "sent_at": request.sent_at, "stop_reason": "error"}


def _named(session: Session, recorded: Sequence[Observed], numbers: Sequence[int]) -> tuple[Observed, ...]:
    """What was observed, with the tool's own account of its compactions in place of what the bodies alone tell."""
    accounts: Mapping[int, Observed] = {
        numbers[seen.request]: seen for seen in recorded if seen.edit.action == "condense" and seen.request < len(numbers)
    }
    named: list[Observed] = []
    for seen in session.observed:
        account = accounts.get(seen.request)
        left = seen.edit.action in ("drop", "condense") and not seen.edit.facts.get("superseded")
        if account and left:
            facts = {name: value for name, value in account.edit.facts.items() if name != "summary"}  # an address of the log's
            edit = structs.replace(seen.edit, action="condense", because=account.edit.because, facts=facts)
            seen = structs.replace(seen, edit=edit)
        named.append(seen)
    return tuple(named)


def _fork(main: Session, branch: Session, old: Fork) -> Fork:
    """What a branch adds to the main path: all behind the messages and requests that both begin with."""
    requests = sum(1 for _ in _same(main.requests, branch.requests))
    shared = sum(1 for _ in _same(main.messages, branch.messages))
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
    mended = tuple(b for a, b in zip(main.blocks[:start], branch.blocks, strict=False) if a.pair != b.pair)
    return Fork(own, 0, start, mended)


def _same(a: Sequence[Any], b: Sequence[Any]) -> Iterator[Any]:
    for one, other in zip(a, b, strict=False):
        if one != other:
            return
        yield one
