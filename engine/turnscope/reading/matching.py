"""Matches the messages of a recorded body with what is there already. The result is assignments; nothing is changed.

A message may stand as it is, come back, have another form, lie between others, or be new. The module makes a `Match`.
`alignment` applies it and names each change. The module reads cells and changes none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turnscope.reading.placeholders import Bodies, list_marks
from turnscope.reading.recorded_body import RecordedMessage, find_common


@dataclass(slots=True, eq=False)
class Cell:
    """What stands for the drafts `lo:hi` in the newest body. `lo == hi`: messages between drafts."""

    lo: int
    hi: int
    shown: list[RecordedMessage]
    state: Literal["own", "blocks", "body", "gone", "static"] = "own"
    blocks: list[Bodies] = field(default_factory=list)


@dataclass(slots=True)
class Match:
    """How a body is aligned with what stands. Numbers are positions of its messages.

    `cells`: all places in order, with those that had to be split, joined or made. `wanted`: what stands at each. `cleared`: old
    cells that are removed first, in order, because their placeholders cannot be split or their surroundings change. `fresh`:
    what is new.
    """

    cells: list[Cell]
    wanted: dict[Cell, list[int]] = field(default_factory=dict)
    cleared: list[Cell] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Past:
    """The earlier messages: each draft's message (None: system or tools), and the drafts of each message."""

    originals: Sequence[RecordedMessage | None]
    where: Mapping[Hashable, Sequence[int]]


def match(cells: Sequence[Cell], past: Past, messages: Sequence[RecordedMessage], *, altered: bool = True) -> Match:
    """Match a body's messages with what stands.

    Args:
        cells: What stands, in order.
        past: The earlier messages.
        messages: The body's messages.
        altered: Whether a message that is neither known nor in place may be an old one that was altered.
    """
    found = Match(list(cells))
    standing = [(cell, message) for cell in cells for message in cell.shown]
    pairs = find_common([message.key for _, message in standing], [message.key for message in messages])
    for i, j in pairs:
        found.wanted.setdefault(standing[i][0], []).append(j)
    left, start = None, 0
    for i, j in [*pairs, (len(standing), len(messages))]:
        right = standing[i][0] if i < len(standing) else None
        if j > start:
            found.fresh = _Gap(found, past, messages, left, right, altered).fill(list(range(start, j)))
        left, start = right, j + 1
    return found


@dataclass(slots=True)
class _Gap:
    """Messages of a body that match nothing standing, between two that do. The class finds a place for them."""

    of: Match
    past: Past
    messages: Sequence[RecordedMessage]
    left: Cell | None
    right: Cell | None
    altered: bool

    def fill(self, numbers: list[int]) -> list[int]:
        """Find a place for each message. Gives those that are new at the end of the conversation."""
        if self.left is not None and self.left is self.right:
            self.of.wanted[self.left].extend(numbers)
            return []
        rest = self._match_returned(numbers)
        if self.altered:
            rest = [piece for stretch in rest for piece in self._match_similar(*stretch)]
        fresh: list[int] = []
        for left, right, group in rest:
            if group and right is None:
                fresh = group
            elif group:
                self._place_between(left, right, group)
        return fresh

    def _find_cells(self, left: Cell | None, right: Cell | None) -> list[Cell]:
        cells = self.of.cells
        start = cells.index(left) + 1 if left else 0
        return cells[start : cells.index(right, start) if right else len(cells)]

    def _get_shown(self, cell: Cell) -> list[RecordedMessage]:
        return [] if cell in self.of.cleared else cell.shown

    def _match_returned(self, numbers: list[int]) -> list[tuple[Cell | None, Cell | None, list[int]]]:
        """Match messages that stood here once and come back as they were."""
        low = self.left.hi if self.left else 0
        high = self.right.lo if self.right else len(self.past.originals)
        stretches: list[tuple[Cell | None, Cell | None, list[int]]] = []
        left, group = self.left, list[int]()
        for number in numbers:
            drafts = self.past.where.get(self.messages[number].key, [])
            at = bisect_left(drafts, low)
            if at < len(drafts) and drafts[at] < high:
                cell = self._isolate(drafts[at])
                self.of.wanted[cell] = [number]
                stretches.append((left, cell, group))
                left, group, low = cell, [], cell.hi
            else:
                group.append(number)
        return [*stretches, (left, self.right, group)]

    def _isolate(self, draft: int) -> Cell:
        """Split a cell so that one draft has a cell of its own."""
        cells = self.of.cells
        at = next(i for i, cell in enumerate(cells) if cell.lo <= draft < cell.hi)
        cell = cells[at]
        if cell.hi - cell.lo == 1:
            return cell
        if self._get_shown(cell):  # a placeholder cannot be split: it is removed first
            self.of.cleared.append(cell)
        bounds = ((cell.lo, draft), (draft, draft + 1), (draft + 1, cell.hi))
        cells[at : at + 1] = [Cell(lo, hi, [], "gone") for lo, hi in bounds if lo < hi]
        return next(c for c in cells[at : at + 2] if c.lo == draft)

    def _match_similar(
        self, left: Cell | None, right: Cell | None, group: list[int]
    ) -> Iterator[tuple[Cell | None, Cell | None, list[int]]]:
        """Match messages that stand here in another form, by their blocks, the ids of their calls, or their beginning."""
        here = self._find_cells(left, right) if group else []
        free = [c for c in here if self._get_shown(c) and c not in self.of.wanted and c.hi - c.lo == 1]
        marks: dict[Hashable, list[int]] = {}
        for i, cell in enumerate(free):
            for message in (*cell.shown, self.past.originals[cell.lo]):
                for mark in list_marks(message) if message else ():
                    marks.setdefault(mark, []).append(i)
        positional = right is not None and _have_same_roles(free, [self.messages[n] for n in group])
        low, waiting = 0, list[int]()
        for k, number in enumerate(group):
            found = [
                positions[at]
                for m in list_marks(self.messages[number])
                if (at := bisect_left(positions := marks.get(m, []), low)) < len(positions)
            ]
            at = k if positional else min(found, default=-1)
            if at < 0:
                waiting.append(number)
                continue
            self.of.wanted[free[at]] = [number]
            yield left, free[at], waiting
            left, waiting, low = free[at], [], at + 1
        yield left, right, waiting

    def _place_between(self, left: Cell | None, right: Cell | None, group: list[int]) -> None:
        """Place messages between others: in place of what left there, else as an insert."""
        assert right is not None
        cells = self._find_cells(left, right)
        shown = [i for i, cell in enumerate(cells) if self._get_shown(cell)]
        if shown:
            start = stop = shown[-1]
            while start and cells[start - 1].state != "static" and start > shown[0]:
                start -= 1
            owner = self._join(cells[start : stop + 1])
        else:
            owner = next((c for c in (left, right) if c and c.state == "body"), None) or self._insert(right)
        self.of.wanted.setdefault(owner, []).extend(group)

    def _join(self, run: list[Cell]) -> Cell:
        """Join a run of neighbours into one cell."""
        solid = [cell for cell in run if cell.lo < cell.hi]
        if len(run) == 1 or not solid:
            return run[0]
        self.of.cleared += [cell for cell in run if cell.lo == cell.hi]  # inserts are removed before their surroundings change
        if len(solid) == 1:
            return solid[0]
        cells = self.of.cells
        at = cells.index(run[0])
        owner = Cell(solid[0].lo, solid[-1].hi, [], "body")
        cells[at : at + len(run)] = [owner]
        return owner

    def _insert(self, right: Cell) -> Cell:
        cell = Cell(right.lo, right.lo, [], "body")
        self.of.cells.insert(self.of.cells.index(right), cell)
        return cell


def _have_same_roles(cells: Sequence[Cell], messages: Sequence[RecordedMessage]) -> bool:
    """Whether the cells and the messages have the same roles, one message per cell."""
    return [c.shown[0].role for c in cells] == [m.role for m in messages] and all(len(c.shown) == 1 for c in cells)
