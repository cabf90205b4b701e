"""What the requests of a replay would cost at list prices, as far as that can be said without a cache.

A request that was sent as it stands here has the price it was billed. Of any other one nobody knows what the provider's cache
would have held: between all of its prompt read from cache and none of it. Holds no simulation of a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from engine.envelope.plan import Plan, read
from engine.planning.assemble import AS_RECORDED
from engine.planning.trace import Trace
from engine.session.model import written
from engine.views.bill import charge

_MILLION = Decimal(1_000_000)
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Dollars:
    """USD of several requests: between `least` (all read from cache) and `most` (none of it). `unpriced`: left out of both."""

    least: Decimal
    most: Decimal
    unpriced: int

    @property
    def exact(self) -> bool:
        """Whether every priced request has the price that it was billed."""
        return self.least == self.most


def cost(trace: Trace, plan: Plan, tokens: int) -> tuple[Decimal, Decimal] | None:
    """USD of one request whose prompt has `tokens`: least and most, the recorded answer included. None: no known price.

    They are equal where this very request was billed.
    """
    request, usage = plan.request, plan.request.usage
    made = charge(request, trace.prices, written(trace.session.blocks[request.cut : request.stop]), trace.ledger.content)
    if trace.policy.name == AS_RECORDED and usage and any(each.prompt_tokens for each in usage.passes):
        return (made.cost.total, made.cost.total) if made.cost else None
    rate = trace.prices.rates(plan.model, tokens, request.sent_at)
    if rate is None:
        return None
    answer = rate.output * made.answer / _MILLION
    least, most = rate.cache_read * tokens / _MILLION + answer, rate.input * tokens / _MILLION + answer
    whole = read(plan.server)  # by a pass that sums up, before the request itself
    first = trace.prices.rates(plan.model, whole, request.sent_at) if whole else None
    if first is None:
        return least, most
    return least + first.cache_read * whole / _MILLION, most + first.input * whole / _MILLION


def dollars(trace: Trace, sizes: Sequence[int], start: int = 0, stop: int | None = None) -> Dollars | None:
    """USD of the requests `[start, stop)`, whose prompts have `sizes[n]` tokens; None where none has a known price."""
    least, most, unpriced, priced = _ZERO, _ZERO, 0, False
    for plan in trace.plans[start:stop]:
        found = cost(trace, plan, sizes[plan.request.n])
        if found is None:
            unpriced += 1
            continue
        least, most, priced = least + found[0], most + found[1], True
    return Dollars(least, most, unpriced) if priced else None
