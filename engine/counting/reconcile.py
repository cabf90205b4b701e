"""A whole session reconciled with what was billed: `recorded = prefix + scale x counted + unattributed`, to the token.

For display only: the fit looks at all requests. Planning uses `calibration.Calibration`, which never sees the future.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PIECE = 8  # requests a prefix must hold for before it counts as one
JUMP = 0.01  # share of the prompt by which two neighbouring prefixes must differ
JUMP_FLOOR = 300  # tokens; smaller jumps are noise whatever the prompt
STEP = 3.0  # growth outside counted / STEP .. counted x STEP is hidden content coming or going, not scale
PRIOR = 6_000  # tokens for which the counter's own factor is trusted


@dataclass(frozen=True, slots=True)
class Fit:
    """One stretch of requests `[start, stop)` with one prefix (tokens that the log does not hold) and one scale."""

    start: int
    stop: int
    prefix: int
    scale: float

    def expected(self, counted: int) -> int:
        """Provider tokens of `counted` ones, and what the log does not hold."""
        return max(0, self.prefix + round(self.scale * counted))


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Provider tokens of every request, rows = requests.

    `cells`: five buckets, prefix, unattributed. Where usage was recorded, a row sums to it; elsewhere the row is an estimate
    throughout.
    """

    cells: Ints
    fits: tuple[Fit, ...]


def fitted(sizes: Ints, recorded: Ints, models: Sequence[str], known_static: bool) -> tuple[Fit, ...]:
    """The prefix and scale of every stretch. `sizes`: ledger units; `recorded`: prompt tokens, -1 where none; by request.

    `known_static`: the log holds system prompt and tools, so no prefix is looked for. Where a model has no recorded request,
    what was found before stands on, as it does in planning.
    """
    found: list[Fit] = []
    for start, stop in _stretches(models):
        use = np.flatnonzero(recorded[start:stop] >= 0) + start
        if len(use):
            found += _fit(sizes, recorded, use, start, stop, known_static)
        else:
            found.append(replace(found[-1], start=start, stop=stop) if found else Fit(start, stop, 0, 1.0))
    return tuple(found)


def reconcile(counts: Ints, recorded: Ints, fits: tuple[Fit, ...]) -> Reconciled:
    """What was recorded, split as `fits` say. `counts`: [requests, 5] in ledger units; `recorded`: prompt tokens, -1: none."""
    has = recorded >= 0
    cells = np.zeros((len(recorded), 7), dtype=np.int64)
    for fit in fits:
        rows = slice(fit.start, fit.stop)
        cells[rows, :5] = np.rint(counts[rows] * fit.scale)
        cells[rows, 5] = fit.prefix
    cells[:, 6] = np.where(has, recorded - cells[:, :6].sum(axis=1), 0)
    return Reconciled(cells, fits)


def _stretches(models: Sequence[str]) -> list[tuple[int, int]]:
    """Neighbouring requests of one model."""
    edges = [0, *(i for i in range(1, len(models)) if models[i] != models[i - 1]), len(models)]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def _fit(sizes: Ints, recorded: Ints, use: npt.NDArray[np.intp], start: int, stop: int, known: bool) -> list[Fit]:
    x, y = sizes[use].astype(np.float64), recorded[use].astype(np.float64)
    if known:
        return [Fit(start, stop, 0, float(np.clip(np.median(y / np.maximum(x, 1)), 1 / STEP, STEP)))]
    scale = _scale(x, y)
    rest = y - scale * x
    edges = [0, *_breaks(rest, float(np.mean(y)), 0), len(rest)]
    bounds = [start, *(int(use[edge]) for edge in edges[1:-1]), stop]
    prefixes = [max(0, round(float(np.median(rest[a:b])))) for a, b in pairwise(edges)]
    return [Fit(a, b, prefix, scale) for a, b, prefix in zip(bounds, bounds[1:], prefixes, strict=False)]


def _scale(x: Floats, y: Floats) -> float:
    """Billed growth over counted growth, from request to request; the counter's own factor where there is little."""
    dx, dy = np.diff(x), np.diff(y)
    plain = (dx > 0) & (dy > dx / STEP) & (dy < dx * STEP)
    return float((dy[plain].sum() + PRIOR) / (dx[plain].sum() + PRIOR))


def _breaks(rest: Floats, prompt: float, offset: int) -> list[int]:
    """Where the prefix changes: binary segmentation by least squares, each side at least `PIECE` requests."""
    n = len(rest)
    if n < 2 * PIECE:
        return []
    sums = np.cumsum(rest)
    k = np.arange(PIECE, n - PIECE + 1)
    left, right = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    gain = k * left**2 + (n - k) * right**2
    best = int(np.argmax(gain))
    if abs(float(np.median(rest[: k[best]]) - np.median(rest[k[best] :]))) < max(JUMP_FLOOR, JUMP * prompt):
        return []
    cut = int(k[best])
    return [*_breaks(rest[:cut], prompt, offset), offset + cut, *_breaks(rest[cut:], prompt, offset + cut)]
