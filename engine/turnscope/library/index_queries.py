"""Queries over all indexed sessions: the list, the search, and what they cost by day, model and project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from turnscope.storage.catalogue import count_ratings
from turnscope.storage.library_index import (
    PAGE_HITS,
    Hit,
    IndexRow,
    Problem,
    SearchResult,
    Spending,
    count_cuts,
    drop,
    drop_joined,
    find_sessions,
    list_misses,
    list_problems,
    list_rows,
    list_sessions,
    list_spending,
    list_usage,
    list_warm,
    read_version,
    search,
)
from turnscope.views.cache_misses import MissRow
from turnscope.views.usage import PICO_PER_USD, QUARTER_HOUR, UsageRow

__all__ = [
    "PAGE_HITS",
    "PICO_PER_USD",
    "Hit",
    "IndexRow",
    "Metrics",
    "Problem",
    "SearchResult",
    "Spending",
    "compute_metrics",
    "count_cuts",
    "count_ratings",
    "drop",
    "drop_joined",
    "find_sessions",
    "group_by_week",
    "group_spending",
    "list_misses",
    "list_problems",
    "list_rows",
    "list_sessions",
    "list_spending",
    "list_usage",
    "list_warm",
    "read_version",
    "search",
    "spread_misses",
    "spread_usage",
    "sum_spending",
]


def spread_usage(rows: Iterable[UsageRow]) -> tuple[Spending, ...]:
    """What was billed as a chart over days takes it, by the days of this machine's time zone.

    Args:
        rows: rows of the index.
    """
    return tuple(
        Spending(
            _find_day(row.quarter and row.quarter * QUARTER_HOUR), row.model, row.project, row.tool, row.requests, row.pico
        )
        for row in rows
    )


def spread_misses(rows: Iterable[MissRow], name: Callable[[MissRow], str]) -> tuple[Spending, ...]:
    """What cache misses cost beyond reading as a chart over days takes it; what is named stands as the model.

    Args:
        rows: the misses.
        name: what a miss belongs to.
    """
    return tuple(Spending(_find_day(row.at), name(row), row.project, row.tool, 1, row.pico) for row in rows)


def _find_day(at: float | None) -> str:
    """The day of a moment in this machine's time zone; "" where it is unknown."""
    return "" if at is None else datetime.fromtimestamp(at).astimezone().date().isoformat()


@dataclass(frozen=True, slots=True)
class Metrics:
    """Averages over several sessions; None where no session has the value.

    Attributes:
        utilisation: average fill of a window.
        band: share of the requests that fill 40 to 70 % of their window.
        messages: messages per request.
        good: share of the rated summaries that were rated good.
        usd: USD per session, of those with a price.
    """

    sessions: int
    requests: int
    utilisation: float | None
    band: float | None
    messages: float | None
    cuts: int
    good: float | None
    rated: int
    usd: float | None


def compute_metrics(listed: Iterable[IndexRow], ratings: tuple[int, int] = (0, 0)) -> Metrics:
    """Compute the averages over sessions.

    Args:
        listed: lines of the index.
        ratings: good ratings and all ratings that are known besides those of the sessions.
    """
    every = list(listed)
    requests, filled = sum(line.requests for line in every), sum(line.filled for line in every)
    good, rated = (sum(line.good for line in every) + ratings[0], sum(line.rated for line in every) + ratings[1])
    priced = [line.usd for line in every if line.usd is not None]
    return Metrics(
        sessions=len(every),
        requests=requests,
        utilisation=_divide(sum(line.fill * line.filled for line in every), filled),
        band=_divide(sum(line.band for line in every), filled),
        messages=_divide(sum(line.messages for line in every), requests),
        cuts=sum(line.cuts for line in every),
        good=_divide(good, rated),
        rated=rated,
        usd=_divide(sum(priced), len(priced)),
    )


def _divide(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def group_spending(rows: Iterable[Spending], key: Callable[[Spending], str]) -> list[tuple[str, int, float | None]]:
    """Sum requests and USD by day, model or project, the most expensive first; None = nothing of it has a price.

    Args:
        rows: spending.
        key: the day, model or project of a row.
    """
    requests, pico = dict[str, int](), dict[str, int]()
    for row in rows:
        name = key(row)
        requests[name] = requests.get(name, 0) + row.requests
        if row.pico is not None:
            pico[name] = pico.get(name, 0) + row.pico
    found = [(name, many, pico[name] / PICO_PER_USD if name in pico else None) for name, many in requests.items()]
    return sorted(found, key=lambda each: (-(each[2] or 0), -each[1]))


def sum_spending(rows: Iterable[Spending]) -> float | None:
    """USD of all rows; None where none has a price."""
    known = [row.pico for row in rows if row.pico is not None]
    return sum(known) / PICO_PER_USD if known else None


def group_by_week(days: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sum counts of days by week, named by its Monday, from the first week to the last without gaps.

    >>> group_by_week([("2026-01-07", 2), ("2026-01-21", 1)])
    [('2026-01-05', 2), ('2026-01-12', 0), ('2026-01-19', 1)]
    """
    found: dict[date, int] = {}
    for day, number in days:
        at = date.fromisoformat(day)
        monday = at - timedelta(days=at.weekday())
        found[monday] = found.get(monday, 0) + number
    if not found:
        return []
    first, last = min(found), max(found)
    every = (first + timedelta(weeks=n) for n in range((last - first).days // 7 + 1))
    return [(monday.isoformat(), found.get(monday, 0)) for monday in every]
