"""Builds one timeline from recorded request bodies. Each body is an envelope that was really sent; it is aligned with the past.

Bodies come in Anthropic's shape. A message that was seen before keeps its address. A missing message was dropped, a changed one
became a placeholder, a new one is appended. Rendering the replay of the record gives each body again exactly.

The module makes the edits that follow from a match. `matching` finds the match, `recorded_body` splits bodies, importers read
files. What a body begins with as the one before did, the same objects, is not looked at again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from msgspec import structs

from turnscope.reading.matching import Cell, Past, match
from turnscope.reading.placeholders import Bodies, Label, align_blocks, describe_change, make_placeholder
from turnscope.reading.recorded_body import RecordedBody, RecordedMessage, count_same
from turnscope.session.builder import Builder, Draft
from turnscope.session.model import JSON, SHAPE, Action, Edit, ObservedEdit, Session, Span

RECORDED_SLOT = "recorded"  # slot of messages that a body holds between earlier ones


class Reason(NamedTuple):
    """Why a request was sent in another form than its client's. `action` "" = a remark, and nothing was changed."""

    action: Action | Literal[""]
    because: str


class BlockRange(NamedTuple):
    """A range of blocks before addresses are known: `[start of draft lo + first, start of draft hi + last)`."""

    lo: int
    first: int
    hi: int
    last: int


def _label_nothing(_message: RecordedMessage) -> Label:
    return Label()


class _Unchanged(NamedTuple):
    """How many cells, and of the messages that they show, stay as they stood for the body before."""

    cells: int
    messages: int


@dataclass(slots=True)
class _Writing:
    """The messages of the newest body that rendering would write differently, by number, see `_describe_shape`."""

    bare: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    extra: list[list[Any]] = field(default_factory=list)

    def cut(self, messages: int) -> None:
        """Keep what is said of the first messages."""
        for numbers in (self.bare, self.lists):
            del numbers[bisect_left(numbers, messages) :]
        del self.extra[bisect_left(self.extra, messages, key=lambda each: each[0]) :]


@dataclass(slots=True)
class Alignment:
    """One conversation: its drafts, how each stands in the newest body, and what was observed on the way."""

    builder: Builder
    label: Callable[[RecordedMessage], Label] = _label_nothing
    cells: list[Cell] = field(default_factory=list)
    originals: list[RecordedMessage | None] = field(default_factory=list)
    where: dict[Hashable, list[int]] = field(default_factory=dict)
    seen: list[tuple[int, BlockRange, Edit]] = field(default_factory=list)
    static: dict[str, _Static] = field(default_factory=dict)
    requests: int = 0
    joinable: int = 0  # edits from here on may be joined: no insert lies between them and the next
    believed: list[RecordedMessage] = field(default_factory=list)  # what the client believes it sent last
    reasons: Sequence[Reason] = ()  # of the next request
    remarks: list[ObservedEdit] = field(default_factory=list)
    sent: Sequence[RecordedMessage] = ()  # the messages of the newest body
    shown: int = 0  # messages that the cells show: those, and what was appended since
    inserts: int = 0  # cells between drafts
    writing: _Writing = field(default_factory=_Writing)  # how the newest body writes them

    def learn(self, believed: Sequence[RecordedMessage], reasons: Sequence[Reason] = ()) -> None:
        """Learn what the client of the next request believes it sends, before what is sent in its place is added.

        Messages that are new there are part of the conversation, sent or not.

        Args:
            believed: The client's messages; none = what is sent.
            reasons: Why something else is sent.
        """
        self.reasons = [reason for reason in reasons if reason.action]
        for reason in reasons:
            if not reason.action:
                self.remarks.append(ObservedEdit(self.requests, Edit("keep", reason.because)))
        pairs = zip(self.believed, believed, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0].key == pair[1].key, pairs))
        for message in believed[same:] if same == len(self.believed) else ():
            if message.role != "assistant" and not self.where.get(message.key):
                self.append(message)
        self.believed = [*believed] or self.believed

    def add_request(self, body: RecordedBody, answer: RecordedMessage | None, *, compacted: bool = False, **about: Any) -> None:
        """Add one recorded call.

        Args:
            body: Its body.
            answer: The message that came back; None = none.
            compacted: Whether its tool had compacted the conversation, so that no old message was altered.
            **about: Fields of `model.Request`, and `answered_at`.
        """
        for name in ("tools", "system"):
            self.static.setdefault(name, _Static(name)).update(self, getattr(body, name))
        unchanged = self._match_messages(body.messages, compacted=compacted)
        settings = {**body.settings, **_describe_shape(self, body, unchanged)}
        fields = {**about, "settings": settings}
        if answer is None:
            self.builder.add_unanswered(**fields)
        else:
            draft = self.append(answer, about.get("answered_at"))
            draft.id = about.get("id", "")
            self.builder.set_request(draft, **fields)
        self.requests += 1

    def build(self) -> Session:
        """Build the session. Every difference between two bodies becomes an observed edit."""
        return self.builder.build([self._iter_observed])

    def append(self, message: RecordedMessage, at: float | None = None) -> Draft:
        """Append a message that was not there before.

        Args:
            message: The message.
            at: When it was sent, in seconds since the Unix epoch.
        """
        number = len(self.originals)
        self.originals.append(message)
        self.where.setdefault(message.key, []).append(number)
        self.cells.append(Cell(number, number + 1, [message]))
        self.shown += 1
        system = message.role == "system"  # a system message among messages is no system prompt: it stays in place
        origin, kinds = self.label(message)
        draft = self.builder.add_message(
            message.role, message.parts, origin=origin, sent_at=at, fence=system, extra=message.extra
        )
        if any(kinds):
            draft.parts = list(zip(message.parts, kinds, strict=True))
        return draft

    def record_edit(self, place: BlockRange, action: Action, because: str, body: Bodies = (), **more: Any) -> None:
        """Record what the current request shows. One edit covers neighbours that changed for the same reason.

        Args:
            place: The blocks.
            action: What happened to them.
            because: The reason, for people.
            body: The placeholder; None = the blocks themselves are back.
            **more: Further fields of `model.Edit`.
        """
        because = self._find_reason(action, because)
        if len(self.seen) > self.joinable and not more and not body:
            request, before, edit = self.seen[-1]
            alike = (edit.action, edit.because, edit.restore, edit.body) == (action, because, body is None, ())
            if request == self.requests and alike and not edit.slot and (before.hi, before.last) == (place.lo, place.first):
                self.seen[-1] = (request, before._replace(hi=place.hi, last=place.last), edit)
                return
        self.seen.append((self.requests, place, Edit(action, because, None, body or (), body is None, **more)))

    def _find_reason(self, action: Action, because: str) -> str:
        """The reason that is known for a change, else what the bodies show of it."""
        alike = [reason.because for reason in self.reasons if reason.action == action]
        found = alike or [reason.because for reason in self.reasons]
        return "; ".join(dict.fromkeys(found)) or because

    def _iter_observed(self, session: Session) -> Iterator[ObservedEdit]:
        drafts, end = self.builder.drafts, len(session.blocks)
        yield from self.remarks
        for request, place, edit in self.seen:
            start = (drafts[place.lo].start if place.lo < len(drafts) else end) + place.first
            stop = (drafts[place.hi].start if place.hi < len(drafts) else end) + place.last
            body = tuple(p if p.ref is None else structs.replace(p, ref=p.ref + start) for p in edit.body or ())
            yield ObservedEdit(request, structs.replace(edit, span=Span(start, stop), body=body))

    def _match_messages(self, messages: Sequence[RecordedMessage], *, compacted: bool) -> _Unchanged:
        """Match a body's messages with what stands, then change what stands to be this body. Gives what stays as it stood."""
        unchanged = self._find_unchanged(count_same(self.sent, messages))
        self.sent, messages = messages, messages[unchanged.messages :]
        cells = self.cells[unchanged.cells :]
        self.inserts -= _count_inserts(cells)
        found = match(cells, Past(self.originals, self.where), messages, altered=not compacted)
        for cell in found.cleared:
            if cell.lo == cell.hi:
                self.show_messages(cell, [])
            else:
                self.record_edit(BlockRange(cell.lo, 0, cell.hi, 0), "drop", "its placeholder is not in the recorded request")
        if self.inserts:  # one lies before all that changes
            self.joinable = len(self.seen)
        for cell in found.cells:
            if cell.state != "static":
                self.show_messages(cell, [messages[j] for j in sorted(found.wanted.get(cell, ()))])
        self.cells[unchanged.cells :] = tidied = _tidy(found.cells)
        self.inserts += _count_inserts(tidied)
        self.shown = unchanged.messages + sum(len(cell.shown) for cell in tidied)
        for j in found.fresh:
            self.append(messages[j])
        return unchanged

    def _find_unchanged(self, same: int) -> _Unchanged:
        """Find the cells that stay as they are, all but the last of those that show the first `same` messages."""
        at, before = len(self.cells), self.shown
        while before > same:
            at -= 1
            before -= len(self.cells[at].shown)
        while at:
            at -= 1
            if self.cells[at].shown:
                return _Unchanged(at, before - len(self.cells[at].shown))
        return _Unchanged(0, 0)

    def show_messages(self, cell: Cell, messages: list[RecordedMessage]) -> None:
        """Change one cell to show `messages`, and record the change where there is one.

        Args:
            cell: The cell.
            messages: What the body holds there.
        """
        if cell.lo == cell.hi:
            self.joinable = len(self.seen)
        if [m.key for m in messages] == [m.key for m in cell.shown]:
            return  # its form may differ; `_describe_shape` records that
        place = BlockRange(cell.lo, 0, cell.hi, 0)
        original = self.originals[cell.lo] if cell.hi - cell.lo == 1 else None
        if cell.lo == cell.hi:
            because = "inserted between earlier messages" if messages else "removed from between earlier messages"
            self.record_edit(
                place, "insert" if messages else "drop", because, make_placeholder(messages, self.label), slot=RECORDED_SLOT
            )
            cell.state = "body"
        elif not messages:
            self.record_edit(place, "drop", "not in the recorded request")
            cell.state = "gone"
        elif original and len(messages) == 1 and messages[0].key == original.key:
            self.record_edit(place, "restore", "in the request again, unchanged", None)
            cell.state = "own"
        elif original and len(messages) == 1 and messages[0].role == original.role and original.parts and messages[0].parts:
            self._alter(cell, original, messages[0])
        else:
            many = cell.hi - cell.lo
            because = f"{many} messages were replaced by {len(messages)}" if many > 1 else "the message was replaced"
            self.record_edit(place, "condense", because, make_placeholder(messages, self.label))
            cell.state = "body"
        cell.shown = messages

    def _alter(self, cell: Cell, original: RecordedMessage, message: RecordedMessage) -> None:
        """Change single blocks of a message. The others stay."""
        blocks = align_blocks(original, message)
        bodies: list[Bodies] = [None] * len(blocks)
        if cell.state == "blocks":
            bodies = cell.blocks
        elif cell.state != "own":
            self.record_edit(BlockRange(cell.lo, 0, cell.hi, 0), "restore", "in the request again, changed", None)
        for i, (old, new) in enumerate(zip(bodies, blocks, strict=True)):
            if old != new:
                action, because = describe_change(original.parts[i], new)
                self.record_edit(BlockRange(cell.lo, i, cell.lo, i + 1), action, because, new)
        cell.state, cell.blocks = "blocks", blocks


def _tidy(cells: Sequence[Cell]) -> list[Cell]:
    """Join neighbouring cells that show nothing, so that a long past costs nothing."""
    kept: list[Cell] = []
    for cell in cells:
        if cell.lo == cell.hi and not cell.shown:
            continue
        if kept and cell.state == kept[-1].state == "gone":
            kept[-1].hi = cell.hi
        else:
            kept.append(cell)
    return kept


def _count_inserts(cells: Sequence[Cell]) -> int:
    return sum(cell.lo == cell.hi for cell in cells)


@dataclass(slots=True)
class _Static:
    """The system prompt or the tools: which blocks of which version are in force."""

    name: str
    standing: list[tuple[int, int]] = field(default_factory=list)  # (draft, block) of the version in force
    keys: tuple[bytes, ...] = ()
    versions: dict[tuple[bytes, ...], list[tuple[int, int]]] = field(default_factory=dict)

    def update(self, to: Alignment, now: RecordedMessage | None) -> None:
        """Make `now` the version in force. What it no longer holds is superseded, what is new is appended."""
        keys = now.keys if now else ()
        if keys == self.keys:
            return
        wanted = self.versions.get(keys)
        number = len(to.originals)
        if wanted is None and now:
            wanted = self._find_kept(keys)
            taken = len(wanted)
            if taken < len(keys):
                to.originals.append(None)
                to.cells.append(Cell(number, number + 1, [], "static"))
                to.builder.add_message(self.name, now.parts[taken:], origin="system")
                wanted = [*wanted, *((number, i) for i in range(len(keys) - taken))]
        wanted = wanted or []
        standing, left = set(self.standing), set(wanted)
        because = "replaced by another version" if keys else "not in the recorded request"
        for draft, start, stop in _group_runs(sorted(standing - left)):
            to.record_edit(
                BlockRange(draft, start, draft, stop),
                "drop",
                f"{self.name}: {because}",
                facts={"superseded": True} if keys else {},
            )
        for draft, start, stop in _group_runs(sorted(block for block in left - standing if block[0] < number)):
            to.record_edit(
                BlockRange(draft, start, draft, stop), "restore", f"{self.name}: an earlier version is in force again", None
            )
        self.standing, self.keys = wanted, keys
        self.versions[keys] = wanted

    def _find_kept(self, keys: tuple[bytes, ...]) -> list[tuple[int, int]]:
        """Find the blocks that stay: as long as the new version follows the one in force, gaps allowed."""
        kept: list[tuple[int, int]] = []
        at = 0
        for key in keys:
            found = next((i for i in range(at, len(self.keys)) if self.keys[i] == key), -1)
            if found < 0:
                break
            kept.append(self.standing[found])
            at = found + 1
        return kept


def _group_runs(blocks: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Group neighbouring blocks of one draft as (draft, start, stop)."""
    run: tuple[int, int, int] | None = None
    for draft, at in blocks:
        if run and run[0] == draft and run[2] == at:
            run = (draft, run[1], at + 1)
            continue
        if run:
            yield run
        run = (draft, at, at + 1)
    if run:
        yield run


def _describe_shape(of: Alignment, body: RecordedBody, unchanged: _Unchanged) -> dict[str, JSON]:
    """Describe how this body writes what rendering would write differently. Also fences messages that a body keeps apart.

    Of what is unchanged, both are known from the body before.
    """
    writing = of.writing
    writing.cut(unchanged.messages)
    number, before, solid = unchanged.messages, "", False
    for cell in of.cells[unchanged.cells :]:
        for stands in cell.shown:
            message = body.messages[number]
            written, keys, own = _describe_writing(of, cell, stands)
            if written != message.bare:
                (writing.bare if message.bare else writing.lists).append(number)
            if keys != message.extra:
                writing.extra.append([number, message.extra])
            if own and solid and message.role == before:
                of.builder.drafts[cell.lo].fence = True
            number, before, solid = number + 1, message.role, own
    bare: list[Any] = [*writing.bare]
    lists: list[Any] = [*writing.lists]
    if body.system:
        raws = [of.builder.drafts[draft].parts[at][0] for draft, at in of.static["system"].standing]
        written = len(raws) == 1 and isinstance(raws[0], str)
        if written != body.system.bare:
            (bare if body.system.bare else lists).append("system")
    found = {"cache": body.marks, "bare": bare, "lists": lists, "extra": [*writing.extra], "set": body.verbatim}
    shape = {key: value for key, value in found.items() if value}
    return {SHAPE: shape} if shape else {}


def _describe_writing(of: Alignment, cell: Cell, message: RecordedMessage) -> tuple[bool, dict[str, JSON], bool]:
    """Describe how rendering writes a message: as one string? with which further keys? does it stand in its own place?"""
    original = of.originals[cell.lo] if cell.state in ("own", "blocks") else None
    if original is None:
        return message.bare, {}, False
    if cell.state == "own":
        return original.bare, original.extra, True
    own = any(body is None for body in cell.blocks)
    shown: list[JSON] = []
    for raw, body in zip(original.parts, cell.blocks, strict=True):
        shown.extend([raw] if body is None else [part.raw for part in body])
    return len(shown) == 1 and isinstance(shown[0], str), original.extra if own else {}, own
