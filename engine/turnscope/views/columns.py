"""Columns of an overview for a figure: requests or turns, binned where there are more than fit on a screen.

Pure functions of an `Overview`; no colours, no Plotly. A bin shows its largest value and the request that has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from turnscope.counting.reconciliation import Floats, Ints
from turnscope.views.bill import READ, UNCACHED, WRITTEN
from turnscope.views.overview import CELLS, Overview, list_turns

Unit = Literal["requests", "turns"]
Measure = Literal["tokens", "cost", "share"]
Requests = tuple[int, int]
"""Requests `[start, stop)`."""

WARN_AT = 0.9  # of the window; from here on a prompt is close to being cut
MIN_CACHED_SHARE = 0.5  # of a cell's tokens; a cell counts as cached above this


@dataclass(frozen=True, slots=True)
class Outline:
    """Points of the saw-tooth: their position on the axis, and the request of each."""

    x: Ints
    request: Ints


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns by cells, `[column, cell]`. Cells are those of `CELLS`.

    Attributes:
        width: requests or turns in one column.
        values: the chosen measure.
        tokens: provider tokens.
        cached: whether most of the cell was read from the cache.
        facts: 10 values of each cell: the request to go to, turn, tokens, share of the prompt, USD, tokens read from the cache,
            written to it, uncached, tokens of the answer, USD of the answer.
        first: the position of the first column.
    """

    width: int
    values: Floats
    tokens: Ints
    cached: np.typing.NDArray[np.bool_]
    facts: Floats
    first: int = 0


@dataclass(frozen=True, slots=True)
class TopCell:
    """One of the largest cells: `value` in the chosen measure, `cached` where most of it was read from the cache."""

    request: int
    name: str
    value: float
    tokens: int
    cached: bool


def list_positions(view: Overview, by: Unit) -> Ints:
    """List the position of each request on the axis: its number, or the ordinal of its turn.

    Args:
        view: the session.
        by: requests or turns.
    """
    if by == "requests":
        return np.arange(len(view))
    return np.repeat(np.arange(len(list_turns(view))), [turn.stop - turn.start for turn in list_turns(view)])


def find_places(view: Overview, by: Unit, span: Requests | None = None) -> tuple[int, int]:
    """Find the positions `[first, stop)` of some requests on the axis.

    Args:
        view: the session.
        by: requests or turns.
        span: requests `[start, stop)`; None = all.
    """
    at = list_positions(view, by)
    start, stop = span or (0, len(view))
    return (int(at[start]), int(at[min(stop, len(view)) - 1]) + 1) if 0 <= start < min(stop, len(view)) else (0, 0)


def find_top(view: Overview) -> float:
    """The end of the saw-tooth's axis, in tokens: above the window, unless hardly any of it was ever used."""
    peak, window = float(view.prompts.max(initial=1)), float(view.windows.max(initial=0))
    return max(window, peak) if window and peak > window / 4 else peak * 1.15


def build_outline(view: Overview, by: Unit, most: int, span: Requests | None = None) -> Outline:
    """Find the lowest and the highest prompt of each bin, in order, so that no drop of the saw-tooth is lost.

    Args:
        view: the session.
        by: requests or turns.
        most: bins.
        span: requests `[start, stop)`; None = all.
    """
    shown = _list_last_requests(view) if by == "turns" else np.arange(len(view))
    first, end = find_places(view, by, span)
    at = np.arange(first, end)
    if len(at) > most:
        width = -(-len(at) // most)
        sizes = view.prompts[shown]
        places = {first, end - 1}
        for start in range(first, end, width):
            part = sizes[start : min(end, start + width)]
            places |= {start + int(part.argmin()), start + int(part.argmax())}
        at = np.array(sorted(places))
    return Outline(at, shown[at])


def build_grid(view: Overview, by: Unit, measure: Measure, most: int, span: Requests | None = None) -> Grid:
    """Build the columns of the heatmap. A turn has the tokens of its last request and the USD of all its requests.

    Args:
        view: the session.
        by: requests or turns.
        measure: tokens, USD, or share of the window.
        most: columns.
        span: requests `[start, stop)`; None = all.
    """
    first, end = find_places(view, by, span)
    last = _list_last_requests(view) if by == "turns" else np.arange(len(view))
    starts = _list_turn_starts(view) if by == "turns" else np.arange(len(view))
    tokens, billed = view.cells[last], view.billed[last]
    usd = np.add.reduceat(view.usd, starts, axis=0) if len(view) else view.usd
    share = tokens / np.maximum(view.prompts[last], 1)[:, None]
    window = np.where(view.windows[last] > 0, view.windows[last], max(1, int(view.prompts.max(initial=1))))
    values = {"tokens": tokens.astype(np.float64), "cost": np.maximum(usd, 0), "share": tokens / window[:, None]}[measure]
    read, written, uncached = (billed[:, :, how] for how in (READ, WRITTEN, UNCACHED))
    paid = np.add.reduceat(view.billed, starts, axis=0) if by == "turns" and measure == "cost" else billed
    cold = paid[:, :, READ] > MIN_CACHED_SHARE * np.maximum(paid.sum(axis=2), 1)
    whole = [np.broadcast_to(row[:, None], tokens.shape) for row in (last, view.turns[last])]
    answer = (np.add.reduceat(of, starts) if len(view) else of for of in (view.answers, view.answer_usd))
    rows = [np.broadcast_to(row[:, None], tokens.shape) for row in answer]
    facts = np.stack([*whole, tokens, share, usd, read, written, uncached, *rows], axis=2).astype(np.float64)
    width = max(1, -(-(end - first) // most))
    best = _find_largest_rows(values[first:end], width) + first
    cell = np.arange(tokens.shape[1])[None, :]
    return Grid(
        width=width,
        values=values[best, cell],
        tokens=tokens[best, cell],
        cached=cold[best, cell],
        facts=facts[best, cell],
        first=first,
    )


def list_top_cells(view: Overview, measure: Measure, most: int, span: Requests | None = None) -> tuple[TopCell, ...]:
    """List the largest cells of single requests, the largest first.

    Args:
        view: the session.
        measure: tokens, USD, or share of the window.
        most: cells.
        span: requests `[start, stop)`; None = all.
    """
    start, stop = span or (0, len(view))
    grid = build_grid(view, "requests", measure, max(1, len(view)), span)
    values = grid.values[:, : len(CELLS)]
    order = np.argsort(-values, axis=None, kind="stable")[:most]
    places = zip(*np.unravel_index(order, values.shape), strict=True) if stop > start else ()
    return tuple(
        TopCell(
            request=start + int(n),
            name=CELLS[cell],
            value=float(values[n, cell]),
            tokens=int(grid.tokens[n, cell]),
            cached=bool(grid.cached[n, cell]),
        )
        for n, cell in places
        if values[n, cell] > 0
    )


def _find_largest_rows(values: Floats, width: int) -> Ints:
    """Find the row with the largest value of each bin and cell."""
    n = len(values)
    pad = np.full((-n % width, values.shape[1]), -1.0)
    blocks = np.concatenate([values, pad]).reshape(-1, width, values.shape[1])
    return np.asarray(blocks.argmax(axis=1) + np.arange(len(blocks))[:, None] * width, dtype=np.int64)


def _list_turn_starts(view: Overview) -> Ints:
    return np.array([turn.start for turn in list_turns(view)], dtype=np.int64)


def _list_last_requests(view: Overview) -> Ints:
    return np.array([turn.stop - 1 for turn in list_turns(view)], dtype=np.int64)
