"""The envelope: a tiling of the storage timeline, stored in shared chunks.

Holds the data structure and its three changes: `grow`, `replace` and `undo`. Rules decide what changes.

Pieces are in address order and tile `[0, stop)`. A piece of zero width is an insert; it comes before the piece that begins at
its address. Chunks are immutable and shared between envelopes, so a change copies only the chunks that it touches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from sys import maxsize

from msgspec import Struct, structs

from turnscope import notebook
from turnscope.counting.ledger import Ledger
from turnscope.envelope.pieces import Piece, Splice
from turnscope.errors import RuleError
from turnscope.session.model import BUCKETS, ZERO, Counts, Edit, Placeholder, Span

_START, _STOP = attrgetter("start"), attrgetter("stop")
_PIECES, _COUNTS = attrgetter("pieces"), attrgetter("counts")
SYSTEM_ORDER = ("files", "documents", "memory", "agent_memory")  # of inserts at one address in the system prompt
CHUNK = 128  # pieces; a splice copies one or two chunks, so this limits the cost of a change

Place = tuple[int, int]  # number of a chunk, number of a piece in it


class Chunk(Struct, frozen=True, gc=False):
    """A run of pieces with their summed counts. `stop` is the address behind the last piece.

    `is_sent` is False where none of its blocks is sent: a sliding window leaves a long tail of such chunks, which need not be
    read again.
    """

    pieces: tuple[Piece, ...]
    stop: int
    counts: Counts
    is_sent: bool = True


def _build_chunk(pieces: tuple[Piece, ...], counts: Counts) -> Chunk:
    return Chunk(pieces, pieces[-1].stop, counts, any(piece.body != () and piece.start < piece.stop for piece in pieces))


def _get_rank(slot: str, body: Placeholder) -> int:
    """Return the place of an insert among those of its address; 0 where it stands as it came."""
    return SYSTEM_ORDER.index(slot) + 1 if slot in SYSTEM_ORDER and body and body[0].place == "system" else 0


def _get_last_start(chunk: Chunk) -> int:
    return chunk.pieces[-1].start


class Envelope(Struct, frozen=True, gc=False):
    """What one request carries: every block of `[0, stop)` in exactly one state."""

    chunks: tuple[Chunk, ...] = ()
    counts: Counts = ZERO

    @property
    def tokens(self) -> int:
        """Tokens of all five buckets, in the units of the ledger's counter."""
        return sum(self.counts)

    @property
    def buckets(self) -> dict[str, int]:
        """Tokens by name of the bucket, in the units of the ledger's counter."""
        return {bucket.value: tokens for bucket, tokens in zip(BUCKETS, self.counts, strict=True)}

    @property
    def stop(self) -> int:
        """Address behind the last block."""
        return self.chunks[-1].stop if self.chunks else 0

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces in address order."""
        return (piece for chunk in self.chunks for piece in chunk.pieces)

    def __len__(self) -> int:
        return sum(len(chunk.pieces) for chunk in self.chunks)

    def __repr__(self) -> str:
        return f"<Envelope {self.tokens:,} tokens in {len(self)} pieces over {self.stop} blocks>"

    def _repr_html_(self) -> str:
        return notebook.render_card(
            f"{self.tokens:,} counted tokens", notebook.render_bar(self.buckets), note=f"of {self.stop:,} blocks"
        )

    def find_piece(self, address: int) -> Piece:
        """Return the piece that holds block `address`. IndexError where the envelope does not reach so far."""
        chunk = bisect_right(self.chunks, address, key=_STOP)
        if address < 0 or chunk == len(self.chunks):
            raise IndexError(f"block {address} is not in an envelope of {self.stop} blocks")
        pieces = self.chunks[chunk].pieces
        return pieces[bisect_right(pieces, address, key=_STOP)]

    def iter_pieces(self, span: Span) -> Iterator[Piece]:
        """Yield the pieces that hold the blocks of `span`, without inserts."""
        for piece in self._iter_from(self._find(span.start)):
            if piece.start >= span.stop:
                return
            if piece.start < piece.stop:
                yield piece

    def iter_pieces_and_inserts(self, span: Span) -> Iterator[Piece]:
        """Yield the pieces that reach into `span`, with the inserts before its blocks (at the envelope's end, also behind)."""
        inside = span.start < self.stop and self.find_piece(span.start).start < span.start
        for piece in self._iter_from(self._find(span.start) if inside else self._seek(span.start)):
            if piece.start >= span.stop and (span.stop < self.stop or piece.start > span.stop):
                return
            yield piece

    def grow(self, stop: int, ledger: Ledger) -> Envelope:
        """Return the envelope with the blocks `[self.stop, stop)` added verbatim.

        Args:
            stop: Address behind the last block.
            ledger: Token counts of the session.
        """
        start = self.stop
        if stop <= start:
            return self
        added = ledger.count_by_bucket(start, stop)
        counts = _add(self.counts, added)
        if not self.chunks:
            return _build_envelope((), (Piece(start, stop, added),), (), counts)
        chunk = self.chunks[-1]
        last = chunk.pieces[-1]
        grows = last.body is None and last.by < 0 and last.start < last.stop
        piece = Piece(last.start, stop, _add(last.counts, added)) if grows else Piece(start, stop, added)
        pieces = (*chunk.pieces[:-1], piece) if grows else (*chunk.pieces, piece)
        if len(pieces) > CHUNK:
            return _build_envelope(self.chunks[:-1], pieces, (), counts)
        return Envelope((*self.chunks[:-1], Chunk(pieces, stop, _add(chunk.counts, added))), counts)

    def replace(self, edit: Edit, by: int, ledger: Ledger) -> tuple[Envelope, Splice | None]:
        """Apply an edit.

        Args:
            edit: The edit.
            by: Number of the decision that makes it.
            ledger: Token counts of the session.

        Returns:
            The new envelope, and the splice that undoes the edit (None where nothing changed).

        Raises:
            RuleError: The span leaves the envelope, or cuts a placeholder in two.
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
        first = self._find(start)
        inside = self.chunks[first[0]].pieces[first[1]]
        last = first if stop <= inside.stop else self._find(stop - 1)
        old = (inside,) if last == first else self._collect_between(first, last)
        body: Placeholder = None if edit.restore else edit.body
        counts = ledger.count_by_bucket(start, stop) if body is None else ledger.count_placeholder(body)
        new = (
            *_cut_fragment(old[0], old[0].start, start, ledger),
            Piece(start, stop, counts, body=body, slot=edit.slot, by=by),
            *_cut_fragment(old[-1], stop, old[-1].stop, ledger),
        )
        if len(old) == len(new) == 1 and old[0].body == body:
            return self, None
        return self._splice(first, last, old, new)

    def replace_each(self, edits: Sequence[Edit], by: int, ledger: Ledger) -> tuple[Envelope, list[tuple[Splice | None, int]]]:
        """Apply edits one after another, as `replace` does. Those of one verbatim piece, in address order, cost one copy.

        Args:
            edits: The edits.
            by: Number of the first one's decision; the others follow it.
            ledger: Token counts of the session.

        Returns:
            The envelope after all of them, and of each its splice and the tokens of the envelope after it.

        Raises:
            RuleError: As `replace` does.
        """
        envelope, made = self, list[tuple[Splice | None, int]]()
        while len(made) < len(edits):
            rest = edits[len(made) :] if made else edits
            count = envelope._count_inside(rest)
            if count > 1:
                envelope, changes = envelope._cut_piece(rest[:count], by + len(made), ledger)
                made += changes
            else:
                envelope, splice = envelope.replace(rest[0], by + len(made), ledger)
                made.append((splice, envelope.tokens))
        return envelope, made

    def are_verbatim(self, edits: Sequence[Edit]) -> bool:
        """Return whether edits, in address order, each replace or drop blocks of one verbatim piece, and do nothing else."""
        done = 0
        while done < len(edits):
            count = self._count_inside(edits[done:])
            if not count:
                return False
            done += count
        return not any(edit.model for edit in edits)

    def _count_inside(self, edits: Sequence[Edit]) -> int:
        """Count how many of the first edits replace blocks of one verbatim piece, each behind the one before it."""
        span = edits[0].span
        if span is None or not 0 <= span.start < span.stop <= self.stop:
            return 0
        inside, at = self.find_piece(span.start), span.start
        if inside.body is not None:
            return 0
        for count, edit in enumerate(edits):
            span = edit.span
            if span is None or not at <= span.start < span.stop <= inside.stop or edit.restore or edit.body is None:
                return count
            at = span.stop
        return len(edits)

    def _cut_piece(self, edits: Sequence[Edit], by: int, ledger: Ledger) -> tuple[Envelope, list[tuple[Splice | None, int]]]:
        """Apply edits of one verbatim piece, each behind the one before it."""
        place = self._find((edits[0].span or Span(0, 0)).start)
        inside = rest = self.chunks[place[0]].pieces[place[1]]
        number = self._count_before(place)
        pieces, made, tokens = list[Piece](), list[tuple[Splice | None, int]](), self.tokens
        for seq, edit in enumerate(edits, by):
            start, stop = edit.span or Span(0, 0)
            piece = Piece(start, stop, ledger.count_placeholder(edit.body), body=edit.body, slot=edit.slot, by=seq)
            left, right = _cut_fragment(rest, rest.start, start, ledger), _cut_fragment(rest, stop, rest.stop, ledger)
            new = (*left, piece, *right)
            tokens += sum(sum_counts(new)) - sum(rest.counts)
            made.append((Splice((rest.start, number), (rest,), new), tokens))
            pieces += new if not right else new[:-1]
            rest, number = new[-1], 0
        if rest is not pieces[-1]:
            pieces.append(rest)
        return self._splice(place, place, (inside,), pieces)[0], made

    def undo(self, splice: Splice) -> Envelope:
        """Return the envelope before `splice`."""
        return self.redo(Splice(splice.place, splice.new, splice.old))

    def redo(self, splice: Splice) -> Envelope:
        """Apply a recorded splice again."""
        (address, number), old, new = splice.place, splice.old, splice.new
        first = self._seek(address, number)
        if not old:
            chunk, offset = first
            pieces = self.chunks[chunk].pieces if self.chunks else ()
            sequence = (*pieces[:offset], *new, *pieces[offset:])
            return _build_envelope(self.chunks[:chunk], sequence, self.chunks[chunk + 1 :], _add(self.counts, sum_counts(new)))
        return self._splice(first, self._advance(first, len(old) - 1), old, new)[0]

    def _insert(self, at: int, slot: str, body: Placeholder, by: int, ledger: Ledger) -> tuple[Envelope, Splice | None]:
        if not slot:
            raise RuleError("an insert needs a slot", hint="This is a bug in a rule.")
        parts = body or ()
        new = (Piece(at, at, ledger.count_placeholder(parts), body=parts, slot=slot, by=by),) if parts else ()
        number, behind, rank = 0, maxsize, _get_rank(slot, body)
        for piece in self._iter_from(self._seek(at)):
            if piece.start != at or piece.stop != at:
                break
            if 0 < rank < _get_rank(piece.slot, piece.body):
                behind = min(behind, number)
            if piece.slot == slot:
                if piece.body == (parts or None):
                    return self, None
                splice = Splice((at, number), (piece,), new)
                return self.redo(splice), splice
            number += 1
        if not new:
            return self, None
        if at < self.stop and self.find_piece(at).start < at:
            place = self._find(at)
            inside = self.chunks[place[0]].pieces[place[1]]
            around = (*_cut_fragment(inside, inside.start, at, ledger), *new, *_cut_fragment(inside, at, inside.stop, ledger))
            return self._splice(place, place, (inside,), around)
        splice = Splice((at, min(number, behind)), (), new)
        return self.redo(splice), splice

    def _splice(self, first: Place, last: Place, old: Sequence[Piece], new: Sequence[Piece]) -> tuple[Envelope, Splice]:
        (i, a), (j, b) = first, last
        address, number = old[0].start, self._count_before(first)
        sequence = (*self.chunks[i].pieces[:a], *new, *self.chunks[j].pieces[b + 1 :])
        change = _subtract(sum_counts(new), sum_counts(old) if i == j else self._sum_between(first, last))
        counts = _add(self.counts, change)
        if i == j and 0 < len(sequence) <= CHUNK:
            chunk = _build_chunk(sequence, _add(self.chunks[i].counts, change))
            envelope = Envelope((*self.chunks[:i], chunk, *self.chunks[i + 1 :]), counts)
        else:
            envelope = _build_envelope(self.chunks[:i], sequence, self.chunks[j + 1 :], counts)
        return envelope, Splice((address, number), tuple(old), tuple(new))

    def _find(self, address: int) -> Place:
        chunk = bisect_right(self.chunks, address, key=_STOP)
        return chunk, bisect_right(self.chunks[chunk].pieces, address, key=_STOP)

    def _seek(self, address: int, number: int = 0) -> Place:
        """The place `number` pieces behind the first piece that begins at or after `address`."""
        chunk = bisect_left(self.chunks, address, key=_get_last_start)
        if chunk == len(self.chunks):
            return max(0, chunk - 1), len(self.chunks[-1].pieces) if self.chunks else 0
        return self._advance((chunk, bisect_left(self.chunks[chunk].pieces, address, key=_START)), number)

    def _advance(self, place: Place, number: int) -> Place:
        chunk, offset = place[0], place[1] + number
        while offset >= len(self.chunks[chunk].pieces) and chunk + 1 < len(self.chunks):
            offset -= len(self.chunks[chunk].pieces)
            chunk += 1
        return chunk, offset

    def _count_before(self, place: Place) -> int:
        """How many inserts come right before a piece, at the same address."""
        i, a = place
        address = self.chunks[i].pieces[a].start
        stands = self.chunks[i].pieces[a - 1] if a else self.chunks[i - 1].pieces[-1] if i else None
        return self._count_between(self._seek(address), place) if stands and stands.start == address else 0

    def _count_between(self, first: Place, last: Place) -> int:
        return sum(len(chunk.pieces) for chunk in self.chunks[first[0] : last[0]]) + last[1] - first[1]

    def _collect_between(self, first: Place, last: Place) -> tuple[Piece, ...]:
        (i, a), (j, b) = first, last
        if i == j:
            return self.chunks[i].pieces[a : b + 1]
        middle = chain.from_iterable(map(_PIECES, self.chunks[i + 1 : j]))  # thousands for a sliding window
        return (*self.chunks[i].pieces[a:], *middle, *self.chunks[j].pieces[: b + 1])

    def _sum_between(self, first: Place, last: Place) -> Counts:
        """Tokens per bucket of the pieces from `first` to `last`, which are in different chunks."""
        (i, a), (j, b) = first, last
        ends = (sum_counts(self.chunks[i].pieces[a:]), sum_counts(self.chunks[j].pieces[: b + 1]))
        c, d, e, f, g = zip(*ends, *map(_COUNTS, self.chunks[i + 1 : j]), strict=True)
        return (sum(c), sum(d), sum(e), sum(f), sum(g))

    def _iter_from(self, place: Place) -> Iterator[Piece]:
        first, *rest = map(_PIECES, self.chunks[place[0] :] or (Chunk((), 0, ZERO),))
        return chain(islice(first, place[1], None), chain.from_iterable(rest))


def _cut_fragment(piece: Piece, start: int, stop: int, ledger: Ledger) -> tuple[Piece, ...]:
    """What remains of `piece` on `[start, stop)` when a neighbouring span is replaced."""
    if start >= stop:
        return ()
    if piece.body is None:
        return (Piece(start, stop, ledger.count_by_bucket(start, stop), None, piece.slot, piece.by),)
    if piece.body == ():
        return (structs.replace(piece, start=start, stop=stop),)
    raise RuleError(
        f"blocks {piece.start}:{piece.stop} have one placeholder and cannot be cut at {start if start > piece.start else stop}",
        hint=str(Span(piece.start, piece.stop)) + " can be replaced or restored as a whole.",
    )


def _add(a: Counts, b: Counts) -> Counts:
    (c, d, e, f, g), (v, w, x, y, z) = a, b
    return (c + v, d + w, e + x, f + y, g + z)


def _subtract(counts: Counts, others: Counts) -> Counts:
    (a, b, c, d, e), (v, w, x, y, z) = counts, others
    return (a - v, b - w, c - x, d - y, e - z)


def sum_counts(pieces: Sequence[Piece]) -> Counts:
    """Return the tokens per bucket of some pieces."""
    a = b = c = d = e = 0
    for piece in pieces:
        v, w, x, y, z = piece.counts
        a += v
        b += w
        c += x
        d += y
        e += z
    return (a, b, c, d, e)


def _build_envelope(left: tuple[Chunk, ...], pieces: tuple[Piece, ...], right: tuple[Chunk, ...], counts: Counts) -> Envelope:
    """Chunks `left`, then `pieces` cut into chunks, then `right`."""
    if left and len(left[-1].pieces) + len(pieces) <= CHUNK // 2:
        left, pieces = left[:-1], (*left[-1].pieces, *pieces)
    middle: list[Chunk] = []
    step = len(pieces) if len(pieces) <= CHUNK else CHUNK // 2
    for i in range(0, len(pieces), step or 1):
        part = pieces[i : i + step]
        middle.append(_build_chunk(part, sum_counts(part)))
    return Envelope((*left, *middle, *right), counts)
