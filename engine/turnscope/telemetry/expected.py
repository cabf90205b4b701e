"""What requests would be billed that never were: those of a replay, or of a log without usage."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from turnscope.planning.trace import Trace
from turnscope.session.model import Usage
from turnscope.views.cached_cost import count_answer_tokens, simulate_cost
from turnscope.views.replay_cost import price_as_billed, price_record, simulate_cache


class ExpectedCost(Struct, frozen=True):
    """Tokens with the prompt cache simulated, and USD; `usage` is None for a request that is not sent."""

    usage: Usage | None
    usd: Decimal | None


def expect_costs(trace: Trace, record: Trace | None = None) -> tuple[ExpectedCost, ...]:
    """What each request of a replay would cost, as `compare` has it.

    Args:
        trace: the replay.
        record: the record of its session; None = its bill is not known.
    """
    uses, answers = simulate_cache(trace), count_answer_tokens(trace)
    cost = simulate_cost(trace, uses, answers)
    if record is not None:
        cost = price_as_billed(trace, cost, price_record(record, answers))
    return tuple(
        ExpectedCost(
            Usage(
                input_tokens=use.plain,
                cache_creation_input_tokens=use.written,
                cache_read_input_tokens=use.read,
                output_tokens=answers[n],
                cache_creation_1h_input_tokens=use.hour,
            )
            if use.sent
            else None,
            cost.usd[n],
        )
        for n, use in enumerate(uses)
    )
