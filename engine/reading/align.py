"""Recorded request bodies become one timeline: each body is an envelope that was really sent, laid along what came before.

Bodies arrive in Anthropic's shape. A message that was seen before stays at its address; one that is missing was dropped, one
that changed is a stand-in, one that is new is appended. Rendering the replay of the record gives each body again exactly.
Holds the matching and the edits that follow from it; `body` takes bodies apart, importers read files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from msgspec import structs

from engine.reading.body import Msg, RecordedBody, common
from engine.reading.standins import Bodies, altered, change, marks_of, whole
from engine.session.builder import Builder, Draft
from engine.session.model import JSON, SHAPE, Action, Edit, Observed, Session, Span

SLOT = "recorded"  # slot of messages that a body holds between messages that were there before


@dataclass(slots=True, eq=False)
class Cell:
    """What stands for the drafts `lo:hi` in the body looked at last. `lo == hi`: messages that stand between drafts."""

    lo: int
    hi: int
    shown: list[Msg]
    state: Literal["own", "blocks", "body", "gone", "static"] = "own"
    blocks: list[Bodies] = field(default_factory=list)


class Place(NamedTuple):
    """A range of blocks said before addresses are known: `[start of draft lo + first, start of draft hi + last)`."""

    lo: int
    first: int
    hi: int
    last: int


@dataclass(slots=True)
class Alignment:
    """One conversation: its drafts, how each stands in the newest body, and what was observed on the way."""

    builder: Builder
    cells: list[Cell] = field(default_factory=list)
    originals: list[Msg | None] = field(default_factory=list)
    where: dict[Hashable, list[int]] = field(default_factory=dict)
    seen: list[tuple[int, Place, Edit]] = field(default_factory=list)
    static: dict[str, _Static] = field(default_factory=dict)
    requests: int = 0
    joinable: int = 0  # edits from here on may be joined: no insert stands between them and the next

    def request(self, body: RecordedBody, answer: Msg | None, **about: Any) -> None:
        """Take in one recorded call: its body, and the message that came back (None: there is none).

        `about`: fields of `model.Request`, and `answered_at`.
        """
        for name in ("tools", "system"):
            self.static.setdefault(name, _Static(name)).update(self, getattr(body, name))
        self._messages(body.messages)
        settings = {**body.settings, **_shape(self, body)}
        fields = {**about, "settings": settings}
        if answer is None:
            self.builder.unanswered(**fields)
        else:
            draft = self.append(answer, about.get("answered_at"))
            draft.id = about.get("id", "")
            self.builder.request(draft, **fields)
        self.requests += 1

    def build(self) -> Session:
        """The session, with every difference between two bodies as an observed edit."""
        return self.builder.build([self._observed])

    def append(self, message: Msg, at: float | None = None) -> Draft:
        """A message that was not there before."""
        number = len(self.originals)
        self.originals.append(message)
        self.where.setdefault(message.key, []).append(number)
        self.cells.append(Cell(number, number + 1, [message]))
        system = message.role == "system"  # a system message among messages is no system prompt: it stays where it is
        return self.builder.message(message.role, message.parts, sent_at=at, fence=system, extra=message.extra)

    def edit(self, place: Place, action: Action, because: str, body: Bodies = (), **more: Any) -> None:
        """Record what the request at hand shows. What happens to neighbours for one reason is one edit."""
        if len(self.seen) > self.joinable and not more and not body:
            request, before, edit = self.seen[-1]
            alike = (edit.action, edit.because, edit.restore, edit.body) == (action, because, body is None, ())
            if request == self.requests and alike and not edit.slot and (before.hi, before.last) == (place.lo, place.first):
                self.seen[-1] = (request, before._replace(hi=place.hi, last=place.last), edit)
                return
        self.seen.append((self.requests, place, Edit(action, because, None, body or (), body is None, **more)))

    def _observed(self, session: Session) -> Iterator[Observed]:
        drafts, end = self.builder.drafts, len(session.blocks)
        for request, place, edit in self.seen:
            start = (drafts[place.lo].start if place.lo < len(drafts) else end) + place.first
            stop = (drafts[place.hi].start if place.hi < len(drafts) else end) + place.last
            body = tuple(p if p.ref is None else structs.replace(p, ref=p.ref + start) for p in edit.body or ())
            yield Observed(request, structs.replace(edit, span=Span(start, stop), body=body))

    def _messages(self, messages: Sequence[Msg]) -> None:
        """Match a body's messages with what stands, and change what stands to be this body."""
        standing = [(at, k) for at, cell in enumerate(self.cells) for k in range(len(cell.shown))]
        pairs = common([self.cells[at].shown[k].key for at, k in standing], [m.key for m in messages])
        wanted: dict[Cell, list[int]] = {}
        gaps: list[tuple[int, int, int, int]] = []
        before, b_next = -1, 0
        for i, j in [*pairs, (len(standing), len(messages))]:
            at = standing[i][0] if i < len(standing) else len(self.cells)
            gaps.append((before, at, b_next, j))
            before, b_next = at, j + 1
        cells = list(self.cells)
        for i, j in pairs:
            wanted.setdefault(cells[standing[i][0]], []).append(j)
        fresh: list[int] = []
        for left, right, start, stop in gaps:
            if stop > start:
                left_cell = cells[left] if left >= 0 else None
                right_cell = cells[right] if right < len(cells) else None
                fresh = _Gap(self, messages, wanted, left_cell, right_cell).fill(list(range(start, stop)))
        for cell in list(self.cells):
            if cell.state != "static":
                self.become(cell, [messages[j] for j in sorted(wanted.get(cell, ()))])
        self._tidy()
        for j in fresh:
            self.append(messages[j])

    def become(self, cell: Cell, messages: list[Msg]) -> None:
        """Change one cell to show `messages`, saying so where that is a change."""
        if cell.lo == cell.hi:
            self.joinable = len(self.seen)
        if [m.key for m in messages] == [m.key for m in cell.shown]:
            return  # how it is written may differ; that is the shape's business
        place = Place(cell.lo, 0, cell.hi, 0)
        original = self.originals[cell.lo] if cell.hi - cell.lo == 1 else None
        if cell.lo == cell.hi:
            because = "stands between earlier messages" if messages else "no longer stands between earlier messages"
            self.edit(place, "insert" if messages else "drop", because, whole(messages), slot=SLOT)
            cell.state = "body"
        elif not messages:
            self.edit(place, "drop", "left out of the request that was recorded")
            cell.state = "gone"
        elif original and len(messages) == 1 and messages[0].key == original.key:
            self.edit(place, "restore", "stands in the request again as it was", None)
            cell.state = "own"
        elif original and len(messages) == 1 and messages[0].role == original.role and original.parts and messages[0].parts:
            self._alter(cell, original, messages[0])
        else:
            many = cell.hi - cell.lo
            because = f"{many} messages were replaced by {len(messages)}" if many > 1 else "the message was replaced"
            self.edit(place, "condense", because, whole(messages))
            cell.state = "body"
        cell.shown = messages

    def _alter(self, cell: Cell, original: Msg, message: Msg) -> None:
        """Change single blocks of a message; the others stay."""
        blocks = altered(original, message)
        held: list[Bodies] = [None] * len(blocks)
        if cell.state == "blocks":
            held = cell.blocks
        elif cell.state != "own":
            self.edit(Place(cell.lo, 0, cell.hi, 0), "restore", "stands in the request again, altered", None)
        for i, (old, new) in enumerate(zip(held, blocks, strict=True)):
            if old != new:
                action, because = change(original.parts[i], new)
                self.edit(Place(cell.lo, i, cell.lo, i + 1), action, because, new)
        cell.state, cell.blocks = "blocks", blocks

    def _tidy(self) -> None:
        """Neighbouring cells that show nothing become one, so that a long past costs nothing."""
        kept: list[Cell] = []
        for cell in self.cells:
            if cell.lo == cell.hi and not cell.shown:
                continue
            if kept and cell.state == kept[-1].state == "gone":
                kept[-1].hi = cell.hi
            else:
                kept.append(cell)
        self.cells = kept


@dataclass(slots=True)
class _Gap:
    """Messages of a body that match nothing standing, between two that do: who makes room for them."""

    of: Alignment
    messages: Sequence[Msg]
    wanted: dict[Cell, list[int]]
    left: Cell | None
    right: Cell | None

    def fill(self, numbers: list[int]) -> list[int]:
        """Find a place for each message; gives those that are new at the end of the conversation."""
        if self.left is not None and self.left is self.right:
            self.wanted[self.left].extend(numbers)
            return []
        rest = self._returned(numbers)
        rest = [piece for stretch in rest for piece in self._similar(*stretch)]
        fresh: list[int] = []
        for left, right, group in rest:
            if group and right is None:
                fresh = group
            elif group:
                self._between(left, right, group)
        return fresh

    def _cells(self, left: Cell | None, right: Cell | None) -> list[Cell]:
        cells = self.of.cells
        start = cells.index(left) + 1 if left else 0
        return cells[start : cells.index(right, start) if right else len(cells)]

    def _returned(self, numbers: list[int]) -> list[tuple[Cell | None, Cell | None, list[int]]]:
        """Messages that stood here once and come back as they were."""
        low = self.left.hi if self.left else 0
        high = self.right.lo if self.right else len(self.of.originals)
        stretches: list[tuple[Cell | None, Cell | None, list[int]]] = []
        left, group = self.left, list[int]()
        for number in numbers:
            drafts = self.of.where.get(self.messages[number].key, [])
            at = bisect_left(drafts, low)
            if at < len(drafts) and drafts[at] < high:
                cell = self._alone(drafts[at])
                self.wanted[cell] = [number]
                stretches.append((left, cell, group))
                left, group, low = cell, [], cell.hi
            else:
                group.append(number)
        return [*stretches, (left, self.right, group)]

    def _alone(self, draft: int) -> Cell:
        """The cell of one draft, cut out of what stands for it and its neighbours."""
        cells = self.of.cells
        at = next(i for i, cell in enumerate(cells) if cell.lo <= draft < cell.hi)
        cell = cells[at]
        if cell.hi - cell.lo == 1:
            return cell
        if cell.shown:  # a stand-in cannot be cut: it goes first
            self.of.edit(Place(cell.lo, 0, cell.hi, 0), "drop", "its stand-in left the request that was recorded")
        bounds = ((cell.lo, draft), (draft, draft + 1), (draft + 1, cell.hi))
        cells[at : at + 1] = [Cell(lo, hi, [], "gone") for lo, hi in bounds if lo < hi]
        return next(c for c in cells[at : at + 2] if c.lo == draft)

    def _similar(
        self, left: Cell | None, right: Cell | None, group: list[int]
    ) -> Iterator[tuple[Cell | None, Cell | None, list[int]]]:
        """Messages that stand here in another form: known by their blocks, the ids of their calls, or how they begin."""
        free = [c for c in self._cells(left, right) if c.shown and c not in self.wanted and c.hi - c.lo == 1] if group else []
        marks: dict[Hashable, list[int]] = {}
        for i, cell in enumerate(free):
            for message in (*cell.shown, self.of.originals[cell.lo]):
                for mark in marks_of(message) if message else ():
                    marks.setdefault(mark, []).append(i)
        positional = right is not None and _same_roles(free, [self.messages[n] for n in group])
        low, waiting = 0, list[int]()
        for k, number in enumerate(group):
            found = [
                positions[at]
                for m in marks_of(self.messages[number])
                if (at := bisect_left(positions := marks.get(m, []), low)) < len(positions)
            ]
            at = k if positional else min(found, default=-1)
            if at < 0:
                waiting.append(number)
                continue
            self.wanted[free[at]] = [number]
            yield left, free[at], waiting
            left, waiting, low = free[at], [], at + 1
        yield left, right, waiting

    def _between(self, left: Cell | None, right: Cell | None, group: list[int]) -> None:
        """Messages that stand between others: they stand in for what left there, else they are an insert."""
        assert right is not None
        cells = self._cells(left, right)
        shown = [i for i, cell in enumerate(cells) if cell.shown]
        if shown:
            start = stop = shown[-1]
            while start and cells[start - 1].state != "static" and start > shown[0]:
                start -= 1
            owner = self._joined(cells[start : stop + 1])
        else:
            owner = next((c for c in (left, right) if c and c.state == "body"), None) or self._inserted(right)
        self.wanted.setdefault(owner, []).extend(group)

    def _joined(self, run: list[Cell]) -> Cell:
        """One cell for a run of neighbours."""
        solid = [cell for cell in run if cell.lo < cell.hi]
        if len(run) == 1 or not solid:
            return run[0]
        for cell in run:
            if cell.lo == cell.hi:  # inserts leave before their surroundings change
                self.of.become(cell, [])
        if len(solid) == 1:
            return solid[0]
        cells = self.of.cells
        at = cells.index(run[0])
        owner = Cell(solid[0].lo, solid[-1].hi, [], "body")
        cells[at : at + len(run)] = [owner]
        return owner

    def _inserted(self, right: Cell) -> Cell:
        cell = Cell(right.lo, right.lo, [], "body")
        self.of.cells.insert(self.of.cells.index(right), cell)
        return cell


@dataclass(slots=True)
class _Static:
    """The system prompt or the tools: which blocks of which version stand."""

    name: str
    standing: list[tuple[int, int]] = field(default_factory=list)  # (draft, block)
    keys: tuple[bytes, ...] = ()
    versions: dict[tuple[bytes, ...], list[tuple[int, int]]] = field(default_factory=dict)

    def update(self, to: Alignment, now: Msg | None) -> None:
        """Make the version in force be `now`: what it no longer holds is superseded, what is new is appended."""
        keys = now.keys if now else ()
        if keys == self.keys:
            return
        wanted = self.versions.get(keys)
        number = len(to.originals)
        if wanted is None and now:
            wanted = self._kept(keys)
            taken = len(wanted)
            if taken < len(keys):
                to.originals.append(None)
                to.cells.append(Cell(number, number + 1, [], "static"))
                to.builder.message(self.name, now.parts[taken:], origin="system")
                wanted = [*wanted, *((number, i) for i in range(len(keys) - taken))]
        wanted = wanted or []
        held, left = set(self.standing), set(wanted)
        because = "superseded by another version of it" if keys else "left out of the request that was recorded"
        for draft, start, stop in _runs(sorted(held - left)):
            to.edit(
                Place(draft, start, draft, stop), "drop", f"{self.name}: {because}", facts={"superseded": True} if keys else {}
            )
        for draft, start, stop in _runs(sorted(block for block in left - held if block[0] < number)):
            to.edit(Place(draft, start, draft, stop), "restore", f"{self.name}: an earlier version is in force again", None)
        self.standing, self.keys = wanted, keys
        self.versions[keys] = wanted

    def _kept(self, keys: tuple[bytes, ...]) -> list[tuple[int, int]]:
        """The blocks that stay: as long as the new version goes on like the one in force, gaps allowed."""
        kept: list[tuple[int, int]] = []
        at = 0
        for key in keys:
            found = next((i for i in range(at, len(self.keys)) if self.keys[i] == key), -1)
            if found < 0:
                break
            kept.append(self.standing[found])
            at = found + 1
        return kept


def _runs(blocks: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring blocks of one draft as (draft, start, stop)."""
    held: tuple[int, int, int] | None = None
    for draft, at in blocks:
        if held and held[0] == draft and held[2] == at:
            held = (draft, held[1], at + 1)
            continue
        if held:
            yield held
        held = (draft, at, at + 1)
    if held:
        yield held


def _same_roles(cells: Sequence[Cell], messages: Sequence[Msg]) -> bool:
    """Whether as many messages of the same roles stand here as are wanted here."""
    return [c.shown[0].role for c in cells] == [m.role for m in messages] and all(len(c.shown) == 1 for c in cells)


def _shape(of: Alignment, body: RecordedBody) -> dict[str, JSON]:
    """How this body writes what rendering would write otherwise; also fences messages that a body keeps apart."""
    bare: list[Any] = []
    lists: list[Any] = []
    extra: list[Any] = []
    number, before, solid = 0, "", False
    for cell in of.cells:
        for stands in cell.shown:
            message = body.messages[number]
            written, keys, own = _written(of, cell, stands)
            if written != message.bare:
                (bare if message.bare else lists).append(number)
            if keys != message.extra:
                extra.append([number, message.extra])
            if own and solid and message.role == before:
                of.builder.drafts[cell.lo].fence = True
            number, before, solid = number + 1, message.role, own
    if body.system:
        raws = [of.builder.drafts[draft].parts[at][0] for draft, at in of.static["system"].standing]
        written = len(raws) == 1 and isinstance(raws[0], str)
        if written != body.system.bare:
            (bare if body.system.bare else lists).append("system")
    found = {"cache": body.marks, "bare": bare, "lists": lists, "extra": extra, "set": body.odd}
    shape = {key: value for key, value in found.items() if value}
    return {SHAPE: shape} if shape else {}


def _written(of: Alignment, cell: Cell, message: Msg) -> tuple[bool, dict[str, JSON], bool]:
    """How rendering writes a message: as one string? with which further keys? and does it stand in its own place?"""
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
