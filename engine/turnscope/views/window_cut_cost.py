"""What a cut of the window cost and saved, in USD. Pure functions of the session as recorded."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from statistics import median

import numpy as np

from turnscope.planning.trace import Trace
from turnscope.views.overview import Overview
from turnscope.views.summary_requests import infer_summary_requests

NEAR = 10  # requests before and after a cut whose median price is compared


@dataclass(frozen=True, slots=True)
class CutCost:
    """What a cut cost and saved, in USD.

    Attributes:
        before, after: median price of a prompt, over up to `NEAR` requests before and after; None without prices.
        summary: the request for the summary, recorded or inferred; None where it is not known.
        first: the prompt of the first request after it.
        saved: by request from the cut on, what was saved until then, had what left been read from the cache each time. Taken
            off: the summary, and what the first prompt cost beyond reading all of it from the cache.
    """

    before: float | None
    after: float | None
    summary: float | None
    first: float | None
    saved: tuple[float, ...]

    @property
    def break_even(self) -> int | None:
        """How many requests it takes until the cut has paid for itself; None where it never has."""
        behind = [n for n, usd in enumerate(self.saved) if usd < 0]
        last = behind[-1] + 1 if behind else 0
        return last if last < len(self.saved) else None


def compute_cut_cost(trace: Trace, view: Overview, request: int, stop: int, removed: int) -> CutCost:
    """Compute what a cut cost and saved.

    Args:
        trace: the session as recorded.
        view: its overview.
        request: the first request after the cut.
        stop: the request of the next cut, or the number of requests.
        removed: provider tokens that left, net of what took their place.
    """
    prompts = view.usd.sum(axis=1)
    priced = [usd is not None for usd in view.totals]
    old = [float(prompts[n]) for n in range(max(0, request - NEAR), request) if priced[n]]
    new = [float(prompts[n]) for n in range(request + 1, min(stop, request + 1 + NEAR)) if priced[n]]
    if not old or not new:
        return CutCost(None, None, None, None, ())
    summary = next((each.usd for each in infer_summary_requests(trace) if each.request == request), None)
    paid = summary if summary is not None else _price_answers(trace, request)
    rates = [_find_cached_rate(trace, view, n) for n in range(request, stop)]
    kept = [removed * rate for rate in rates]  # what the content would have cost, had it stayed
    first = float(prompts[request]) - view.get_prompt(request) * (rates[0] if rates else 0.0)
    saved = np.cumsum(kept) - float(paid or 0) - max(0.0, first)
    return CutCost(
        before=median(old),
        after=median(new),
        summary=None if paid is None else float(paid),
        first=float(prompts[request]),
        saved=tuple(map(float, saved)),
    )


def _find_cached_rate(trace: Trace, view: Overview, n: int) -> float:
    """USD of one token that a request reads from the cache; 0 where its model has no known price."""
    plan = trace.plans[n]
    rates = trace.prices.find_rates(plan.model, view.get_prompt(n), plan.request.sent_at)
    return float(rates.cache_read) / 1e6 if rates else 0.0


def _price_answers(trace: Trace, request: int) -> Decimal | None:
    """USD of recorded requests for a summary; None where there is none with usage."""
    plan = trace.plans[request]
    prices = (
        trace.prices.compute_cost(answer.usage, answer.model or plan.model, plan.request.sent_at)
        for ask, answer in plan.asks
        if ask.kind == "summary" and answer.usage
    )
    found = [cost.total for cost in prices if cost]
    return sum(found, Decimal(0)) if found else None
