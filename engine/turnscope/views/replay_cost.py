"""What a replay costs, in dollars of the bill: every page, table and command shows these.

The record has its bill. Any other replay is simulated (`cached_cost.simulate_cost`), divided by what the same simulation makes
of the record, and multiplied by the bill. So the simulation's error is in no comparison, and a session has one cost. Where
nothing was billed, a replay costs what is simulated at list prices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.prompt_cache import CacheUse, iter_cache_uses, simulate_prompt_cache
from turnscope.planning.trace import Trace
from turnscope.session.model import select_model_output
from turnscope.views.bill import charge
from turnscope.views.cached_cost import CachePrice, ReplayCost, RunningCost, price_decisions, simulate_cost


@dataclass(frozen=True, slots=True)
class RecordCost:
    """What the requests of a path were billed, and what the simulation makes of them.

    Attributes:
        usd: USD by request; None without a known price, 0 where the log has no usage; () where it has none at all.
        counted_usd: the part of it for answers that the record cuts short.
        simulated: USD of the record, simulated at list prices; None where it is not known.
    """

    usd: tuple[Decimal | None, ...] = ()
    counted_usd: Decimal = Decimal(0)
    simulated: Decimal | None = None

    @property
    def billed(self) -> Decimal | None:
        """USD of all requests with a known price; None where none has one."""
        known = [usd for usd in self.usd if usd is not None]
        return sum(known, Decimal(0)) if known else None

    @property
    def total(self) -> Decimal | None:
        """What the record cost: its bill, else what is simulated; None where neither is known."""
        return self.simulated if self.billed is None else self.billed

    @property
    def scale(self) -> Decimal:
        """Dollars of the bill for each simulated dollar; 1 where one of the two is not known."""
        return self.billed / self.simulated if self.billed and self.simulated else Decimal(1)


NOTHING_BILLED = RecordCost()


def bill_record(record: Trace, simulated: Decimal | None) -> RecordCost:
    """What a record was billed.

    Args:
        record: the record, or its first requests.
        simulated: USD of it at list prices, by `simulate_cost`.
    """
    session, usd, counted = record.session, list[Decimal | None](), Decimal(0)
    for plan in record.outlines:
        request = plan.request
        if request.usage is None or not any(each.prompt_tokens for each in request.usage.passes):
            usd.append(Decimal(0))
            continue
        answer = select_model_output(session.blocks[request.cut : request.stop]) if request.output_stub else []
        made = charge(request, record.prices, answer, record.ledger.count_content)
        usd.append(made.cost.total if made.cost else None)
        counted += made.counted_usd if made.cost else 0
    known = any(each for each in usd)
    return RecordCost(tuple(usd) if known else (), counted if known else Decimal(0), simulated)


def price_record(record: Trace, answers: Sequence[int] | None = None) -> RecordCost:
    """The bill of a record, and its simulation.

    Args:
        record: the record.
        answers: output tokens by request, see `simulate_cost`.
    """
    return bill_record(record, simulate_cost(record, simulate_prompt_cache(record), answers).total)


def price_as_billed(trace: Trace, listed: ReplayCost, record: RecordCost, *, sent: bool = True) -> ReplayCost:
    """What a replay costs in dollars of the bill.

    Args:
        trace: the replay.
        listed: its simulated cost at list prices.
        record: the cost of the record of its session.
        sent: whether its requests go to the models that they really went to; then the record has its bill.
    """
    if sent and record.usd and trace.policy.name == AS_RECORDED:
        return replace(listed, usd=record.usd[: len(listed.usd)])
    scale = record.scale
    if scale == 1:
        return listed
    usd = (None if each is None else each * scale for each in listed.usd)
    return replace(listed, usd=tuple(usd), summary_usd=tuple(each * scale for each in listed.summary_usd))


def simulate_cache(trace: Trace) -> tuple[CacheUse, ...]:
    """Simulate the prompt cache for each request of a trace."""
    return simulate_prompt_cache(trace)


class ReplayPricing:
    """Prices the requests and the decisions of a replay one by one, also while it is planned.

    Args:
        trace: the replay; its plans may still become more.
        sent: see `price_as_billed`.

    Attributes:
        uses: what the simulated cache does for each request that was added.
    """

    def __init__(self, trace: Trace, *, sent: bool = True) -> None:
        self.uses: list[CacheUse] = []
        self._trace, self._sent = trace, sent
        self._listed = RunningCost(trace)
        self._simulated = iter_cache_uses(trace, sent=sent, plans=(self._newest for _ in count()))

    def add(self, plan: Plan) -> Mapping[int, CachePrice]:
        """Add the plan of the next request, which is in the trace already. Returns its decisions' list prices, by number."""
        self._newest = plan
        self.uses.append(next(self._simulated))
        self._listed.add(plan, self.uses[-1])
        return price_decisions(self._trace, self.uses, plan.request.n) if plan.is_changed else {}

    def price(self, trace: Trace, record: RecordCost | None = None) -> ReplayCost:
        """What the requests cost that were added.

        Args:
            trace: the replay with these requests.
            record: the cost of the record of its session; None = it is the record, or its bill is not known.
        """
        listed = self._listed.cost
        if record is None:
            record = bill_record(trace, listed.total) if trace.policy.name == AS_RECORDED else NOTHING_BILLED
        return price_as_billed(trace, listed, record, sent=self._sent)
