"""Numbers per message that change in few places from request to request, stored in shared chunks.

A change copies only the chunks that it touches, so every plan of a long session can hold its own numbers. This module is the
data structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

T = TypeVar("T")
CHUNK = 64


def _count_held(values: Iterable[object]) -> int:
    numbers = tuple(values)
    return len(numbers) - numbers.count(None)


_FOLDS: Mapping[str, Callable[[Iterable[Any]], int]] = {"sum": sum, "max": max, "held": _count_held}


class Column(Struct, Generic[T], frozen=True, gc=False):
    """A list of values in chunks. `folds` holds one number per chunk: its sum, its maximum, or how many values are not None."""

    fold: Literal["sum", "max", "held"]
    chunks: tuple[tuple[T, ...], ...] = ()
    folds: tuple[int, ...] = ()

    def __len__(self) -> int:
        return (len(self.chunks) - 1) * CHUNK + len(self.chunks[-1]) if self.chunks else 0

    def __getitem__(self, i: int) -> T:
        return self.chunks[i // CHUNK][i % CHUNK]

    def __iter__(self) -> Iterator[T]:
        return (value for chunk in self.chunks for value in chunk)

    def extend(self, values: Iterable[T]) -> Column[T]:
        """Return the column with further values at the end."""
        new = list(values)
        if not new:
            return self
        last = len(self) // CHUNK
        if last < len(self.chunks) and len(self.chunks[last]) + len(new) <= CHUNK:
            chunk = (*self.chunks[last], *new)
            return Column(self.fold, (*self.chunks[:-1], chunk), (*self.folds[:-1], _FOLDS[self.fold](chunk)))
        new = [*(self.chunks[last] if last < len(self.chunks) else ()), *new]
        more = tuple(tuple(new[i : i + CHUNK]) for i in range(0, len(new), CHUNK))
        return Column(self.fold, (*self.chunks[:last], *more), (*self.folds[:last], *map(_FOLDS[self.fold], more)))

    def take(self, count: int) -> Column[T]:
        """Return the first `count` values."""
        whole, rest = divmod(count, CHUNK)
        if not rest or whole >= len(self.chunks):
            return Column(self.fold, self.chunks[:whole], self.folds[:whole])
        chunk = self.chunks[whole][:rest]
        return Column(self.fold, (*self.chunks[:whole], chunk), (*self.folds[:whole], _FOLDS[self.fold](chunk)))

    def replace(self, values: Mapping[int, T]) -> Column[T]:
        """Return the column with other values at some places."""
        if not values:
            return self
        chunks, folds = list(self.chunks), list(self.folds)
        opened: dict[int, list[T]] = {}
        for i, value in values.items():
            opened.setdefault(i // CHUNK, list(chunks[i // CHUNK]))[i % CHUNK] = value
        for number, chunk in opened.items():
            chunks[number] = tuple(chunk)
            folds[number] = _FOLDS[self.fold](chunks[number])
        return Column(self.fold, tuple(chunks), tuple(folds))

    def find_above(self, least: int) -> list[int]:
        """Return the numbers of the chunks whose fold is above `least`."""
        return [number for number, fold in enumerate(self.folds) if fold > least]


def iter_above(column: Column[int], limit: Callable[[int], int], stop: int) -> Iterator[tuple[int, int]]:
    """Yield the places before `stop` whose value is above the limit there, each with that limit.

    The column is folded by its maximum. Limits must not fall from one place to the next.

    Args:
        column: The values.
        limit: Gives the limit at a place.
        stop: The first place that is not looked at.
    """
    for number in column.find_above(limit(0)) if stop else ():
        first = number * CHUNK
        least = limit(first)
        if first < stop and column.folds[number] > least:
            for j, value in enumerate(column.chunks[number][: stop - first], first):
                if value > least and value > (most := limit(j)):
                    yield j, most


def sum_between(column: Column[int], start: int, stop: int) -> int:
    """Return the sum of the values `start:stop` of a column that is folded by its sum.

    Args:
        column: The values.
        start: The first place.
        stop: The place after the last one.
    """
    first, last = -(-start // CHUNK), stop // CHUNK
    if first > last:
        return sum(column.chunks[last][start - last * CHUNK : stop - last * CHUNK])
    edges = sum(column.chunks[first - 1][start - (first - 1) * CHUNK :]) if start < first * CHUNK else 0
    if stop > last * CHUNK:
        edges += sum(column.chunks[last][: stop - last * CHUNK])
    return sum(column.folds[first:last]) + edges


def find_fitting(column: Column[int], start: int, stop: int, taken: int, room: int) -> tuple[int, int]:
    """Return how far back from `stop` values fit: the first place that fits, and the tokens then taken.

    Nothing is added once the room is full, not even a value of 0.

    Args:
        column: The tokens of the messages.
        start: The first place that may be taken.
        stop: The place after the last.
        taken: Tokens that are taken already.
        room: Tokens that may be taken in all.
    """
    while stop > start and taken < room:
        number = (stop - 1) // CHUNK
        first = number * CHUNK
        if first >= start and stop == min(first + CHUNK, len(column)) and taken + column.folds[number] < room:
            taken, stop = taken + column.folds[number], first
            continue
        value = column[stop - 1]
        if taken + value > room:
            break
        taken, stop = taken + value, stop - 1
    return stop, taken
