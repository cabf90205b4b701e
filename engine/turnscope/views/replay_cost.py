"""What the requests and decisions of a replay cost, for every page that shows a replay.

A request that was sent exactly so has the price that was billed. Any other has a simulated price (`cached_cost.simulate_cost`),
the same as in a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.prompt_cache import CacheUse, simulate_prompt_cache
from turnscope.planning.trace import Trace
from turnscope.session.model import select_model_output
from turnscope.views.bill import charge
from turnscope.views.cached_cost import CachePrice, SimulatedCost, price_decisions, simulate_cost


@dataclass(frozen=True, slots=True)
class ReplayCosts:
    """USD by request; None without a known price. Billed where this very request was sent, else simulated.

    `simulated`: all requests simulated.
    """

    usd: tuple[Decimal | None, ...]
    simulated: SimulatedCost


def simulate_cache(trace: Trace) -> tuple[CacheUse, ...]:
    """Simulate the prompt cache for each request of a trace."""
    return simulate_prompt_cache(trace)


def price_replay(trace: Trace, sizes: Sequence[int]) -> tuple[ReplayCosts, Mapping[int, CachePrice]]:
    """Price the requests and the decisions of a replay.

    Args:
        trace: the replay.
        sizes: prompt tokens of each request.

    Returns:
        The cost of the requests, and the price of each decision by its number.
    """
    uses = simulate_prompt_cache(trace, sizes)
    made = simulate_cost(trace, uses)
    billed = trace.policy.name == AS_RECORDED
    usd = tuple(_price_as_billed(trace, n) if billed and _has_usage(trace, n) else each for n, each in enumerate(made.usd))
    prices: dict[int, CachePrice] = {}
    for n, plan in enumerate(trace.plans):
        if plan.is_changed:
            prices |= price_decisions(trace, uses, n)
    return ReplayCosts(usd, made), prices


def _has_usage(trace: Trace, n: int) -> bool:
    usage = trace.plans[n].request.usage
    return usage is not None and any(each.prompt_tokens for each in usage.passes)


def _price_as_billed(trace: Trace, n: int) -> Decimal | None:
    request = trace.plans[n].request
    made = charge(
        request, trace.prices, select_model_output(trace.session.blocks[request.cut : request.stop]), trace.ledger.count_content
    )
    return made.cost.total if made.cost else None
