"""What each cell of a request cost: its tokens at their own rate, walked in provider order.

A provider bills a prompt as read from cache, written to it, and uncached, in that order from the front. So the tokens that
stand first are the cheap ones, and a cell's price depends on where its blocks stand. Holds the walk; rates are those of
`Trace.prices`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from operator import sub

import numpy as np

from engine.counting.ledger import Ledger
from engine.counting.reconcile import CELLS, Floats, Ints, Reconciled, Terms
from engine.envelope.plan import Plan
from engine.planning.render import first
from engine.planning.trace import Trace
from engine.pricing.prices import Cost, Prices
from engine.session.model import Block, Request, Usage, written

READ, WRITTEN, UNCACHED = range(3)  # how a token of the prompt is billed
_NOTHING = [[0] * len(CELLS)] * 3


@dataclass(frozen=True, slots=True)
class Charge:
    """What one request cost; `cost` is None where nothing was recorded or its model has no known price.

    `answer`: output tokens as billed. Where the recorded number cannot be true they are `counted`, which adds `counted_usd`.
    """

    answer: int
    cost: Cost | None = None
    counted: bool = False
    counted_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Bill:
    """Money and tokens of every request of a path. Cells as `reconcile.CELLS`.

    `tokens[request, cell, how]` of the prompt, with `how` = READ, WRITTEN, UNCACHED; `usd[request, cell]` what that cost, the
    answer left out; `answer_usd[request]` what the answer cost. Both sum to the price in `charges[request]`.
    """

    tokens: Ints
    usd: Floats
    answer_usd: Floats
    charges: tuple[Charge, ...]

    @property
    def totals(self) -> tuple[Decimal | None, ...]:
        """The exact price of each request, None where there is none."""
        return tuple(made.cost.total if made.cost else None for made in self.charges)

    @property
    def answers(self) -> Ints:
        """Output tokens of each request."""
        return np.array([made.answer for made in self.charges], dtype=np.int64)


def charge(request: Request, prices: Prices, answer: list[Block], count: Callable[[list[Block]], int]) -> Charge:
    """Price one request. `answer`: what the model wrote; `count` gives its tokens where the record is no help.

    The count is the counter's own, without the scale of the session's fit: on answers whose record is whole the two are
    equally far off (medians of 0.78 to 1.09 and 0.82 to 1.16 of the record over six sessions), and a fit over few requests
    can be far out. So a request costs at most its recorded usage and the own text of its answer, both at list price.
    """
    usage = request.usage
    if usage is None:
        return Charge(count(answer))
    if not request.output_stub:
        return Charge(usage.output_tokens, prices.cost(usage, request.model, request.sent_at))
    tokens = max(usage.output_tokens, count(answer))
    rates = prices.rates(request.model, usage.prompt_tokens, request.sent_at)
    more = rates.output * (tokens - usage.output_tokens) / 1_000_000 if rates else Decimal(0)
    return Charge(tokens, prices.cost(usage, request.model, request.sent_at, output_tokens=tokens), True, more)


def bill(trace: Trace, reconciled: Reconciled) -> Bill:
    """Price every request of a trace of what was really sent."""
    session, plans, ledger, prices = trace.session, trace.plans, trace.ledger, trace.prices
    n = len(plans)
    tokens, rates, rows = [_NOTHING] * n, np.zeros((n, 3), dtype=np.float64), reconciled.cells.tolist()
    passes, answers = np.zeros(n, dtype=np.float64), np.zeros(n, dtype=np.float64)
    charges: list[Charge] = []
    for row, plan in enumerate(plans):
        request = plan.request
        made = charge(request, prices, written(session.blocks[request.cut : request.stop]), ledger.content)
        charges.append(made)
        if request.usage is None:
            continue
        if request.usage.prompt_tokens:  # zeros say that nothing was recorded, not that nothing was sent
            tokens[row] = _walk(request.usage, plan, ledger, reconciled.terms[row], rows[row])
        rate = prices.rates(request.model, request.usage.prompt_tokens, request.sent_at)
        if rate and made.cost:
            hours = min(1.0, request.usage.cache_creation_1h_input_tokens / max(1, request.usage.cache_creation_input_tokens))
            write = float(rate.cache_write_1h) * hours + float(rate.cache_write_5m) * (1 - hours)
            rates[row] = float(rate.cache_read), write, float(rate.input)
            answers[row] = float(made.cost.answer)
            passes[row] = float(made.cost.iterations - made.cost.iterations_output)
    walked = np.array(tokens, dtype=np.int64).reshape(n, 3, len(CELLS))
    usd = (walked * rates[:, :, None]).sum(axis=1) / 1e6
    if passes.any():  # a further pass reads the whole prompt
        usd += passes[:, None] * reconciled.cells / np.maximum(reconciled.cells.sum(axis=1), 1)[:, None]
    return Bill(np.ascontiguousarray(walked.transpose(0, 2, 1)), usd, answers, tuple(charges))


def _walk(usage: Usage, plan: Plan, ledger: Ledger, terms: Terms, row: list[int]) -> list[list[int]]:
    """Read, written and uncached tokens of each cell of one request; plain numbers, for numpy is slow at nine of them.

    What the log does not hold stands first. The unattributed remainder has no place of its own: the walk is stretched to the
    recorded total, and the remainder takes what the cells leave of each kind, so that each kind sums to what was recorded.
    """
    most = row[:-1]
    stretch = sum(most) / max(1, usage.prompt_tokens)
    billed = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens)
    before, edge = [0] * len(most), 0
    found: list[list[int]] = []
    for kind in billed:
        upto, edge = most, edge + kind
        if not kind and found:
            upto = before
        elif edge < usage.prompt_tokens:
            place = edge * stretch
            inside = first(plan.seen, ledger, max(0.0, place - terms.hidden) / terms.scale if terms.scale else 0.0)
            scale = terms.scale
            upto = [min(round(count * scale), cell) for count, cell in zip(inside, most[:5], strict=True)]
            left = round(place)
            for cell in most[5:]:
                upto.append(min(cell, left))
                left -= upto[-1]
            upto = _settled(upto, before, most, round(place))
        cells = list(map(sub, upto, before))
        found.append([*cells, kind - sum(cells)])
        before = upto
    return found


def _settled(upto: list[int], least: list[int], most: list[int], whole: int) -> list[int]:
    """`upto` brought to the sum `whole`, each cell between `least` and `most`: rounding leaves no kind of token below zero."""
    found = list(map(min, map(max, upto, least), most))
    off = whole - sum(found)
    if not off:
        return found
    for i in sorted(range(len(found)), key=lambda i: -found[i]):
        change = min(max(off, least[i] - found[i]), most[i] - found[i])
        found[i] += change
        off -= change
    return found
