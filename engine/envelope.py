"""The envelope: a tiling of the storage timeline, kept in shared chunks.

Holds the data structure and its three moves: `grow`, `replace`, `undo`. It decides nothing; rules do.

Pieces stand in address order and tile `[0, stop)`. A zero-width piece is an insert and stands before the piece that begins
at its address. Chunks are immutable and shared between envelopes, so a change copies only the chunks it touches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct, structs

from engine.errors import RuleError
from engine.ledger import Ledger
from engine.model import ZERO, Body, Counts, Edit, Piece, Span, Splice

_PIECES, _STOP = attrgetter("pieces"), attrgetter("stop")
CHUNK = 128  # pieces; a splice copies one or two chunks, so this bounds what a change costs


class Chunk(Struct, frozen=True):
    pieces: tuple[Piece, ...]
    stop: int
    counts: Counts


class Envelope(Struct, frozen=True):
    """What one request carries: every block of `[0, stop)` in exactly one state."""

    chunks: tuple[Chunk, ...] = ()
    counts: Counts = ZERO

    @property
    def tokens(self) -> int:
        """Tokens of all five buckets, in units of the ledger's counter."""
        return sum(self.counts)

    @property
    def stop(self) -> int:
        return self.chunks[-1].stop if self.chunks else 0

    @property
    def pieces(self) -> Iterator[Piece]:
        return (piece for chunk in self.chunks for piece in chunk.pieces)

    def __len__(self) -> int:
        return sum(len(chunk.pieces) for chunk in self.chunks)

    def __repr__(self) -> str:
        return f"<Envelope {self.tokens:,} tokens in {len(self)} pieces over {self.stop} blocks>"

    def at(self, address: int) -> Piece:
        """The piece that holds block `address`. IndexError where the envelope does not reach."""
        chunk = bisect_right(self.chunks, address, key=_STOP)
        if address < 0 or chunk == len(self.chunks):
            raise IndexError(f"block {address} is not in an envelope of {self.stop} blocks")
        pieces = self.chunks[chunk].pieces
        return pieces[bisect_right(pieces, address, key=_STOP)]

    def grow(self, stop: int, ledger: Ledger) -> Envelope:
        """The same envelope with the blocks `[self.stop, stop)` added verbatim."""
        start = self.stop
        if stop <= start:
            return self
        added = ledger.span(start, stop)
        counts = _add(self.counts, added)
        if not self.chunks:
            return _with((), (Piece(start, stop, added),), (), counts)
        chunk = self.chunks[-1]
        last = chunk.pieces[-1]
        grows = last.body is None and last.by < 0 and last.start < last.stop
        piece = Piece(last.start, stop, _add(last.counts, added)) if grows else Piece(start, stop, added)
        pieces = (*chunk.pieces[:-1], piece) if grows else (*chunk.pieces, piece)
        if len(pieces) > CHUNK:
            return _with(self.chunks[:-1], pieces, (), counts)
        return Envelope((*self.chunks[:-1], Chunk(pieces, stop, _add(chunk.counts, added))), counts)

    def replace(self, edit: Edit, by: int, ledger: Ledger) -> tuple[Envelope, Splice | None]:
        """Apply `edit`; gives the new envelope and the splice that undoes it (None where nothing changed).

        RuleError: the span leaves the envelope, or cuts a stand-in in two.
        """
        if edit.span is None:
            return self, None
        start, stop = edit.span
        if not 0 <= start <= stop <= self.stop:
            raise RuleError(
                f"span {start}:{stop} is not inside the envelope's {self.stop} blocks", hint="This is a bug in a rule."
            )
        if start == stop:
            return self._insert(start, edit.slot, edit.body, by, ledger)
        first, last = self._find(start), self._find(stop - 1)
        old = self._between(first, last)
        body: Body = None if edit.restore else edit.body
        counts = ledger.span(start, stop) if body is None else ledger.body(body)
        new = (
            *_fragment(old[0], old[0].start, start, ledger),
            Piece(start, stop, counts, body, edit.slot, by),
            *_fragment(old[-1], stop, old[-1].stop, ledger),
        )
        if len(old) == len(new) == 1 and old[0].body == body:
            return self, None
        return self._splice(first, last, old, new)

    def undo(self, splice: Splice) -> Envelope:
        """The envelope as it was before `splice`."""
        return self.redo(Splice(splice.place, splice.new, splice.old))

    def redo(self, splice: Splice) -> Envelope:
        """Apply a recorded splice again."""
        index, old, new = splice
        first = self._position(index)
        if not old:
            chunk, offset = first
            pieces = self.chunks[chunk].pieces if self.chunks else ()
            kept = (*pieces[:offset], *new, *pieces[offset:])
            return _with(self.chunks[:chunk], kept, self.chunks[chunk + 1 :], _delta(self.counts, (), new))
        return self._splice(first, self._position(index + len(old) - 1), old, new)[0]

    def _insert(self, at: int, slot: str, body: Body, by: int, ledger: Ledger) -> tuple[Envelope, Splice | None]:
        if not slot:
            raise RuleError("an insert needs a slot", hint="This is a bug in a rule.")
        parts = body or ()
        new = (Piece(at, at, ledger.body(parts), parts, slot, by),) if parts else ()
        index = self._first_at(at)
        for piece in self._from(index):
            if piece.start != at or piece.stop != at:
                break
            if piece.slot == slot:
                if piece.body == (parts or None):
                    return self, None
                splice = Splice(index, (piece,), new)
                return self.redo(splice), splice
            index += 1
        if not new:
            return self, None
        if at < self.stop and self.at(at).start < at:
            place = self._find(at)
            inside = self.chunks[place[0]].pieces[place[1]]
            around = (*_fragment(inside, inside.start, at, ledger), *new, *_fragment(inside, at, inside.stop, ledger))
            return self._splice(place, place, (inside,), around)
        splice = Splice(index, (), new)
        return self.redo(splice), splice

    def _splice(
        self, first: tuple[int, int], last: tuple[int, int], old: Sequence[Piece], new: Sequence[Piece]
    ) -> tuple[Envelope, Splice]:
        (i, a), (j, b) = first, last
        index = sum(map(len, map(_PIECES, self.chunks[:i]))) + a
        kept = (*self.chunks[i].pieces[:a], *new, *self.chunks[j].pieces[b + 1 :])
        counts = _delta(self.counts, old, new)
        if i == j and 0 < len(kept) <= CHUNK:
            chunk = Chunk(kept, kept[-1].stop, _delta(self.chunks[i].counts, old, new))
            envelope = Envelope((*self.chunks[:i], chunk, *self.chunks[i + 1 :]), counts)
        else:
            envelope = _with(self.chunks[:i], kept, self.chunks[j + 1 :], counts)
        return envelope, Splice(index, tuple(old), tuple(new))

    def _find(self, address: int) -> tuple[int, int]:
        chunk = bisect_right(self.chunks, address, key=_STOP)
        return chunk, bisect_right(self.chunks[chunk].pieces, address, key=_STOP)

    def _position(self, index: int) -> tuple[int, int]:
        for number, chunk in enumerate(self.chunks):
            if index < len(chunk.pieces):
                return number, index
            index -= len(chunk.pieces)
        return max(0, len(self.chunks) - 1), len(self.chunks[-1].pieces) if self.chunks else 0

    def _between(self, first: tuple[int, int], last: tuple[int, int]) -> tuple[Piece, ...]:
        (i, a), (j, b) = first, last
        if i == j:
            return self.chunks[i].pieces[a : b + 1]
        middle = (piece for chunk in self.chunks[i + 1 : j] for piece in chunk.pieces)
        return (*self.chunks[i].pieces[a:], *middle, *self.chunks[j].pieces[: b + 1])

    def _first_at(self, address: int) -> int:
        """Index of the first piece that begins at or after `address`."""
        index = 0
        for chunk in self.chunks:
            if chunk.pieces[-1].start < address:
                index += len(chunk.pieces)
                continue
            for piece in chunk.pieces:
                if piece.start >= address:
                    return index
                index += 1
        return index

    def _from(self, index: int) -> Iterator[Piece]:
        for chunk in self.chunks:
            if index < len(chunk.pieces):
                yield from chunk.pieces[index:]
                index = 0
            else:
                index -= len(chunk.pieces)


def _fragment(piece: Piece, start: int, stop: int, ledger: Ledger) -> tuple[Piece, ...]:
    """What remains of `piece` on `[start, stop)` when a span beside it is replaced."""
    if start >= stop:
        return ()
    if piece.body is None:
        return (structs.replace(piece, start=start, stop=stop, counts=ledger.span(start, stop)),)
    if piece.body == ():
        return (structs.replace(piece, start=start, stop=stop),)
    raise RuleError(
        f"blocks {piece.start}:{piece.stop} are one stand-in and cannot be cut at {start if start > piece.start else stop}",
        hint=str(Span(piece.start, piece.stop)) + " can be replaced as a whole or restored.",
    )


def _add(a: Counts, b: Counts) -> Counts:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4])


def _delta(counts: Counts, old: Sequence[Piece], new: Sequence[Piece]) -> Counts:
    gone, come = total(old), total(new)
    return (
        counts[0] - gone[0] + come[0],
        counts[1] - gone[1] + come[1],
        counts[2] - gone[2] + come[2],
        counts[3] - gone[3] + come[3],
        counts[4] - gone[4] + come[4],
    )


def total(pieces: Sequence[Piece]) -> Counts:
    """Tokens per bucket of some pieces."""
    a = b = c = d = e = 0
    for piece in pieces:
        counts = piece.counts
        a += counts[0]
        b += counts[1]
        c += counts[2]
        d += counts[3]
        e += counts[4]
    return (a, b, c, d, e)


def _with(left: tuple[Chunk, ...], pieces: tuple[Piece, ...], right: tuple[Chunk, ...], counts: Counts) -> Envelope:
    """Chunks `left`, then `pieces` cut into chunks, then `right`."""
    if left and len(left[-1].pieces) + len(pieces) <= CHUNK // 2:
        left, pieces = left[:-1], (*left[-1].pieces, *pieces)
    middle: list[Chunk] = []
    step = len(pieces) if len(pieces) <= CHUNK else CHUNK // 2
    for i in range(0, len(pieces), step or 1):
        part = pieces[i : i + step]
        middle.append(Chunk(part, part[-1].stop, total(part)))
    return Envelope((*left, *middle, *right), counts)
