"""The whole bill of a session: its path, what the branches that were left cost, and its subagents; each request once.

One function makes every total that is shown. Nothing of a branch is put together for it: a request is priced from its recorded
usage, and of an answer whose record cannot be true only the own text is counted.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from turnscope.counting.ledger import Ledger
from turnscope.counting.tokens import make_estimator
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import Block, Request, Session, select_model_output
from turnscope.views.bill import Charge, charge


@dataclass(frozen=True, slots=True)
class CostShare:
    """What some of a session's requests cost, in USD; None where none of them has a price, or the log says nothing.

    `counted` answers are counted because their record cannot be true; that adds `counted_usd` to what was recorded.
    """

    sessions: int = 0  # paths, branches or subagents
    requests: int = 0
    unpriced: int = 0  # requests with usage whose model has no known price
    usd: Decimal | None = None
    counted: int = 0
    counted_usd: Decimal = Decimal(0)
    logged: int = 0  # requests of which the log itself says what they cost
    logged_usd: Decimal | None = None

    @property
    def recorded_usd(self) -> Decimal | None:
        """USD of the recorded usage alone, at list price."""
        return None if self.usd is None else self.usd - self.counted_usd


@dataclass(frozen=True, slots=True)
class TotalCost:
    """The parts of a session's bill: the path that is looked at, the branches that left it, and all subagents."""

    path: CostShare = CostShare()
    branches: CostShare = CostShare()
    subagents: CostShare = CostShare()
    run_usd: Decimal | None = None  # what the log says of the whole run, where it says nothing of single requests

    @property
    def whole(self) -> CostShare:
        """All parts together."""
        shares = (self.path, self.branches, self.subagents)
        return CostShare(
            sum(share.sessions for share in shares),
            sum(share.requests for share in shares),
            sum(share.unpriced for share in shares),
            _sum_known(share.usd for share in shares),
            sum(share.counted for share in shares),
            sum((share.counted_usd for share in shares), Decimal(0)),
            sum(share.logged for share in shares),
            _sum_known(share.logged_usd for share in shares),
        )

    @property
    def parts(self) -> tuple[tuple[str, CostShare], ...]:
        """The parts that have requests, by name; the path always."""
        named = (("path", self.path), ("branches", self.branches), ("subagents", self.subagents))
        return tuple((name, share) for name, share in named if share.requests or name == "path")


def compute_total_cost(trace: Trace, charges: Sequence[Charge]) -> TotalCost:
    """The bill of the session behind a trace. `charges`: those of its path, in order.

    A request that another part was billed for, by its id, is not counted again: resumed sessions and side questions repeat
    what was said elsewhere.
    """
    left, below = charge_off_path(trace)
    bill = TotalCost(
        _sum_charges(1, zip(trace.session.requests, charges, strict=True)),
        _sum_charges(len(trace.session.forks), left),
        _sum_charges(sum(1 for _ in _iter_subagents(trace.session)), below),
    )
    run = trace.session.about.get("run_usd")
    known = isinstance(run, (int, float)) and not bill.whole.logged
    return replace(bill, run_usd=Decimal(str(run))) if known else bill


def charge_off_path(trace: Trace) -> tuple[list[tuple[Request, Charge]], list[tuple[Request, Charge]]]:
    """The requests of branches that were left, and those of subagents, each with what it was charged for."""
    session, prices = trace.session, trace.prices
    seen = {request.id for request in session.requests if request.id}
    left = [
        pair for fork in session.forks for pair in _charge_own(fork.own, fork.start, trace.ledger.count_content, prices, seen)
    ]
    below: list[tuple[Request, Charge]] = []
    for agent in _iter_subagents(session):
        count = _build_counter(agent, trace)
        for own, start in _iter_parts(agent):
            below += _charge_own(own, start, count, prices, seen)
    return left, below


def _charge_own(
    session: Session, start: int, count: Callable[[list[Block]], int], prices: Prices, seen: set[str]
) -> Iterator[tuple[Request, Charge]]:
    """The requests of a session, or of what a branch adds from block `start` on, that nobody was billed for before."""
    for request in session.requests:
        if request.id in seen:
            continue
        if request.id:
            seen.add(request.id)
        answer = select_model_output(session.blocks[max(0, request.cut - start) : max(0, request.stop - start)])
        yield request, charge(request, prices, answer, count)


def _iter_subagents(session: Session) -> Iterator[Session]:
    """Every subagent, those of branches and of other subagents too."""
    for one, _ in _iter_parts(session):
        for agent in one.subagents:
            yield agent
            yield from _iter_subagents(agent)


def _iter_parts(session: Session) -> Iterator[tuple[Session, int]]:
    """A session and what its branches add, each with the address of its first block."""
    yield session, 0
    for fork in session.forks:
        yield fork.own, fork.start


def _build_counter(agent: Session, trace: Trace) -> Callable[[list[Block]], int]:
    """Counts texts of a subagent as its own page does: with the counter of its main model."""
    models = Tally(request.model for request in agent.requests if request.model)
    family = trace.prices.find_facts(models.most_common(1)[0][0]).family if models else ""
    counter = make_estimator(family)
    same = counter.family == trace.ledger.counter.family
    return trace.ledger.count_content if same else Ledger(counter, (), [], {}).count_content


def _sum_charges(sessions: int, charged: Iterable[tuple[Request, Charge]]) -> CostShare:
    pairs = list(charged)
    usd = [made.cost.total for _, made in pairs if made.cost]
    logged = [Decimal(str(request.logged_usd)) for request, _ in pairs if request.logged_usd is not None]
    return CostShare(
        sessions,
        len(pairs),
        sum(made.cost is None and bool(request.usage and request.usage.prompt_tokens) for request, made in pairs),
        _sum_known(usd),
        sum(made.counted for _, made in pairs),
        sum((made.counted_usd for _, made in pairs), Decimal(0)),
        len(logged),
        _sum_known(logged),
    )


def _sum_known(values: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None
