"""What each cell of a request cost: its tokens at their own rate, walked in provider order.

A provider bills a prompt as read from cache, written to it, and uncached, in that order from the front. So the tokens that
stand first are the cheap ones, and a cell's price depends on where its blocks stand. Holds the walk; rates are those of
`Trace.prices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from engine.counting.ledger import Ledger
from engine.counting.reconcile import CELLS, Floats, Ints, Reconciled, Terms
from engine.envelope.plan import Plan
from engine.planning.render import first
from engine.planning.trace import Trace
from engine.session.model import Bucket, Counts, Request, Session

READ, WRITTEN, UNCACHED, ANSWER = range(4)  # how a token is billed


@dataclass(frozen=True, slots=True)
class Bill:
    """Money and tokens by cell, as `reconcile.CELLS`.

    `tokens[request, cell, how]` with `how` = READ, WRITTEN, UNCACHED, ANSWER; `usd[request, cell]` in USD, the answer included;
    `totals[request]` the exact price of the request, None where the model has no known price or nothing was recorded.
    `answers[request]` output tokens, counted where the record is a stub.
    """

    tokens: Ints
    usd: Floats
    totals: tuple[Decimal | None, ...]
    answers: Ints


def bill(trace: Trace, reconciled: Reconciled) -> Bill:
    """Price every request of a trace of what was really sent."""
    session, plans, ledger, prices = trace.session, trace.plans, trace.ledger, trace.prices
    n = len(plans)
    tokens = np.zeros((n, len(CELLS), 4), dtype=np.int64)
    usd = np.zeros((n, len(CELLS)), dtype=np.float64)
    answers = np.zeros(n, dtype=np.int64)
    totals: list[Decimal | None] = []
    scales = [fit.scale for fit in trace.fits for _ in range(fit.start, fit.stop)]
    for row, plan in enumerate(plans):
        request = plan.request
        answers[row], spread = _answer(session, request, ledger, scales[row])
        tokens[row, :5, ANSWER] = spread
        if request.usage is None:
            totals.append(None)
            continue
        if request.usage.prompt_tokens:  # zeros say that nothing was recorded, not that nothing was sent
            _walk(tokens[row], plan, ledger, reconciled.terms[row], reconciled.cells[row])
        priced = prices.cost(request.usage, request.model, request.sent_at, output_tokens=int(answers[row]))
        rate = prices.rates(request.model, request.usage.prompt_tokens, request.sent_at)
        totals.append(priced.total if priced else None)
        if rate:
            hours = min(1.0, request.usage.cache_creation_1h_input_tokens / max(1, request.usage.cache_creation_input_tokens))
            write = float(rate.cache_write_1h) * hours + float(rate.cache_write_5m) * (1 - hours)
            usd[row] = tokens[row] @ np.array([float(rate.cache_read), write, float(rate.input), float(rate.output)]) / 1e6
            if priced and priced.iterations:  # a further pass reads the whole prompt: each cell bears its share of it
                share = reconciled.cells[row] / max(1, int(reconciled.cells[row].sum()))
                usd[row] += float(priced.iterations) * share
    return Bill(tokens, usd, tuple(totals), answers)


def _answer(session: Session, request: Request, ledger: Ledger, scale: float) -> tuple[int, Counts]:
    """Output tokens, and their spread over the buckets. What an answer's text does not explain is thinking, if it thought."""
    counted = tuple(round(c * scale) for c in ledger.span(request.cut, request.stop))
    total = request.usage.output_tokens if request.usage and not request.output_stub else sum(counted)
    said = counted[2]
    thought = any(block.bucket == Bucket.THINKING for block in session.blocks[request.cut : request.stop])
    messages = min(said, total) if thought else total
    return total, (0, 0, messages, 0, total - messages)


def _walk(cells: Ints, plan: Plan, ledger: Ledger, terms: Terms, row: Ints) -> None:
    """Spread read, written and uncached tokens over the cells of one request.

    What the log does not hold stands first. The unattributed remainder has no place of its own: the walk is stretched to the
    recorded total, and the remainder takes what the cells leave of each kind, so that each kind sums to what was recorded.
    """
    usage = plan.request.usage
    assert usage is not None
    known = int(row[:-1].sum())
    stretch = known / max(1, usage.prompt_tokens)
    edges = (usage.cache_read_input_tokens, usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
    before = np.zeros(len(row) - 1, dtype=np.int64)
    for how, edge in enumerate((*edges, usage.prompt_tokens)):
        upto = row[:-1].copy()
        if edge < usage.prompt_tokens:
            place = edge * stretch
            left = round(place)
            for i in range(5, len(upto)):
                upto[i] = min(row[i], left)
                left -= int(upto[i])
            inside = first(plan.seen, ledger, max(0.0, place - terms.hidden) / terms.scale if terms.scale else 0.0)
            upto[:5] = np.minimum(np.rint(np.array(inside) * terms.scale), row[:5])
            _settled(upto, before, row, round(place))
        cells[:-1, how] = upto - before
        before = upto
    billed = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens)
    cells[-1, :3] = np.array(billed) - cells[:-1, :3].sum(axis=0)


def _settled(upto: Ints, least: Ints, most: Ints, whole: int) -> None:
    """Make `upto` sum to `whole`, each cell between `least` and `most`: rounding must leave no kind of token below zero."""
    np.clip(upto, least, most[: len(upto)], out=upto)
    for i in np.argsort(-upto, kind="stable"):
        upto[i] += np.clip(whole - int(upto.sum()), least[i] - upto[i], most[i] - upto[i])
