"""Reconciles a whole session with its bill: `recorded = hidden + scale x counted - cut + unattributed`, to the token.

For display only: the fit looks at all requests. Planning uses `calibration.Calibration`, which never sees later requests.
`hidden` explains what is hidden, and what was cut though the log has no record of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace as replace_struct

from turnscope.counting.hidden import (
    CUT_SHARE,
    JUMP_TOKENS,
    HiddenTokens,
    compute_least_fall,
    compute_least_falls,
    compute_least_jump,
    compute_least_jumps,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CELLS = ("system", "tools", "messages", "tool_results", "thinking", "prefix", "earlier", "reinjected", "unattributed")
STATIC_BUCKETS = 2  # the first cells: system prompt and tools, which the same requests send with the same tokens
HIDDEN_CELLS = ("prefix", "earlier", "reinjected")  # parts of the prompt that the log does not hold
SEGMENT_REQUESTS = 8  # least length of a segment that nothing but its level marks
GROWTH_LIMIT = 3.0  # factor; growth outside counted / 3 .. counted x 3 is hidden content, not scale
PRIOR_TOKENS = 6_000  # weight of the counter's own factor, in tokens
TOOL_INSTRUCTIONS = 1_000  # most tokens that a provider adds by itself about tools
SCALE_LIMITS = (0.5, 2.0)  # no counter is further off; a ratio beyond them means that the two numbers do not belong together
ERROR_SHARE = 0.9  # share of the recorded requests that keep within a stated error
LEAST_ERROR = 0.001  # share of the prompt; no estimate is better
CERTAIN_SHARE = 0.02  # of a prompt: where no more was counted, all of it is hidden, whatever the scale
FRAME_TOKENS = 12  # of a prompt: what frames its messages and is in no text
DRIFT_LIMIT = 0.25  # share by which the scale of a segment may differ: counts of one kind of content are that far off


class Terms(Struct, frozen=True, gc=False):
    """What turns the counted tokens of one request into the provider's: hidden parts, a scale, and an unattributed remainder.

    All are tokens but the scales and `error`. `static_scale`: where system prompt and tools have a scale of their own; 0 = they
    have not. `static`: counted tokens of these. `cut`: tokens that left though the log has no record of it; which blocks is
    unknown, so the scale is that much smaller. `overcounted`: tokens counted beyond what was billed. `error`: see `Fit`; 0
    where the request was recorded. `max_overestimate`: upper bound of the overestimate: tokens that the tool had cut
    unrecorded.
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
    static_scale: float = 0.0
    static: int = 0

    @property
    def hidden_tokens(self) -> int:
        """Tokens that the log does not hold."""
        return self.prefix + self.earlier + self.reinjected

    def predict(self, counted: int) -> int:
        """Predict the provider's tokens of `counted` ones, hidden parts included."""
        return self.hidden_tokens + self._convert(counted) + self.unattributed

    def get_scale(self, bucket: int) -> float:
        """Return the provider's tokens per counted one in a bucket, by its place among the five."""
        return self.static_scale or self.scale if bucket < STATIC_BUCKETS else self.scale

    def convert(self, counts: Sequence[int]) -> int:
        """Convert the counted tokens of the five buckets, or of a piece of a prompt, into the provider's."""
        static = sum(counts[:STATIC_BUCKETS])
        return round(self.get_scale(0) * static + self.scale * (sum(counts) - static))

    def _convert(self, counted: int) -> int:
        """The provider's tokens of a whole envelope."""
        static = self.static if self.static_scale else 0
        return round(self.static_scale * static) + round(self.scale * (counted - static))


@dataclass(frozen=True, slots=True)
class Fit:
    """One stretch of requests `[start, stop)` with one hidden level (see `hidden.HiddenTokens`) and one scale.

    `cut_at_start`: the tokens of `cut` that left at `start`, where that is known: the prompt fell there by itself. `error`:
    share of the prompt that 90 % of the model's recorded requests keep within; None where none was recorded. `injected`: tokens
    that the tool injected; unlike `reinjected`, every policy has them. `whole`: the log holds the bodies, so what
    the counter misses is its own error and no part that it does not know. `static_scale`: where it is known by itself, that of
    system prompt and tools; 0 = `scale`. `inferred`: requests whose bodies are not in the log where it is `whole` otherwise.
    `added`: by request, most tokens that the provider may have put in by itself. `miscounted`: the tokens billed beyond
    all parts that are an error of counting (see `_add_miscounted`).
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
    injected: int = 0
    whole: bool = False
    static_scale: float = 0.0
    miscounted: tuple[int, ...] = ()
    inferred: frozenset[int] = frozenset()
    added: tuple[int, ...] = ()

    @property
    def hidden_tokens(self) -> int:
        """Tokens that the log does not hold."""
        return self.prefix + self.earlier + self.reinjected + self.injected

    def get_policy_terms(self, static: int = 0) -> Terms:
        """Return the terms of a request under any policy but the record.

        Such a policy neither cut nor re-injected anything unrecorded.

        Args:
            static: Counted tokens of its system prompt and tools.
        """
        return Terms(
            self.prefix,
            self.earlier,
            self.injected,
            self.scale,
            error=self.error,
            max_overestimate=self.cut,
            static_scale=self.static_scale,
            static=static if self.static_scale else 0,
        )

    def compute_terms(self, counted: int, recorded: int, request: int, static: int = 0) -> Terms:
        """Compute the terms of a recorded request.

        Where the parts exceed the bill, the scale is lowered first, then what was re-injected, and the prefix last. Where the
        bill exceeds the parts, the scale is raised by what is an error of counting; the rest is unattributed.

        Args:
            counted: Tokens of the envelope, in the ledger's units.
            recorded: Its billed prompt tokens; -1 where none are recorded.
            request: Its number.
            static: Counted tokens of its system prompt and tools.
        """
        is_whole = self.whole and request not in self.inferred
        apart = self.static_scale and request not in self.inferred
        if apart and (terms := self._compute_static_terms(counted, recorded, static)):
            return terms
        wanted = max(0, round(self.scale * counted) - self.cut)
        room = [0, 0, 0, 0]
        unseen = self.reinjected + self.injected
        left = recorded if recorded >= 0 else self.prefix + self.earlier + unseen + wanted
        for i, part in enumerate((self.prefix, self.earlier, unseen, wanted)):
            room[i] = min(part, left)
            left -= room[i]
        prefix, earlier, reinjected, scaled = room
        over = self.prefix + self.earlier + unseen + wanted - sum(room)
        if is_whole and counted and SCALE_LIMITS[0] <= (scaled + left) / counted <= SCALE_LIMITS[1]:
            scaled, left, over = scaled + left, 0, 0
        elif left and self.miscounted:
            known = min(left, self.miscounted[request - self.start], max(0, int(SCALE_LIMITS[1] * counted) - scaled))
            scaled, left = scaled + known, left - known
        scale = scaled / counted if scaled != round(self.scale * counted) else self.scale
        error = 0.0 if recorded >= 0 else self.error
        added = min(left, self.added[request - self.start]) if self.added else 0
        return Terms(prefix, earlier, reinjected + added, scale, left - added, self.cut, over, error)

    @property
    def scale_limits(self) -> tuple[float, float]:
        """Between what scales an error of counting lies: closer to this one where the log may lack a part of a prompt."""
        low, high = SCALE_LIMITS
        if self.whole:
            return low, high
        return max(low, (1 - DRIFT_LIMIT) * self.scale), min(high, (1 + DRIFT_LIMIT) * self.scale)

    def _compute_static_terms(self, counted: int, recorded: int, static: int) -> Terms | None:
        """The terms of a request whose system prompt and tools are known. None where the rest is no error of counting."""
        if recorded < 0:
            return self.get_policy_terms(static)
        messages = recorded - self.hidden_tokens - round(self.static_scale * static)
        low, high = self.scale_limits
        if counted <= static or not low <= messages / (counted - static) <= high:
            return None
        scale = messages / (counted - static)
        parts = self.prefix, self.earlier, self.reinjected + self.injected
        return Terms(*parts, scale, error=0.0, static_scale=self.static_scale, static=static)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The provider's tokens of every request: rows = requests, columns = `CELLS`. No cell is negative.

    Where usage was recorded, a row sums to it. Other rows are estimates throughout. `terms`: how each row was computed.
    """

    cells: Ints
    terms: tuple[Terms, ...]


class StaticHints(NamedTuple):
    """What is known of system prompt and tools that a log does not hold.

    Attributes:
        changes: Whether they changed at a request, as far as the log shows it.
        prior: Tokens that they are taken to have, where neither a bill nor a compaction shows it; 0 = unknown.
    """

    changes: Callable[[int], bool] = lambda _: False
    prior: int = 0


class _Segment(NamedTuple):
    """Requests from `start` on that share a level.

    `prompt`: tokens of the largest billed prompt. `after`: what begins the segment. `logged`: counted tokens left too, so the
    log records an edit there. `size`: counted tokens at the median request. `model`: its name.
    """

    start: int
    stop: int
    level: int
    scale: float
    prompt: float
    after: str  # compaction | model | fall | rise | ""
    logged: bool = False
    size: float = 1.0
    model: str = ""


def fit_requests(
    sizes: Ints,
    recorded: Ints,
    models: Sequence[str],
    known_static: bool,
    compactions: Collection[int] = (),
    mid_conversation: bool = False,
    tools: bool = False,
    hints: StaticHints | None = None,
) -> tuple[Fit, ...]:
    """Fit every stretch of requests. All arrays have one value per request.

    Where a model has no recorded request, the fit before it continues, as in planning. What only the split of recorded requests
    needs is added by `add_remainders`.

    Args:
        sizes: Tokens of the envelopes, in the ledger's units.
        recorded: Billed prompt tokens; -1 where none are recorded.
        models: Names of the models.
        known_static: The log holds system prompt and tools. Then only a provider's own text about tools can be hidden.
        compactions: Numbers of the requests at which the log records a compaction.
        mid_conversation: The log begins mid-conversation.
        tools: The requests have tools.
        hints: What is known of system prompt and tools that the log does not hold; None = nothing.
    """
    hints = hints or StaticHints()
    hidden_limit = (TOOL_INSTRUCTIONS if tools else 0) if known_static else None
    pieces: list[_Segment] = []
    for start, stop in _group_by_model(models):
        use = np.flatnonzero(recorded[start:stop] >= 0) + start
        if len(use):
            segments = _find_segments(sizes, recorded, use, (start, stop), hidden_limit, compactions, hints.changes)
            pieces += (segment._replace(model=models[start]) for segment in segments)
    first = next((piece.level for piece in pieces if piece.after == "compaction"), hints.prior)
    found: list[Fit] = []
    walk = _Walk(known_static, mid_conversation, max(0, first), hints.changes)
    for piece in pieces:
        before = walk.hidden.cut if walk.hidden else 0
        hidden, scale = walk.advance(piece)
        gone = 0 if piece.logged or piece.after != "fall" else max(0, hidden.cut - before)
        parts = (hidden.prefix, scale, hidden.earlier, hidden.reinjected, hidden.cut, gone)
        found.append(Fit(piece.start, piece.stop, *parts, injected=walk.injected))
    whole = _fill_gaps(found, len(models), 0 if known_static else hints.prior)
    return tuple(_add_errors(whole, sizes, recorded, models))


def add_remainders(
    fits: Sequence[Fit],
    sizes: Ints,
    recorded: Ints,
    models: Sequence[str],
    added: tuple[int, ...] = (),
    images: Callable[[int], int] = lambda _: 0,
) -> tuple[Fit, ...]:
    """Add to each fit what explains the remainders of its recorded requests. Planning needs none of it.

    Args:
        fits: The fits of `fit_requests`.
        sizes: As there.
        recorded: As there.
        models: As there.
        added: By request, most tokens that the provider may have put in by itself; () = nothing.
        images: The most tokens that the images which came with a request may have beyond their count.
    """
    counted = _add_miscounted(fits, sizes, recorded, models, images)
    return tuple(replace(fit, added=added[fit.start : fit.stop]) for fit in counted)


def reconcile(counts: Ints, recorded: Ints, fits: tuple[Fit, ...]) -> Reconciliation:
    """Split what was recorded into cells, as the fits say.

    Args:
        counts: Tokens in the ledger's units, [requests, 5 buckets].
        recorded: Billed prompt tokens per request; -1 where none are recorded.
        fits: The fits of `fit_requests`.
    """
    cells = np.zeros((len(recorded), len(CELLS)), dtype=np.int64)
    terms: list[Terms] = []
    sizes, prompts, statics = counts.sum(axis=1).tolist(), recorded.tolist(), counts[:, :STATIC_BUCKETS].sum(axis=1).tolist()
    for fit in fits:
        terms += [fit.compute_terms(sizes[n], prompts[n], n, statics[n]) for n in range(fit.start, fit.stop)]
    if terms:
        split = [one.static_scale > 0 for one in terms]
        wholes = [one.predict(size) - one.hidden_tokens - one.unattributed for one, size in zip(terms, sizes, strict=True)]
        cells[:, :5] = distribute(counts, np.array(wholes, dtype=np.int64))
        if any(split):
            fixed = np.array([round(one.static_scale * one.static) for one in terms], dtype=np.int64)
            static, rest = counts[:, :STATIC_BUCKETS], counts[:, STATIC_BUCKETS:]
            apart = np.hstack((distribute(static, fixed), distribute(rest, np.array(wholes, dtype=np.int64) - fixed)))
            cells[:, :5] = np.where(np.array(split)[:, None], apart, cells[:, :5])
        cells[:, 5:] = [(one.prefix, one.earlier, one.reinjected, one.unattributed) for one in terms]
    return Reconciliation(cells, tuple(terms))


def distribute(counts: Ints, wholes: Ints) -> Ints:
    """Distribute `wholes[n]` tokens over the cells of row `n` in proportion to `counts[n]`, to the token.

    What rounding leaves goes to the cells that lost most.

    Args:
        counts: Weights, [rows, cells].
        wholes: Tokens per row.
    """
    sizes = counts.sum(axis=1)
    exact = counts * (wholes / np.maximum(sizes, 1))[:, None]
    parts: Ints = np.floor(exact).astype(np.int64)
    order = np.argsort(parts - exact, axis=1, kind="stable")
    more = np.arange(counts.shape[1]) < (wholes - parts.sum(axis=1))[:, None]
    np.put_along_axis(parts, order, np.take_along_axis(parts, order, axis=1) + more, axis=1)
    return np.where(sizes[:, None] > 0, parts, 0)


def _group_by_model(models: Sequence[str]) -> list[tuple[int, int]]:
    """Group neighbouring requests of one model."""
    edges = [0, *(i for i in range(1, len(models)) if models[i] != models[i - 1]), len(models)]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def _find_segments(
    sizes: Ints,
    recorded: Ints,
    use: npt.NDArray[np.intp],
    span: tuple[int, int],
    hidden_limit: int | None,
    compactions: Collection[int],
    changes: Callable[[int], bool],
) -> Iterator[_Segment]:
    """Split one model's requests into segments, where the log or the level shows a change.

    `hidden_limit`: most tokens that can be hidden where the log holds system prompt and tools; None = it does not.
    """
    start, stop = span
    x, y = sizes[use].astype(np.float64), recorded[use].astype(np.float64)
    if hidden_limit is not None:
        level, scale = _fit_known_static(x, y, hidden_limit)
        yield _Segment(start, stop, level, scale, float(y.max()), "model")
        return
    scale = _estimate_scale(x, y)
    levels = y - scale * x
    after = {0: "model"} | _find_level_changes(x, y, levels, lambda i: changes(int(use[i])))
    for n in compactions:
        at = int(np.searchsorted(use, n))
        if start <= n < stop and at < len(use):
            after[at] = "compaction"
    hard = [*sorted(after), len(use)]
    edges = [e for a, b in pairwise(hard) for e in (a, *_find_breaks(levels[a:b], float(np.mean(y)), a))]
    bounds = [start, *(int(use[edge]) for edge in edges[1:]), stop]
    for i, (a, b) in enumerate(pairwise((*edges, len(use)))):
        how = after.get(a, "")
        logged = a > 0 and bool(x[a] < (1 - CUT_SHARE) * x[a - 1])
        size = max(1.0, _median(x[a:b]))
        new = (i == 0 or how == "compaction") and a < b
        middle, own = _measure_level(x[a:b], y[a:b], scale) if new else (_median(levels[a:b]), scale)
        yield _Segment(bounds[i], bounds[i + 1], round(middle), own, float(y[a:b].max()), how, logged, size)


def _measure_level(x: Floats, y: Floats, scale: float) -> tuple[float, float]:
    """Measure the level where a prompt is new, and the scale of the requests that share it.

    It is the median. Where that is far from the level of the shortest prompt, the scale is wrong for these requests, and it is
    least wrong where least was counted: the shortest prompt shows the level, and the rest is scale.
    """
    level = y - scale * x
    middle, size, short = _median(level), _median(x), int(np.argmin(x))
    off = middle - float(level[short])
    certain = x[short] <= CERTAIN_SHARE * y[short]  # whatever the scale, next to nothing of this prompt was counted
    far = compute_least_jump(float(y[short])) < abs(off) <= (1.0 if certain else DRIFT_LIMIT) * scale * size
    if not far or x[short] > size / 2:
        return middle, scale
    return float(level[short]), float(np.clip(scale + off / size, *SCALE_LIMITS))


def _fit_known_static(x: Floats, y: Floats, most: int) -> tuple[int, float]:
    """Fit what a provider adds to prompts whose system prompt and tools the log holds, and the scale of the rest.

    Its instructions for tools are a few hundred tokens, the same in every request. They can be separated from the scale where
    the prompts have grown enough; otherwise there is only a scale. `most`: tokens that can be such instructions.
    """
    if len(x) >= SEGMENT_REQUESTS and x.max() - x.min() >= PRIOR_TOKENS:
        scale = _estimate_scale(x, y)
        short = np.argsort(x, kind="stable")[:SEGMENT_REQUESTS]  # in short prompts the scale's error is smallest
        level = round(_median((y - scale * x)[short]))
        if 0 < level <= most:
            return level, scale
    total = float(x.sum())
    scale = (_median(y / np.maximum(x, 1)) * total + PRIOR_TOKENS) / (total + PRIOR_TOKENS)
    return 0, float(np.clip(scale, *SCALE_LIMITS))


def _find_level_changes(sizes: Floats, prompts: Floats, levels: Floats, changes: Callable[[int], bool]) -> dict[int, str]:
    """Find where the level moves at once by more than the counter's error, and does not come back at the next request.

    A smaller rise is enough where the log shows that system prompt or tools changed, and nothing was edited.
    """
    move, grown = np.diff(levels), np.diff(sizes) >= 0  # row n is the step from request n to the next
    least, jump = compute_least_falls(prompts[:-1]), compute_least_jumps(prompts[:-1])
    for n in np.flatnonzero(grown & (least >= move) & (move > jump)).tolist():
        if changes(n + 1):
            least[n] = jump[n]
    stays = np.ones(len(move), dtype=bool)  # nothing comes after the last step
    stays[:-1] = (levels[2:] - levels[:-2]) * np.sign(move[:-1]) > least[:-1] / 2
    moved = (np.abs(move) > least) & stays
    edited = sizes[1:] < (1 - CUT_SHARE) * sizes[:-1]  # the log records an edit here
    return {
        n + 1: "" if not moved[n] else "rise" if move[n] > 0 else "fall" if prompts[n + 1] < prompts[n] else ""
        for n in np.flatnonzero(moved | edited).tolist()
    }


@dataclass(slots=True)
class _Walk:
    """What is hidden, from segment to segment, and `injected`: tokens that the tool added.

    The prefix of a model changes with a reason only. What else moves a level is an error of counting, which goes to the scale
    of its segment, or content that the log does not hold.
    """

    known_static: bool
    mid_conversation: bool
    first: int
    changes: Callable[[int], bool]
    hidden: HiddenTokens | None = None
    injected: int = 0
    prefixes: dict[str, int] = field(default_factory=dict)  # by model

    def advance(self, piece: _Segment) -> tuple[HiddenTokens, float]:
        """What is hidden in the next segment, and its scale."""
        before, scale = self.hidden, piece.scale
        if self.known_static:
            self.hidden = HiddenTokens.from_level(piece.level, mid_conversation=False)
        elif before is None:
            self.hidden = HiddenTokens.from_level(piece.level, self.mid_conversation, self.first)
        elif piece.after == "compaction":
            self.injected = 0
            self.hidden = before.apply_compaction(piece.level, piece.prompt)
            moved = piece.level - before.base
            back = moved if moved > compute_least_jump(piece.prompt) else 0
            explained = scale + (moved - back) / piece.size >= SCALE_LIMITS[0]  # else the prefix itself became smaller
            if explained and not before.earlier:
                self.hidden = HiddenTokens(before.base, 0, back, 0, before.base, before.start)
                scale += (moved - back) / piece.size
        else:
            scale = self._explain(before, piece)
        assert self.hidden is not None
        self.prefixes[piece.model] = self.hidden.prefix
        return self.hidden, max(SCALE_LIMITS[0], scale)

    def _explain(self, before: HiddenTokens, piece: _Segment) -> float:
        """Explain a level that moved without a compaction; gives the segment's scale."""
        if piece.after == "model" and piece.model in self.prefixes:
            before = replace_struct(before, prefix=self.prefixes[piece.model])
        level = piece.level - self.injected
        moved, step = level - before.level, {"fall": -1, "rise": 1}.get(piece.after, 0)
        known = piece.after != "model" or piece.model in self.prefixes
        fell = step < 0 and -moved > compute_least_fall(piece.prompt)
        if known and not (before.earlier or before.cut or fell):
            if step > 0 and moved > 0 and not self.changes(piece.start):
                self.hidden, self.injected = before, self.injected + moved
                return piece.scale
            if (step <= 0 or moved <= 0) and abs(moved) <= DRIFT_LIMIT * piece.scale * piece.size:
                self.hidden = before
                return piece.scale + moved / piece.size
        if piece.after == "model":
            self.hidden = before.apply_model_switch(level, piece.prompt)
        else:
            self.hidden = before.apply_level(level, piece.prompt, step)
        return piece.scale


def _fill_gaps(found: Sequence[Fit], count: int, prior: int) -> list[Fit]:
    """Cover every request: models without a recorded request continue the fit before them, the first ones the prior."""
    whole: list[Fit] = []
    at = 0
    for fit in (*found, None):
        start = fit.start if fit else count
        if at < start:
            whole.append(replace(whole[-1], start=at, stop=start, cut_at_start=0) if whole else Fit(at, start, prior, 1.0))
        if fit:
            whole.append(fit)
            at = fit.stop
    return whole


def _add_errors(fits: Sequence[Fit], sizes: Ints, recorded: Ints, models: Sequence[str]) -> Iterator[Fit]:
    """Add the error to each fit: the error of all requests of its model."""
    missed: dict[str, list[Floats]] = {}
    for fit in fits:  # those of its requests that were billed are of one model
        counted, billed = sizes[fit.start : fit.stop], recorded[fit.start : fit.stop]
        known = billed > 0
        if known.any():
            predicted = fit.hidden_tokens + np.maximum(0.0, fit.scale * counted[known] - fit.cut)
            missed.setdefault(models[fit.start], []).append(np.abs(predicted - billed[known]) / billed[known])
    shares = ((model, np.quantile(np.concatenate(seen), ERROR_SHARE)) for model, seen in missed.items())
    errors = {model: max(LEAST_ERROR, float(share)) for model, share in shares}
    for fit in fits:
        yield replace(fit, error=errors.get(models[fit.start], fit.error))


def _add_miscounted(
    fits: Sequence[Fit], sizes: Ints, recorded: Ints, models: Sequence[str], images: Callable[[int], int]
) -> Iterator[Fit]:
    """Add to each fit what was billed beyond its parts because it was counted wrongly.

    What two neighbouring requests differ by was counted and billed. Where the two numbers differ by no more than a counter can
    be off, their difference is an error of counting, and stays one until those blocks leave; so is what images, which each
    provider counts in its own way, may have been billed. What a stretch begins with, and what comes at any other step, is not,
    unless all of it is too little to mean anything. `error` states the whole of it.
    """
    counted, billed = sizes.tolist(), recorded.tolist()
    at, beyond = -1, 0.0  # the request before with usage; what an error of counting does not explain there
    for fit in fits:
        found = [0] * (fit.stop - fit.start)
        hidden = fit.hidden_tokens - fit.cut
        for n in (n for n in range(fit.start, fit.stop) if billed[n] >= 0):
            scaled = fit.scale * counted[n]
            rest = max(0.0, billed[n] - hidden - scaled)
            least = max(FRAME_TOKENS, min(compute_least_jump(billed[n]), DRIFT_LIMIT * scaled))
            if at < 0 or models[at] != models[n] or (at < fit.start and fit.reinjected):
                beyond = 0.0 if rest <= DRIFT_LIMIT * scaled else rest
            elif not _can_be_count(counted[n] - counted[at], billed[n] - billed[at]):
                more = billed[n] - billed[at] - fit.scale * (counted[n] - counted[at])
                beyond += more if more <= JUMP_TOKENS else max(0.0, more - images(n))
            beyond = min(max(0.0, beyond), rest)
            found[n - fit.start] = round(rest - beyond if beyond > least else rest)
            at = n
        yield replace(fit, miscounted=tuple(found))


def _can_be_count(counted: int, billed: int) -> bool:
    """Whether both numbers, of one change, can count the same content."""
    low, high = sorted(limit * counted for limit in SCALE_LIMITS)
    return low <= billed <= high


def _median(values: Floats) -> float:
    """The median. numpy's own takes five times as long for the few values of a stretch."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _estimate_scale(x: Floats, y: Floats) -> float:
    """Estimate the scale: billed growth over counted growth, from request to request.

    With little growth, the counter's own factor.
    """
    dx, dy = np.diff(x), np.diff(y)
    plain = (dx > 0) & (dy > dx / GROWTH_LIMIT) & (dy < dx * GROWTH_LIMIT)
    return float(np.clip((dy[plain].sum() + PRIOR_TOKENS) / (dx[plain].sum() + PRIOR_TOKENS), *SCALE_LIMITS))


def _find_breaks(level: Floats, prompt: float, offset: int) -> list[int]:
    """Find where the level changes: binary segmentation by least squares, each side at least `SEGMENT_REQUESTS` requests."""
    n = len(level)
    if n < 2 * SEGMENT_REQUESTS:
        return []
    sums = np.cumsum(level)
    k = np.arange(SEGMENT_REQUESTS, n - SEGMENT_REQUESTS + 1)
    left, right = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    gain = k * left**2 + (n - k) * right**2
    best = int(np.argmax(gain))
    if abs(_median(level[: k[best]]) - _median(level[k[best] :])) < compute_least_jump(prompt):
        return []
    cut = int(k[best])
    return [*_find_breaks(level[:cut], prompt, offset), offset + cut, *_find_breaks(level[cut:], prompt, offset + cut)]
