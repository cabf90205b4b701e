"""Where two envelopes differ, read off the chunks that they share: work grows with what differs, not with what stands.

Holds the reading of two tilings of the same addresses. What a difference means is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from engine.envelope import Chunk, Envelope
from engine.session.model import Piece

V = TypeVar("V")


def gaps(old: Envelope, new: Envelope) -> Iterator[tuple[list[Piece], list[Piece]]]:
    """The stretches in which two envelopes may differ, as pieces of both: what stands in no chunk that they share."""
    places = {id(chunk): number for number, chunk in enumerate(old.chunks)}
    done = start = 0
    for number, chunk in enumerate(new.chunks):
        at = places.get(id(chunk), -1)
        if at >= done:
            if at > done or number > start:
                yield _pieces(old.chunks[done:at]), _pieces(new.chunks[start:number])
            done, start = at + 1, number + 1
    if done < len(old.chunks) or start < len(new.chunks):
        yield _pieces(old.chunks[done:]), _pieces(new.chunks[start:])


def _pieces(chunks: Sequence[Chunk]) -> list[Piece]:
    return [piece for chunk in chunks for piece in chunk.pieces]


def repainted(
    old: Sequence[Piece], new: Sequence[Piece], of: Callable[[Piece], V], otherwise: V
) -> Iterator[tuple[int, int, V]]:
    """Runs of addresses at which `of` gives another value in `new` than in `old`: (start, stop, new value).

    Both cover the same addresses, but that `new` may reach further; `otherwise` is the old value there. Inserts do not count.
    """
    place = 0
    held: tuple[int, int, V] | None = None  # the run that may still grow
    for piece in new:
        if piece.start == piece.stop:
            continue
        value = of(piece)
        at = piece.start
        while at < piece.stop:
            while place < len(old) and old[place].stop <= at:
                place += 1
            known = old[place] if place < len(old) else None
            stop = min(piece.stop, known.stop) if known else piece.stop
            if known is not piece and value != (of(known) if known else otherwise):
                if held and held[1] == at and held[2] == value:
                    held = (held[0], stop, value)
                else:
                    if held:
                        yield held
                    held = (at, stop, value)
            at = stop
    if held:
        yield held


def differs(old: Envelope, new: Envelope, of: Callable[[Piece], V], otherwise: V) -> Iterator[tuple[int, int, V]]:
    """`repainted` over every gap of two envelopes."""
    for before, after in gaps(old, new):
        yield from repainted(before, after, of, otherwise)


def inserts(old: Envelope, new: Envelope) -> tuple[set[int], set[int]]:
    """Decisions whose inserts stand in `new` alone, and in `old` alone."""
    come: set[int] = set()
    gone: set[int] = set()
    for before, after in gaps(old, new):
        gone |= slotted(before)
        come |= slotted(after)
    return come - gone, gone - come


def slotted(pieces: Sequence[Piece]) -> set[int]:
    """Decisions that put the inserts among these pieces."""
    return {piece.by for piece in pieces if piece.start == piece.stop}
