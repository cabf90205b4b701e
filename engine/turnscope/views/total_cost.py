"""The total cost of a session: its path, its abandoned branches, its subagents and what it sent beside them, each request once.

Every total that is shown comes from here. No branch is assembled for it: a request is priced from its recorded usage, and an
answer is counted only where its record cannot be true.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace as replace_fields

from turnscope.counting.ledger import Ledger
from turnscope.counting.tokens import make_estimator
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import RUN_USD, SIDE, Block, Request, Session, Usage, select_model_output
from turnscope.views.bill import Charge, charge
from turnscope.views.summary_requests import infer_summary_requests

SMALL_USD, SMALL_SHARE = Decimal("0.0005"), Decimal("0.005")  # a difference up to this is rounding


@dataclass(frozen=True, slots=True)
class CostShare:
    """The cost of some of a session's requests, in USD.

    Attributes:
        sessions: paths, branches or subagents.
        unpriced: requests with usage whose model has no known price.
        usd: None where no request has a price.
        prompt, output: tokens of all prompts and answers, as billed.
        counted, counted_usd: answers that were counted because their record cannot be true, and the USD that this adds.
        logged, logged_usd: requests whose cost the log states, and that cost.
    """

    sessions: int = 0
    requests: int = 0
    unpriced: int = 0
    prompt: int = 0
    output: int = 0
    usd: Decimal | None = None
    counted: int = 0
    counted_usd: Decimal = Decimal(0)
    logged: int = 0
    logged_usd: Decimal | None = None

    @property
    def recorded_usd(self) -> Decimal | None:
        """USD of the recorded usage only, at list price."""
        return None if self.usd is None else self.usd - self.counted_usd


@dataclass(frozen=True, slots=True)
class TotalCost:
    """The parts of a session's cost: its path, the branches that left it, all subagents, and requests beside them by kind.

    `run_usd`: what the log states for the whole run, where it states nothing for single requests. `summaries`, `summary_usd`:
    requests for summaries that no log holds, and what they probably cost; no part of the other numbers.
    """

    path: CostShare = CostShare()
    branches: CostShare = CostShare()
    subagents: CostShare = CostShare()
    side: tuple[tuple[str, CostShare], ...] = ()
    run_usd: Decimal | None = None
    summaries: int = 0
    summary_usd: Decimal | None = None

    @property
    def whole(self) -> CostShare:
        """All parts together."""
        return _add_shares((self.path, self.off_path))

    @property
    def off_path(self) -> CostShare:
        """All but the path."""
        return _add_shares((self.branches, self.subagents, self.side_total))

    @property
    def side_total(self) -> CostShare:
        """The requests beside the conversation: titles, summaries, checks."""
        return _add_shares([share for _, share in self.side])

    @property
    def run_difference(self) -> Decimal | None:
        """USD that the log states for the run beyond what is counted here; None where both are alike, or one is unknown."""
        whole = self.whole.usd
        if self.run_usd is None or whole is None:
            return None
        more = self.run_usd - whole
        return more if abs(more) > max(SMALL_USD, SMALL_SHARE * self.run_usd) else None

    @property
    def parts(self) -> tuple[tuple[str, CostShare], ...]:
        """The parts that have requests, by name; always the path."""
        named = (
            ("path", self.path),
            ("branches", self.branches),
            ("subagents", self.subagents),
            ("side requests", self.side_total),
        )
        return tuple((name, share) for name, share in named if share.requests or name == "path")


def compute_total_cost(trace: Trace, charges: Sequence[Charge]) -> TotalCost:
    """Compute the total cost of a session.

    A request whose id is in another part already is not counted again: resumed sessions and side questions repeat requests.

    Args:
        trace: the path.
        charges: the charges of its requests, in order.
    """
    off = charge_off_path(trace)
    kinds = Tally(str(agent.about.get(SIDE, "")) for agent in _iter_subagents(trace.session))
    bill = TotalCost(
        sum_charges(1, zip(trace.session.requests, charges, strict=True)),
        sum_charges(len(trace.session.forks), off.branches),
        sum_charges(kinds[""], off.subagents),
        tuple((kind, sum_charges(kinds[kind], pairs)) for kind, pairs in off.side.items()),
    )
    summaries = infer_summary_requests(trace)
    bill = replace(bill, summaries=len(summaries), summary_usd=_sum_known(one.usd for one in summaries))
    run = trace.session.about.get(RUN_USD)
    known = isinstance(run, (int, float)) and not bill.whole.logged
    return replace(bill, run_usd=Decimal(str(run))) if known else bill


class OffPath(NamedTuple):
    """The charged requests of abandoned branches, of subagents, and of what was sent beside the conversation, by kind."""

    branches: list[tuple[Request, Charge]]
    subagents: list[tuple[Request, Charge]]
    side: dict[str, list[tuple[Request, Charge]]]

    @property
    def all(self) -> Iterator[tuple[Request, Charge]]:
        """Every one."""
        return chain(self.branches, self.subagents, *self.side.values())


def charge_off_path(trace: Trace) -> OffPath:
    """Charge the requests that are not on the path."""
    session, prices = trace.session, trace.prices
    seen = {request.id for request in session.requests if request.id}
    left = [
        pair
        for fork in session.forks
        for pair in _charge_own(fork.own, fork.start, count=trace.ledger.count_content, prices=prices, seen=seen)
    ]
    below: list[tuple[Request, Charge]] = []
    side: dict[str, list[tuple[Request, Charge]]] = {}
    for agent in _iter_subagents(session):
        count = _build_counter(agent, trace)
        kind = str(agent.about.get(SIDE, ""))
        into = side.setdefault(kind, []) if kind else below
        for own, start in _iter_parts(agent):
            into += _charge_own(own, start, count=count, prices=prices, seen=seen)
    return OffPath(left, below, dict(sorted(side.items())))


def freeze_estimates(trace: Trace) -> Session:
    """The session with what its answers are counted to have written, where their record cannot be true.

    So it costs the same once its texts are taken out. Its branches and subagents are done alike.
    """
    return _freeze(trace.session, 0, trace.ledger.count_content, trace)


def _freeze(session: Session, start: int, count: Callable[[list[Block]], int], trace: Trace) -> Session:
    """A session, or what a branch adds from block `start` on, with its estimates."""

    def estimate(request: Request) -> Request:
        if not request.output_stub or request.estimate is not None:
            return request
        answer = select_model_output(session.blocks[max(0, request.cut - start) : max(0, request.stop - start)])
        return replace_fields(request, estimate=Usage(output_tokens=count(answer)))

    forks = (replace_fields(fork, own=_freeze(fork.own, fork.start, count, trace)) for fork in session.forks)
    below = (_freeze(agent, 0, _build_counter(agent, trace), trace) for agent in session.subagents)
    requests = tuple(map(estimate, session.requests))
    return replace_fields(session, requests=requests, forks=tuple(forks), subagents=tuple(below))


def _charge_own(
    session: Session, start: int, count: Callable[[list[Block]], int], prices: Prices, seen: set[str]
) -> Iterator[tuple[Request, Charge]]:
    """Charge the requests of a session, or of a branch from block `start` on, that were not charged before."""
    for request in session.requests:
        if request.id in seen:
            continue
        if request.id:
            seen.add(request.id)
        answer = select_model_output(session.blocks[max(0, request.cut - start) : max(0, request.stop - start)])
        yield request, charge(request, prices, answer, count)


def _iter_subagents(session: Session) -> Iterator[Session]:
    """Every subagent, those of branches and of other subagents included."""
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
    """A function that counts texts of a subagent with the counter of its main model, as its own page does."""
    models = Tally(request.model for request in agent.requests if request.model)
    family = trace.prices.find_facts(models.most_common(1)[0][0]).family if models else ""
    counter = make_estimator(family)
    same = counter.family == trace.ledger.counter.family
    return trace.ledger.count_content if same else Ledger(counter, (), [], {}).count_content


def sum_charges(sessions: int, charged: Iterable[tuple[Request, Charge]]) -> CostShare:
    """Sum charged requests.

    Args:
        sessions: Paths, branches or subagents that they belong to.
        charged: The requests with their charges.
    """
    pairs = list(charged)
    passes = [each for request, _ in pairs if request.usage for each in request.usage.passes]
    usd = [made.cost.total for _, made in pairs if made.cost]
    logged = [Decimal(str(request.logged_usd)) for request, _ in pairs if request.logged_usd is not None]
    return CostShare(
        sessions=sessions,
        requests=len(pairs),
        unpriced=sum(made.cost is None and bool(request.usage and request.usage.prompt_tokens) for request, made in pairs),
        prompt=sum(each.prompt_tokens for each in passes),
        output=sum(made.answer for _, made in pairs)
        + sum(each.output_tokens for request, _ in pairs if request.usage for each in request.usage.iterations),
        usd=_sum_known(usd),
        counted=sum(made.counted for _, made in pairs),
        counted_usd=sum((made.counted_usd for _, made in pairs), Decimal(0)),
        logged=len(logged),
        logged_usd=_sum_known(logged),
    )


def _add_shares(shares: Sequence[CostShare]) -> CostShare:
    return CostShare(
        sessions=sum(share.sessions for share in shares),
        requests=sum(share.requests for share in shares),
        unpriced=sum(share.unpriced for share in shares),
        prompt=sum(share.prompt for share in shares),
        output=sum(share.output for share in shares),
        usd=_sum_known(share.usd for share in shares),
        counted=sum(share.counted for share in shares),
        counted_usd=sum((share.counted_usd for share in shares), Decimal(0)),
        logged=sum(share.logged for share in shares),
        logged_usd=_sum_known(share.logged_usd for share in shares),
    )


def _sum_known(values: Iterable[Decimal | None]) -> Decimal | None:
    """The sum of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None
