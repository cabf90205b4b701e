"""Which policy costs what, and loses what, over many sessions: a row per policy, with the interval of its cost.

Cost is a factor: USD of all sessions under the policy, simulated with the provider's prompt cache and scaled to each bill, over
what the records cost. Answers are taken as recorded; what a later answer refers to and had left is a lost reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Literal, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from turnscope.library import opening
from turnscope.library.opening import AS_RECORDED
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.views.comparison import SharedFacts, build_row
from turnscope.views.overview import build_overview
from turnscope.views.text_tables import format_csv

Kind = Literal["short", "long", "idle", "tools", "chat"]
Pairs = NDArray[np.float64]

KINDS: tuple[Kind, ...] = get_args(Kind)
LEAST, MOST = 5, 3_000  # requests of a session
DRAWS = 1_000  # of sessions with replacement, for an interval
LIMITS = (0.025, 0.975)
WHOLE = 5_000  # sessions; of more a draw takes a part of them
BAGS = 10  # such parts
IDLE = 300.0  # seconds


class MeasuredSession(Struct, frozen=True):
    """One session under one policy, in USD with a cache and without, and the same of its record.

    `uses` references of later answers were found, and `hits` of them are lost. `peak`: the fullest window, as a share.
    `unsent`: requests that the provider would refuse. `calls`: summaries that a model would have been requested for.
    """

    policy: str
    session: str
    requests: int
    kinds: frozenset[Kind]
    usd: float
    record_usd: float
    uncached: float
    record_uncached: float
    hits: int
    uses: int
    peak: float
    unsent: int
    calls: int


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy over several sessions.

    Attributes:
        cost, low, high: factor of the records' cost, and the interval that 95 % of the draws lie in.
        uncached: the factor if nothing were cached, for records and policy alike.
        lost: share of the references that are lost.
        peak: fullest window at the median session, as a share.
        unsent: share of the requests that the provider would refuse.
        calls: summaries by a model, per 100 requests.
        growth: factor on the longer half of the sessions, over that on the shorter.
        by_kind: factor on the sessions of each kind, in the order of `KINDS`; NaN where there is none.
    """

    policy: str
    sessions: int
    cost: float
    low: float
    high: float
    uncached: float
    lost: float
    peak: float
    unsent: float
    calls: float
    growth: float
    by_kind: tuple[float, ...]


def measure_session(
    session: Session, names: Iterable[str], load: Callable[[str], Policy] = opening.load_policy
) -> Iterator[MeasuredSession]:
    """Measure a session under each policy; nothing where the record has no price.

    Args:
        session: The session.
        names: The policies.
        load: Gives the policy of a name.
    """
    record = opening.replay(session)
    shared = SharedFacts.from_trace(record)
    whole = shared.record.total
    if not whole:
        return
    bare = price_uncached(record, shared.answer_tokens)
    kinds = frozenset(find_kinds(session, record))
    for name in names:
        trace = record if name == AS_RECORDED else opening.replay(session, load(name), ledger=record.ledger)
        row = build_row(trace, shared)
        if row.usd is None:
            continue
        calls = sum(usd > 0 for usd in row.cost.summary_usd)
        yield MeasuredSession(
            policy=name,
            session=f"{session.source}:{session.id}",
            requests=len(row.sizes),
            kinds=kinds,
            usd=float(row.usd),
            record_usd=float(whole),
            uncached=price_uncached(trace, shared.answer_tokens),
            record_uncached=bare,
            hits=len(row.losses.hits),
            uses=sum(row.losses.uses),
            peak=row.peak[0],
            unsent=len(row.unsent),
            calls=calls,
        )


def price_uncached(trace: Trace, answers: Sequence[int]) -> float:
    """USD of all requests, and of their answers, if nothing were cached. Summaries are left out.

    Args:
        trace: The replay.
        answers: Output tokens by request.
    """
    usd = 0.0
    for n, outline in enumerate(trace.outlines):
        size = trace.count_tokens(n)
        rates = trace.prices.find_rates(outline.model, size, outline.request.sent_at)
        usd += float(rates.input * size + rates.output * answers[n]) / 1_000_000 if rates else 0.0
    return usd


def find_kinds(session: Session, record: Trace) -> Iterator[Kind]:
    """Find the kinds that a session is of.

    Args:
        session: The session.
        record: Its record.
    """
    requests, view = session.requests, build_overview(record)
    count = len(requests)
    times = [request.sent_at for request in requests if request.sent_at]
    if count < 50:
        yield "short"
    if count >= 200:
        yield "long"
    if sum(b - a > IDLE for a, b in pairwise(times)) * 20 >= count:
        yield "idle"
    if view.cells[:, 3].sum() > 0.4 * view.prompts.sum():
        yield "tools"
    if 3 * len({request.turn for request in requests}) >= count:
        yield "chat"


def is_measurable(session: Session) -> bool:
    """Whether a session is long enough, short enough, and records usage."""
    return LEAST <= len(session.requests) <= MOST and any(request.usage for request in session.requests)


def sum_up(rows: Sequence[MeasuredSession]) -> PolicyRow:
    """Sum up what one policy did to several sessions.

    Args:
        rows: The sessions under the policy, at least one.
    """
    requests = sum(row.requests for row in rows)
    middle = median(row.requests for row in rows)
    low, high = _draw_interval(rows)
    return PolicyRow(
        policy=rows[0].policy,
        sessions=len(rows),
        cost=_compute_factor(rows),
        low=low,
        high=high,
        uncached=sum(row.uncached for row in rows) / sum(row.record_uncached for row in rows),
        lost=sum(row.hits for row in rows) / max(1, sum(row.uses for row in rows)),
        peak=median(row.peak for row in rows),
        unsent=sum(row.unsent for row in rows) / requests,
        calls=100 * sum(row.calls for row in rows) / requests,
        growth=_compute_factor([row for row in rows if row.requests > middle])
        / _compute_factor([row for row in rows if row.requests <= middle]),
        by_kind=tuple(_compute_factor([row for row in rows if kind in row.kinds]) for kind in KINDS),
    )


def build_table(rows: Iterable[MeasuredSession]) -> tuple[PolicyRow, ...]:
    """Build the row of each policy, the cheapest first."""
    found: dict[str, list[MeasuredSession]] = {}
    for row in rows:
        found.setdefault(row.policy, []).append(row)
    return tuple(sorted(map(sum_up, found.values()), key=lambda row: row.cost))


def find_best(table: Sequence[PolicyRow]) -> frozenset[str]:
    """Name the policies that no other one beats: none costs less and loses no more, or loses less and costs no more.

    Args:
        table: The rows. A policy under which requests would be refused beats nothing and is not among the best.
    """
    fits = [row for row in table if not row.unsent]
    return frozenset(
        row.policy
        for row in fits
        if not any(
            other.cost <= row.cost and other.lost <= row.lost and (other.cost, other.lost) != (row.cost, row.lost)
            for other in fits
        )
    )


def table_to_csv(table: Iterable[PolicyRow]) -> str:
    """Write the table as CSV, a line per policy, with the factors by kind of session; what is not known is an empty cell."""
    names = [each.name for each in fields(PolicyRow)][:-1]
    rows = ([*(getattr(row, name) for name in names), *row.by_kind] for row in table)
    unknown = {"nan": None}
    return format_csv([*names, *KINDS], ([unknown.get(str(value), value) for value in row] for row in rows))


def _compute_factor(rows: Sequence[MeasuredSession]) -> float:
    """Cost of the policy over that of the records; NaN without rows."""
    return sum(row.usd for row in rows) / whole if (whole := sum(row.record_usd for row in rows)) else float("nan")


def _draw_interval(rows: Sequence[MeasuredSession]) -> tuple[float, float]:
    return draw_interval(np.array([(row.usd, row.record_usd) for row in rows]))


def draw_interval(usd: Pairs) -> tuple[float, float]:
    """The interval that 95 % of the factors of draws of sessions with replacement lie in.

    Of many sessions every draw takes a part of them, as the bag of little bootstraps does (Kleiner and others, 2014).

    Args:
        usd: cost under the policy and of the record, a row for each session.
    """
    if len(usd) > WHOLE:
        off = [
            np.quantile(_divide(counts @ usd[at]), LIMITS) - _divide(usd[at].sum(axis=0)) for at, counts in _draw_bags(len(usd))
        ]
        low, high = _divide(usd.sum(axis=0)) + np.mean(off, axis=0)
    else:
        drawn = np.random.default_rng(7).integers(0, len(usd), (DRAWS, len(usd)))
        low, high = np.quantile(_divide(usd[drawn].sum(axis=1)), LIMITS)
    return float(low), float(high)


def _divide(sums: Pairs) -> Pairs:
    return np.asarray(sums[..., 0] / sums[..., 1])


@lru_cache(maxsize=1)
def _draw_bags(count: int) -> tuple[tuple[NDArray[np.int64], NDArray[np.float32]], ...]:
    """Some of the sessions, and how often each draw from them, as large as all sessions, has each one; several times."""
    rng, size = np.random.default_rng(7), round(count**0.7)
    return tuple(
        (rng.choice(count, size, replace=False), rng.poisson(count / size, (DRAWS // 10, size)).astype(np.float32))
        for _ in range(BAGS)
    )
