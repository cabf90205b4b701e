"""All indexed sessions together: the list, the search, what they cost by day, model and project, how full windows were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from turnscope.storage.catalogue import ratings
from turnscope.storage.index import (
    MOST,
    PAGE,
    PICO,
    Hit,
    Line,
    Problem,
    Spent,
    cuts,
    drop,
    lines,
    problems,
    search,
    spent,
    version,
)

__all__ = [
    "MOST",
    "PAGE",
    "PICO",
    "Hit",
    "Line",
    "Metrics",
    "Problem",
    "Spent",
    "compute_metrics",
    "cuts",
    "drop",
    "group_by_week",
    "group_spending",
    "lines",
    "problems",
    "ratings",
    "search",
    "spent",
    "sum_spending",
    "version",
]


@dataclass(frozen=True, slots=True)
class Metrics:
    """What several sessions have in common. None where no session says it.

    `utilisation`: average share of the window that a request fills; `band`: share of those requests that fill 40 to 70 % of it;
    `messages` per request; `good`: share of the rated summaries that were rated good; `usd` a session, of those with a price.
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


def compute_metrics(listed: Iterable[Line], ratings: tuple[int, int] = (0, 0)) -> Metrics:
    """Of so many sessions; `ratings`: good ones, and all, that are known beside them."""
    every = list(listed)
    requests, filled = sum(line.requests for line in every), sum(line.filled for line in every)
    good, rated = (sum(line.good for line in every) + ratings[0], sum(line.rated for line in every) + ratings[1])
    priced = [line.usd for line in every if line.usd is not None]
    return Metrics(
        len(every),
        requests,
        _divide(sum(line.fill * line.filled for line in every), filled),
        _divide(sum(line.band for line in every), filled),
        _divide(sum(line.messages for line in every), requests),
        sum(line.cuts for line in every),
        _divide(good, rated),
        rated,
        _divide(sum(priced), len(priced)),
    )


def _divide(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def group_spending(rows: Iterable[Spent], key: Callable[[Spent], str]) -> list[tuple[str, int, float | None]]:
    """Requests and USD by day, model or project, the dearest first; None where nothing of it has a price."""
    requests, pico = dict[str, int](), dict[str, int]()
    for row in rows:
        name = key(row)
        requests[name] = requests.get(name, 0) + row.requests
        if row.pico is not None:
            pico[name] = pico.get(name, 0) + row.pico
    found = [(name, many, pico[name] / PICO if name in pico else None) for name, many in requests.items()]
    return sorted(found, key=lambda each: (-(each[2] or 0), -each[1]))


def sum_spending(rows: Iterable[Spent]) -> float | None:
    """USD of all of them; None where nothing has a price."""
    known = [row.pico for row in rows if row.pico is not None]
    return sum(known) / PICO if known else None


def group_by_week(days: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Numbers of days as numbers of weeks, by their Mondays, from the first to the last without a gap."""
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
