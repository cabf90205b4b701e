"""Numbers per message that change in few places from request to request, kept in shared chunks.

Holds the data structure alone: a change copies the chunks it touches, so that every plan of a long session can hold its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
_CHUNK = 64


@dataclass(frozen=True, slots=True, repr=False)
class Column(Generic[T]):
    """A list of values in chunks; `folds` holds one number per chunk (its sum, or its largest)."""

    fold: Callable[[Iterable[T]], int]
    chunks: tuple[tuple[T, ...], ...] = ()
    folds: tuple[int, ...] = ()

    def __len__(self) -> int:
        return (len(self.chunks) - 1) * _CHUNK + len(self.chunks[-1]) if self.chunks else 0

    def __getitem__(self, i: int) -> T:
        return self.chunks[i // _CHUNK][i % _CHUNK]

    def __iter__(self) -> Iterator[T]:
        return (value for chunk in self.chunks for value in chunk)

    def extended(self, values: Iterable[T]) -> Column[T]:
        """With further values at the end."""
        new = list(values)
        if not new:
            return self
        last = len(self) // _CHUNK
        new = [*(self.chunks[last] if last < len(self.chunks) else ()), *new]
        more = tuple(tuple(new[i : i + _CHUNK]) for i in range(0, len(new), _CHUNK))
        return Column(self.fold, (*self.chunks[:last], *more), (*self.folds[:last], *map(self.fold, more)))

    def replaced(self, values: Mapping[int, T]) -> Column[T]:
        """With other values at some places."""
        if not values:
            return self
        chunks, folds = list(self.chunks), list(self.folds)
        opened: dict[int, list[T]] = {}
        for i, value in values.items():
            opened.setdefault(i // _CHUNK, list(chunks[i // _CHUNK]))[i % _CHUNK] = value
        for number, chunk in opened.items():
            chunks[number] = tuple(chunk)
            folds[number] = self.fold(chunk)
        return Column(self.fold, tuple(chunks), tuple(folds))

    def above(self, limit: int, stop: int) -> Iterator[tuple[int, T]]:
        """Places before `stop` in chunks whose fold is above `limit`, with their values."""
        for number in range(-(-stop // _CHUNK)):
            if self.folds[number] > limit:
                first = number * _CHUNK
                yield from enumerate(self.chunks[number][: stop - first], first)


def total(column: Column[int], start: int, stop: int) -> int:
    """Sum of the values `start:stop` of a column that is folded by its sum."""
    first, last = -(-start // _CHUNK), stop // _CHUNK
    if first > last:
        return sum(column.chunks[last][start - last * _CHUNK : stop - last * _CHUNK])
    edges = sum(column.chunks[first - 1][start - (first - 1) * _CHUNK :]) if start < first * _CHUNK else 0
    if stop > last * _CHUNK:
        edges += sum(column.chunks[last][: stop - last * _CHUNK])
    return sum(column.folds[first:last]) + edges


def fitting(column: Column[int], start: int, stop: int, taken: int, room: int) -> tuple[int, int]:
    """How far back from `stop` values fit into `room` beside what is `taken`: the first that does, and all that is then taken.

    Nothing is added once the room is full, not even a value of 0.
    """
    while stop > start and taken < room:
        number = (stop - 1) // _CHUNK
        first = number * _CHUNK
        if first >= start and stop == min(first + _CHUNK, len(column)) and taken + column.folds[number] < room:
            taken, stop = taken + column.folds[number], first
            continue
        value = column[stop - 1]
        if taken + value > room:
            break
        taken, stop = taken + value, stop - 1
    return stop, taken
