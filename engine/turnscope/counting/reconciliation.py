"""A whole session reconciled with what was billed: `recorded = hidden + scale x counted - cut + unattributed`, to the token.

For display only: the fit looks at all requests. Planning uses `calibration.Calibration`, which never sees the future. What is
hidden, and what was cut though the log holds no word of it, is told apart in `hidden`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from turnscope.counting.hidden import CUT_SHARE, HiddenTokens, compute_least_fall, compute_least_jump

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CELLS = ("system", "tools", "messages", "tool_results", "thinking", "prefix", "earlier", "reinjected", "unattributed")
HIDDEN_CELLS = ("prefix", "earlier", "reinjected")  # what the log does not hold, as it stands in the prompt
SEGMENT_REQUESTS = 8  # requests a level must hold for before it counts as one, where nothing else marks where it begins
GROWTH_LIMIT = 3.0  # growth outside counted / STEP .. counted x STEP is hidden content coming or going, not scale
PRIOR_TOKENS = 6_000  # tokens for which the counter's own factor is trusted
TOOL_INSTRUCTIONS = 1_000  # tokens; more is not what a provider says of its own about tools
SCALE_LIMITS = (0.5, 2.0)  # no counter is further off than that; a ratio beyond it says that the two do not belong together
ERROR_SHARE = 0.9  # share of the recorded requests that a stated error holds for
LEAST_ERROR = 0.001  # of the prompt; no estimate is better


@dataclass(frozen=True, slots=True)
class Terms:
    """What turns counted tokens of one request into the provider's: hidden parts, a scale, and what no part explains.

    `cut`: tokens that left though the log holds no word of it; which blocks is not known, so the scale is that much smaller.
    `over`: tokens that were counted beyond what was billed. `error`: see `Fit`; 0 where the request was recorded. `uncut`:
    tokens of an estimate that the record lacked, because the tool had cut them unrecorded: by so much more it may be too high.
    """

    prefix: int
    earlier: int
    reinjected: int
    scale: float
    unattributed: int = 0
    cut: int = 0
    overcounted: int = 0
    error: float | None = None
    max_overestimate: int = 0

    @property
    def hidden_tokens(self) -> int:
        return self.prefix + self.earlier + self.reinjected

    def predict(self, counted: int) -> int:
        """Provider tokens of `counted` ones, with what the log does not hold."""
        return self.hidden_tokens + round(self.scale * counted) + self.unattributed


@dataclass(frozen=True, slots=True)
class Fit:
    """One stretch of requests `[start, stop)` with one level of what is hidden (see `hidden.Hidden`) and one scale.

    `gone`: what of `cut` went at `start`, where that is known: the prompt fell there by itself. `error`: share of the prompt
    that 90 % of the model's recorded requests keep within; None where none was recorded.
    """

    start: int
    stop: int
    prefix: int
    scale: float
    earlier: int = 0
    reinjected: int = 0
    cut: int = 0
    cut_at_start: int = 0
    error: float | None = None

    @property
    def policy_terms(self) -> Terms:
        """Of a request under any policy but the record, which neither cut nor put back anything that the log does not hold."""
        return Terms(self.prefix, self.earlier, 0, self.scale, error=self.error, max_overestimate=self.cut)

    def compute_terms(self, counted: int, recorded: int) -> Terms:
        """Of a request of the record. `recorded`: its prompt tokens, -1 where there are none.

        Where the parts come to more than was billed, the scale gives way, then what was put back, and the prefix last.
        """
        wanted = max(0, round(self.scale * counted) - self.cut)
        room = [0, 0, 0, 0]
        left = recorded if recorded >= 0 else self.prefix + self.earlier + self.reinjected + wanted
        for i, part in enumerate((self.prefix, self.earlier, self.reinjected, wanted)):
            room[i] = min(part, left)
            left -= room[i]
        prefix, earlier, reinjected, told = room
        over = self.prefix + self.earlier + self.reinjected + wanted - sum(room)
        scale = told / counted if told < round(self.scale * counted) else self.scale
        return Terms(prefix, earlier, reinjected, scale, left, self.cut, over, 0.0 if recorded >= 0 else self.error)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Provider tokens of every request, rows = requests, columns = `CELLS`; no cell is negative.

    Where usage was recorded, a row sums to it; elsewhere the row is an estimate throughout. `terms`: how each row came about.
    """

    cells: Ints
    terms: tuple[Terms, ...]


class _Segment(NamedTuple):
    """Requests from `start` on that share a level. `prompt`: the largest of what was billed; `after`: how it begins; `told`:
    counted tokens went as well, so the log records something there."""

    start: int
    stop: int
    level: int
    scale: float
    prompt: float
    after: str  # compaction | model | fall | rise | ""
    told: bool = False


def fit_requests(
    sizes: Ints,
    recorded: Ints,
    models: Sequence[str],
    known_static: bool,
    compactions: Collection[int] = (),
    mid_conversation: bool = False,
    tools: bool = False,
) -> tuple[Fit, ...]:
    """The fit of every stretch. `sizes`: ledger units; `recorded`: prompt tokens, -1 where none; by request.

    `known_static`: the log holds system prompt and tools, so nothing is hidden but what a provider says of its own about
    `tools`, where there are any. `compactions`: requests at which the
    log records one; `begun`: the log begins mid-conversation. Where a model has no recorded request, what was found before
    stands on, as it does in planning.
    """
    pieces: list[_Segment] = []
    for start, stop in _group_by_model(models):
        use = np.flatnonzero(recorded[start:stop] >= 0) + start
        if len(use):
            pieces += _find_segments(sizes, recorded, use, start, stop, known_static, compactions, tools)
    first = next((piece.level for piece in pieces if piece.after == "compaction"), 0)
    found: list[Fit] = []
    hidden: HiddenTokens | None = None
    for piece in pieces:
        before = hidden.cut if hidden else 0
        hidden = (
            HiddenTokens.from_level(piece.level, mid_conversation=False)
            if known_static
            else _advance_hidden(hidden, piece, mid_conversation, max(0, first))
        )
        gone = 0 if piece.told or piece.after != "fall" else max(0, hidden.cut - before)
        parts = (hidden.prefix, piece.scale, hidden.earlier, hidden.reinjected, hidden.cut, gone)
        found.append(Fit(piece.start, piece.stop, *parts))
    return tuple(_add_errors(_fill_gaps(found, len(models)), sizes, recorded, models))


def reconcile(counts: Ints, recorded: Ints, fits: tuple[Fit, ...]) -> Reconciliation:
    """What was recorded, split as `fits` say. `counts`: [requests, 5] in ledger units; `recorded`: prompt tokens, -1: none."""
    cells = np.zeros((len(recorded), len(CELLS)), dtype=np.int64)
    terms: list[Terms] = []
    sizes, prompts = counts.sum(axis=1).tolist(), recorded.tolist()
    for fit in fits:
        terms += [fit.compute_terms(sizes[n], prompts[n]) for n in range(fit.start, fit.stop)]
    if terms:
        wholes = [round(one.scale * size) for one, size in zip(terms, sizes, strict=True)]
        cells[:, :5] = distribute(counts, np.array(wholes, dtype=np.int64))
        cells[:, 5:] = [(one.prefix, one.earlier, one.reinjected, one.unattributed) for one in terms]
    return Reconciliation(cells, tuple(terms))


def distribute(counts: Ints, wholes: Ints) -> Ints:
    """`wholes[n]` tokens over the cells of row `n` in proportion to `counts[n]`, to the token: what rounding leaves goes where
    most was cut off."""
    sizes = counts.sum(axis=1)
    exact = counts * (wholes / np.maximum(sizes, 1))[:, None]
    parts: Ints = np.floor(exact).astype(np.int64)
    order = np.argsort(parts - exact, axis=1, kind="stable")
    more = np.arange(counts.shape[1]) < (wholes - parts.sum(axis=1))[:, None]
    np.put_along_axis(parts, order, np.take_along_axis(parts, order, axis=1) + more, axis=1)
    return np.where(sizes[:, None] > 0, parts, 0)


def _group_by_model(models: Sequence[str]) -> list[tuple[int, int]]:
    """Neighbouring requests of one model."""
    edges = [0, *(i for i in range(1, len(models)) if models[i] != models[i - 1]), len(models)]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def _find_segments(
    sizes: Ints,
    recorded: Ints,
    use: npt.NDArray[np.intp],
    start: int,
    stop: int,
    known: bool,
    compactions: Collection[int],
    tools: bool,
) -> Iterator[_Segment]:
    """One model's requests as pieces, cut where the log or the level says that something changed."""
    x, y = sizes[use].astype(np.float64), recorded[use].astype(np.float64)
    if known:
        beside, scale = _fit_known_static(x, y, TOOL_INSTRUCTIONS if tools else 0)
        yield _Segment(start, stop, beside, scale, float(y.max()), "model")
        return
    scale = _estimate_scale(x, y)
    level = y - scale * x
    after = {0: "model"} | _find_level_changes(x, y, level)
    for n in compactions:
        at = int(np.searchsorted(use, n))
        if start <= n < stop and at < len(use):
            after[at] = "compaction"
    hard = [*sorted(after), len(use)]
    edges = [e for a, b in pairwise(hard) for e in (a, *_find_breaks(level[a:b], float(np.mean(y)), a))]
    bounds = [start, *(int(use[edge]) for edge in edges[1:]), stop]
    for i, (a, b) in enumerate(pairwise((*edges, len(use)))):
        how = after.get(a, "")
        told = a > 0 and bool(x[a] < (1 - CUT_SHARE) * x[a - 1])
        yield _Segment(bounds[i], bounds[i + 1], round(float(np.median(level[a:b]))), scale, float(y[a:b].max()), how, told)


def _fit_known_static(x: Floats, y: Floats, most: int) -> tuple[int, float]:
    """What a provider adds to prompts whose system prompt and tools the log holds, `most` tokens, and the scale of the rest.

    Its instructions for tools are a few hundred tokens, the same in every request. They are told from the scale where the
    prompts have grown enough to tell; else there is a scale alone.
    """
    if len(x) >= SEGMENT_REQUESTS and x.max() - x.min() >= PRIOR_TOKENS:
        scale = _estimate_scale(x, y)
        short = np.argsort(x, kind="stable")[:SEGMENT_REQUESTS]  # of a short prompt least is counted wrongly
        level = round(float(np.median((y - scale * x)[short])))
        if 0 < level <= most:
            return level, scale
    held = float(x.sum())
    scale = (float(np.median(y / np.maximum(x, 1))) * held + PRIOR_TOKENS) / (held + PRIOR_TOKENS)
    return 0, float(np.clip(scale, *SCALE_LIMITS))


def _find_level_changes(x: Floats, y: Floats, level: Floats) -> dict[int, str]:
    """Where the level moves at once by more than counting can be off, and does not come back at the next request."""
    found = {}
    for i in range(1, len(x)):
        move, least = level[i] - level[i - 1], compute_least_fall(y[i - 1])
        stays = i + 1 == len(x) or (level[i + 1] - level[i - 1]) * np.sign(move) > least / 2
        if abs(move) > least and stays:
            found[i] = "rise" if move > 0 else "fall" if y[i] < y[i - 1] else ""
        elif x[i] < (1 - CUT_SHARE) * x[i - 1]:  # an edit that the log records
            found[i] = ""
    return found


def _advance_hidden(hidden: HiddenTokens | None, piece: _Segment, begun: bool, first: int) -> HiddenTokens:
    """What is hidden in a piece, from what was hidden before it."""
    if hidden is None:
        return HiddenTokens.from_level(piece.level, begun, first)
    if piece.after == "compaction":
        return hidden.apply_compaction(piece.level, piece.prompt)
    if piece.after == "model":
        return hidden.apply_model_switch(piece.level, piece.prompt)
    return hidden.apply_level(piece.level, piece.prompt, {"fall": -1, "rise": 1}.get(piece.after, 0))


def _fill_gaps(found: Sequence[Fit], count: int) -> list[Fit]:
    """Every request in a stretch: those of models without a recorded request go on with what was found before them."""
    whole: list[Fit] = []
    at = 0
    for fit in (*found, None):
        start = fit.start if fit else count
        if at < start:
            whole.append(replace(whole[-1], start=at, stop=start, cut_at_start=0) if whole else Fit(at, start, 0, 1.0))
        if fit:
            whole.append(fit)
            at = fit.stop
    return whole


def _add_errors(fits: Sequence[Fit], sizes: Ints, recorded: Ints, models: Sequence[str]) -> Iterator[Fit]:
    """The fits with their error, which is that of all the requests of their model."""
    missed: dict[str, list[float]] = {}
    counted, billed = sizes.tolist(), recorded.tolist()  # numpy is slow at single numbers
    for fit in fits:
        hidden = fit.prefix + fit.earlier + fit.reinjected
        for n in range(fit.start, fit.stop):
            if billed[n] > 0:
                told = hidden + max(0.0, fit.scale * counted[n] - fit.cut)
                missed.setdefault(models[n], []).append(abs(told - billed[n]) / billed[n])
    errors = {model: max(LEAST_ERROR, float(np.quantile(seen, ERROR_SHARE))) for model, seen in missed.items()}
    for fit in fits:
        yield replace(fit, error=errors.get(models[fit.start], fit.error))


def _estimate_scale(x: Floats, y: Floats) -> float:
    """Billed growth over counted growth, from request to request; the counter's own factor where there is little."""
    dx, dy = np.diff(x), np.diff(y)
    plain = (dx > 0) & (dy > dx / GROWTH_LIMIT) & (dy < dx * GROWTH_LIMIT)
    return float(np.clip((dy[plain].sum() + PRIOR_TOKENS) / (dx[plain].sum() + PRIOR_TOKENS), *SCALE_LIMITS))


def _find_breaks(level: Floats, prompt: float, offset: int) -> list[int]:
    """Where the level changes: binary segmentation by least squares, each side at least `PIECE` requests."""
    n = len(level)
    if n < 2 * SEGMENT_REQUESTS:
        return []
    sums = np.cumsum(level)
    k = np.arange(SEGMENT_REQUESTS, n - SEGMENT_REQUESTS + 1)
    left, right = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    gain = k * left**2 + (n - k) * right**2
    best = int(np.argmax(gain))
    if abs(float(np.median(level[: k[best]]) - np.median(level[k[best] :]))) < compute_least_jump(prompt):
        return []
    cut = int(k[best])
    return [*_find_breaks(level[:cut], prompt, offset), offset + cut, *_find_breaks(level[cut:], prompt, offset + cut)]
