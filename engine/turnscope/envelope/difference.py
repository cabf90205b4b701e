"""Where two envelopes differ. Shared chunks are skipped, so the work grows with the difference, not with the size.

Compares two tilings of the same addresses, for rules, the record and the stepper. The caller decides what a difference means.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, indexOf, is_
from typing import TypeVar

from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx
from turnscope.session.model import Action, Edit, Placeholder, Span

V = TypeVar("V")
_NOTHING: object = object()
_STOP = attrgetter("stop")


def find_changes(envelope: Envelope, ctx: Ctx) -> list[Span]:
    """Return where blocks may differ from the previous plan's `after`, new blocks included: in order, without overlaps.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
    """
    was = ctx.previous.after if ctx.previous else Envelope()
    if ctx.earlier_decisions is None:
        return find_changed_spans(was, envelope)
    found: list[Span] = []
    splices = (d.splice for d in ctx.earlier_decisions if d.splice)
    spans = (Span(start, stop) for s in splices for start, stop, _ in compare_pieces(s.old, s.new, get_visible, None))
    for span in sorted((*spans, Span(was.stop, envelope.stop))):
        if found and span.start <= found[-1].stop:
            found[-1] = Span(found[-1].start, max(found[-1].stop, span.stop))
        elif span.start < span.stop:
            found.append(span)
    return found


def find_changed_spans(old: Envelope, new: Envelope) -> list[Span]:
    """Return where blocks are sent otherwise in `new` than in `old`, new blocks included. Shared chunks are not read.

    A text that replaces blocks shows none of them: it counts as if they were dropped.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    front = indexOf(chain(map(is_, old.chunks, new.chunks), (False,)), False)
    was, now = old.chunks[front:], new.chunks[front:]
    if not now or (len(now) == 1 and _only_grows(was, now[0])):
        return [Span(old.stop, new.stop)] if old.stop < new.stop else []
    shared = {*map(id, was)} & {*map(id, now)}
    gone = [chunk for chunk in was if id(chunk) not in shared and chunk.is_sent]
    same = {*map(id, chain.from_iterable(chunk.pieces for chunk in gone))}
    end, found = old.stop, list[Span]()
    for piece in [piece for chunk in now if id(chunk) not in shared for piece in chunk.pieces if id(piece) not in same]:
        at = piece.start
        while at < piece.stop:
            if at >= end:
                found.append(Span(at, piece.stop))
                break
            if piece.body == ():
                for chunk in gone[bisect_right(gone, at, key=_STOP) :]:
                    if chunk.pieces[0].start >= piece.stop:
                        break
                    found += _find_visible(chunk, at, piece.stop)
                at = min(end, piece.stop)
                continue
            then = old.find_piece(at)
            stop = min(then.stop, piece.stop)
            if get_visible(then) != get_visible(piece):
                found.append(Span(at, stop))
            at = stop
    return found


def _only_grows(was: Sequence[Chunk], now: Chunk) -> bool:
    """Whether the last chunk has what it had, and behind it new blocks as they are: so most requests follow the one before."""
    old = was[0].pieces if len(was) == 1 else ()
    same = indexOf(chain(map(is_, old, now.pieces), (False,)), False)
    if len(now.pieces) != same + 1 or now.pieces[same].body is not None:
        return False
    last = old[same:]
    return len(was) <= 1 and (not last or (len(last) == 1 and last[0].body is None and last[0].start == now.pieces[same].start))


def _find_visible(chunk: Chunk, start: int, stop: int) -> Iterator[Span]:
    """What a chunk shows of the blocks in `[start, stop)`."""
    for piece in chunk.pieces[bisect_right(chunk.pieces, start, key=_STOP) :]:
        if piece.start >= stop:
            return
        if piece.body != () and piece.start < piece.stop and get_visible(piece) != ():
            yield Span(max(start, piece.start), min(piece.stop, stop))


def find_first_change(old: Envelope, new: Envelope) -> int | None:
    """Return the first address at which `new` shows something else than `old`; None where there is none.

    New blocks at the end are a change only if they are not verbatim. An insert counts at its address.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    front = indexOf(chain(map(is_, old.chunks, new.chunks), (False,)), False)
    if len(new.chunks) == front + 1 and old.stop <= new.stop and _only_grows(old.chunks[front:], new.chunks[front]):
        return None
    was, now = _collect_pieces(old.chunks[front:]), _collect_pieces(new.chunks[front:])
    same = indexOf(chain(map(is_, was, now), (False,)), False)
    was, now = was[same:], now[same:]
    i = j = 0
    while j < len(now):
        piece = now[j]
        if i == len(was):
            if piece.body is not None:
                return max(piece.start, old.stop)
            j += 1
            continue
        known = was[i]
        if known is piece or (known.start, known.stop, known.body) == (piece.start, piece.stop, piece.body):
            i, j = i + 1, j + 1
        elif known.body == piece.body and not piece.body:  # cut at other places, but all verbatim or all dropped
            i, j = i + (known.stop <= piece.stop), j + (piece.stop <= known.stop)
        else:
            return max(known.start, piece.start)
    return was[i].start if i < len(was) else None


def build_lapse_edits(old: Envelope, new: Envelope) -> Iterator[Edit]:
    """Yield edits that turn `old` into `new` where decisions did not last. New blocks at the end are not included.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    shared = {id(chunk) for chunk in old.chunks} & {id(chunk) for chunk in new.chunks}
    was, now = (
        {(p.start, p.stop, p.slot): p.body for c in envelope.chunks if id(c) not in shared for p in c.pieces}
        for envelope in (old, new)
    )
    because = "it held for earlier requests only"
    for place, body in was.items():
        if body is not None and now.get(place, None) != body:
            start, stop, slot = place
            yield Edit("restore", because, Span(start, stop), (), restore=start < stop, slot="" if start < stop else slot)
    for place, body in now.items():
        if body is not None and was.get(place, None) != body:
            action: Action = "drop" if body == () else "insert" if place[0] == place[1] else "truncate"
            yield Edit(action, because, Span(*place[:2]), body, slot=place[2])


def get_visible(piece: Piece) -> object:
    """Return what a piece shows of its own blocks: None = all, () = nothing, else a value that says how."""
    body = piece.body
    if not body:
        return body
    plain = all(part.ref is None and part.raw is None and part.kind in ("text", "summary") for part in body)
    return () if plain else (piece.start, body)


def find_gaps(old: Envelope, new: Envelope) -> Iterator[tuple[list[Piece], list[Piece]]]:
    """Yield the stretches in which two envelopes may differ, as pieces of both: everything outside shared chunks.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    done = start = indexOf(chain(map(is_, old.chunks, new.chunks), (False,)), False)
    places = {id(chunk): number for number, chunk in enumerate(old.chunks[done:], done)}
    for number, chunk in enumerate(new.chunks[start:], start):
        at = places.get(id(chunk), -1)
        if at >= done:
            if at > done or number > start:
                yield _collect_pieces(old.chunks[done:at]), _collect_pieces(new.chunks[start:number])
            done, start = at + 1, number + 1
    if done < len(old.chunks) or start < len(new.chunks):
        yield _collect_pieces(old.chunks[done:]), _collect_pieces(new.chunks[start:])


def _collect_pieces(chunks: Sequence[Chunk]) -> list[Piece]:
    return [piece for chunk in chunks for piece in chunk.pieces]


def compare_pieces(
    old: Sequence[Piece], new: Sequence[Piece], value_of: Callable[[Piece], V], default: V
) -> Iterator[tuple[int, int, V]]:
    """Yield the runs of addresses at which a value differs, as (start, stop, new value). Inserts are ignored.

    Both sequences cover the same addresses, except that `new` may reach further.

    Args:
        old: Pieces before.
        new: Pieces after.
        value_of: The value of a piece.
        default: The old value of addresses that `old` does not reach.
    """
    place = 0
    run: tuple[int, int, V] | None = None  # the run at hand, which may still grow
    for piece in new:
        if piece.start == piece.stop:
            continue
        value = value_of(piece)
        at = piece.start
        while at < piece.stop:
            while place < len(old) and old[place].stop <= at:
                place += 1
            known = old[place] if place < len(old) else None
            stop = min(piece.stop, known.stop) if known else piece.stop
            if known is not piece and value != (value_of(known) if known else default):
                if run and run[1] == at and run[2] == value:
                    run = (run[0], stop, value)
                else:
                    if run:
                        yield run
                    run = (at, stop, value)
            at = stop
    if run:
        yield run


def compare_envelopes(old: Envelope, new: Envelope, value_of: Callable[[Piece], V], default: V) -> Iterator[tuple[int, int, V]]:
    """Yield the runs of addresses at which a value differs between two envelopes, as (start, stop, new value).

    Args:
        old: The envelope before.
        new: The envelope after.
        value_of: The value of a piece.
        default: The old value of addresses that `old` does not reach.
    """
    for before, after in find_gaps(old, new):
        yield from compare_pieces(before, after, value_of, default)


def compare_inserts(old: Envelope, new: Envelope) -> tuple[set[int], set[int]]:
    """Return the decisions whose inserts are only in `new`, and those whose inserts are only in `old`.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    come: set[int] = set()
    gone: set[int] = set()
    for before, after in find_gaps(old, new):
        gone |= find_insert_decisions(before)
        come |= find_insert_decisions(after)
    return come - gone, gone - come


def find_alterations(old: Envelope, new: Envelope) -> list[Span]:
    """Return where `new` sends something else than `old`, new blocks included, in order. An insert is an empty span.

    Args:
        old: The earlier envelope.
        new: The later envelope.
    """
    front = indexOf(chain(map(is_, old.chunks, new.chunks), (False,)), False)
    if len(new.chunks) == front + 1 and _only_grows(old.chunks[front:], new.chunks[front]):
        return [Span(old.stop, new.stop)] if old.stop < new.stop else []
    found: list[Span] = []
    for was, now in find_gaps(old, new):
        same = indexOf(chain(map(is_, was, now), (False,)), False)
        before, after = was[same:], now[same:]
        found += (Span(start, stop) for start, stop, _ in compare_pieces(before, after, _get_sent, _NOTHING))
        one, two = _group_inserts(before), _group_inserts(after)
        found += (Span(at, at) for at in one.keys() | two.keys() if one.get(at) != two.get(at))
    return sorted(found)


def _get_sent(piece: Piece) -> object:
    """What a piece sends of its own blocks."""
    return (piece.start, piece.stop, piece.body) if piece.body else piece.body


def _group_inserts(pieces: Sequence[Piece]) -> dict[int, list[Placeholder]]:
    found: dict[int, list[Placeholder]] = {}
    for piece in pieces:
        if piece.start == piece.stop:
            found.setdefault(piece.start, []).append(piece.body)
    return found


def find_insert_decisions(pieces: Sequence[Piece]) -> set[int]:
    """Return the numbers of the decisions that made the inserts among these pieces."""
    return {piece.by for piece in pieces if piece.start == piece.stop}
