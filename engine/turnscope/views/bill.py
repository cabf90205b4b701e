"""What each cell of a request cost: its tokens at their own rates.

A provider bills a prompt from its start: first tokens read from the cache, then tokens written to it, then uncached ones. So
the price of a cell depends on where its blocks stand. The rates are those of `Trace.prices`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from turnscope.counting.reconciliation import CELLS, Floats, Ints, Reconciliation
from turnscope.planning.render import spread_over_buckets
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Cost, Prices
from turnscope.session.model import Block, Request, select_model_output

READ, WRITTEN, UNCACHED = range(3)  # how a prompt token is billed


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request cost.

    Attributes:
        answer: output tokens as billed.
        cost: None where no usage is recorded, or where the model has no known price.
        counted: the recorded output cannot be true, so the answer was counted here.
        counted_usd: USD that counting the answer adds.
    """

    answer: int
    cost: Cost | None = None
    counted: bool = False
    counted_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Bill:
    """Cost and tokens of every request of a path. Cells are those of `CELLS`.

    Attributes:
        tokens: prompt tokens, `[request, cell, how]`, where `how` is READ, WRITTEN or UNCACHED.
        usd: USD of the prompt, `[request, cell]`.
        answer_usd: USD of the answer, `[request]`.
        charges: the exact price of each request, which `usd` and `answer_usd` sum to.
    """

    tokens: Ints
    usd: Floats
    answer_usd: Floats
    charges: tuple[Charge, ...]

    @property
    def totals(self) -> tuple[Decimal | None, ...]:
        """The exact price of each request; None where it has none."""
        return tuple(made.cost.total if made.cost else None for made in self.charges)

    @property
    def answers(self) -> Ints:
        """Output tokens of each request."""
        return np.array([made.answer for made in self.charges], dtype=np.int64)


def charge(request: Request, prices: Prices, answer: list[Block], count: Callable[[list[Block]], int]) -> Charge:
    """Price one request.

    The counter's own count is used, without the scale of the session's fit. Over six sessions both are equally far off (medians
    of 0.78 to 1.09 and of 0.82 to 1.16 of the record), and a fit over few requests can be far out. So a request costs at most
    its recorded usage and the text of its answer, both at list price.

    Args:
        request: the request with its recorded usage.
        prices: rates by model and date.
        answer: the blocks that the model wrote.
        count: counts the tokens of blocks; called only where the record does not say them.
    """
    usage = request.usage
    if usage is None:
        return Charge(count(answer))
    if not request.output_stub:
        return Charge(usage.output_tokens, prices.compute_cost(usage, request.model, request.sent_at))
    counted = request.estimate.output_tokens if request.estimate else count(answer)
    tokens = max(usage.output_tokens, counted)
    rates = prices.find_rates(request.model, usage.prompt_tokens, request.sent_at)
    more = rates.output * (tokens - usage.output_tokens) / 1_000_000 if rates else Decimal(0)
    return Charge(tokens, prices.compute_cost(usage, request.model, request.sent_at, output_tokens=tokens), True, more)


def bill(trace: Trace, reconciled: Reconciliation) -> Bill:
    """Price every request of a session.

    Args:
        trace: the session as it was sent.
        reconciled: its cells, reconciled with the recorded usage.
    """
    session, plans, ledger, prices = trace.session, trace.plans, trace.ledger, trace.prices
    n = len(plans)
    usages, rates = np.zeros((n, 3), dtype=np.int64), np.zeros((n, 3), dtype=np.float64)
    passes, answers = np.zeros(n, dtype=np.float64), np.zeros(n, dtype=np.float64)
    charges: list[Charge] = []
    for row, plan in enumerate(plans):
        request, usage = plan.request, plan.request.usage
        is_recorded = (
            usage is not None and not request.output_stub
        )  # the record says how long the answer is, so nothing has to be counted
        answer = [] if is_recorded else select_model_output(session.blocks[request.cut : request.stop])
        made = charge(request, prices, answer, ledger.count_content)
        charges.append(made)
        if usage is None:
            continue
        usages[row] = usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens
        rate = prices.find_rates(request.model, usage.prompt_tokens, request.sent_at)
        if rate and made.cost:
            hours = min(1.0, usage.cache_creation_1h_input_tokens / max(1, usage.cache_creation_input_tokens))
            write = float(rate.cache_write_1h) * hours + float(rate.cache_write_5m) * (1 - hours)
            rates[row] = float(rate.cache_read), write, float(rate.input)
            answers[row] = float(made.cost.answer)
            passes[row] = float(made.cost.iterations - made.cost.iterations_output)
    walked = _split_by_billing(usages, trace, reconciled)
    usd = (walked * rates[:, :, None]).sum(axis=1) / 1e6
    if passes.any():  # a further pass reads the whole prompt
        usd += passes[:, None] * reconciled.cells / np.maximum(reconciled.cells.sum(axis=1), 1)[:, None]
    return Bill(np.ascontiguousarray(walked.transpose(0, 2, 1)), usd, answers, tuple(charges))


def _split_by_billing(usages: Ints, trace: Trace, reconciled: Reconciliation) -> Ints:
    """Split the tokens of each request by how they were billed and by cell.

    What the log does not hold comes first. The unattributed remainder has no place of its own: the walk is scaled to the
    recorded total, and the remainder takes what the cells leave of each kind. So each kind sums to what was recorded.

    Args:
        usages: `[request, how]` recorded tokens; zeros = no usage is recorded.

    Returns:
        Tokens, `[request, how, cell]`.
    """
    most, prompts = reconciled.cells[:, :-1], usages.sum(axis=1)
    stretch = most.sum(axis=1) / np.maximum(1, prompts)
    terms = np.array(
        [(one.hidden_tokens, one.scale, one.get_scale(0), one.static) for one in reconciled.terms], dtype=np.float64
    )
    before, found = np.zeros_like(most), np.zeros((len(prompts), 3, len(CELLS)), dtype=np.int64)
    for how, edges in enumerate(np.cumsum(usages, axis=1).T):
        here = np.flatnonzero((usages[:, how] > 0) & (edges < prompts))
        upto = np.where((usages[:, how] > 0)[:, None], most, before)
        if len(here):
            places = edges[here] * stretch[here]
            upto[here] = _count_before(here, places, trace, terms[here], least=before[here], most=most[here])
        found[:, how, :-1] = upto - before
        found[:, how, -1] = usages[:, how] - found[:, how, :-1].sum(axis=1)
        before = upto
    return found


def _count_before(rows: Ints, places: Floats, trace: Trace, terms: Floats, least: Ints, most: Ints) -> Ints:
    """Count how much of each cell lies before a position in each prompt, between `least` and `most`.

    `terms`: hidden tokens, scale, scale of system prompt and tools, and the counted tokens of these where they have their own.
    """
    hidden, scale, static_scale, static = terms.T
    logged = np.maximum(0.0, places - hidden)
    front = np.minimum(logged, static_scale * static)  # system prompt and tools come first
    counted = front / np.where(static_scale == 0, np.inf, static_scale) + (logged - front) / np.where(scale == 0, np.inf, scale)
    plans, ledger = trace.plans, trace.ledger
    each = zip(rows.tolist(), counted.tolist(), strict=True)
    inside = np.array([spread_over_buckets(plans[n].seen, ledger, tokens) for n, tokens in each], dtype=np.int64)
    found = np.empty_like(most)
    found[:, :5] = np.minimum(np.rint(inside * np.column_stack([static_scale] * 2 + [scale] * 3)), most[:, :5])
    wholes = np.rint(places).astype(np.int64)
    left = wholes.copy()
    for cell in range(5, most.shape[1]):
        found[:, cell] = np.minimum(most[:, cell], left)
        left -= found[:, cell]
    return _balance_rows(found, least, most, wholes)


def _balance_rows(found: Ints, least: Ints, most: Ints, wholes: Ints) -> Ints:
    """Make each row sum to its total, with each cell between `least` and `most`. Rounding then leaves no negative count.

    The largest cells take the difference.
    """
    found = np.minimum(np.maximum(found, least), most)
    off, rows = wholes - found.sum(axis=1), np.arange(len(found))
    for cells in np.argsort(-found, axis=1, kind="stable").T:
        have = found[rows, cells]
        change = np.minimum(np.maximum(off, least[rows, cells] - have), most[rows, cells] - have)
        found[rows, cells] += change
        off -= change
    return found
