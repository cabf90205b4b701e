"""What is asked of the tables of a fleet: costs by owner and day, distributions, policies. Every number has one definition.

A cost is the sum of `usd` over counted requests, as `turnscope usage` and the Library have it. Sessions are those that began on
the chosen days; a session of several models belongs to each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from itertools import accumulate
from math import nan
from typing import Any, Literal, get_args

import numpy as np

from turnscope.fleet.warehouse import Owner, Selection, Warehouse
from turnscope.library.index_queries import Spending
from turnscope.library.policy_table import KINDS, Pairs, PolicyRow, draw_interval
from turnscope.views.text_tables import format_csv
from turnscope.views.usage import PICO_PER_USD

Group = Literal["team", "project", "person", "tool", "model", "day"]

OWNERS: tuple[Owner, ...] = get_args(Owner)
FILLS = (
    "0–10 %",
    "10–20 %",
    "20–30 %",
    "30–40 %",
    "40–50 %",
    "50–60 %",
    "60–70 %",
    "70–80 %",
    "80–90 %",
    "90–100 %",
    "over 100 %",
)
_ROWS = "($since, $until, $team, $project, $person, $tool, $model)"
_COSTS = f"""
FROM chosen_sums{_ROWS}
SELECT name_of($by, day, team, project, person, tool, model) AS name, sum(requests)::BIGINT AS requests, sum(usd) AS usd,
    sum(unpriced)::BIGINT AS unpriced, sum(uncached)::BIGINT AS uncached, sum(cache_write_5m)::BIGINT AS cache_write_5m,
    sum(cache_write_1h)::BIGINT AS cache_write_1h, sum(cache_read)::BIGINT AS cache_read, sum(output)::BIGINT AS output,
    sum(misses)::BIGINT AS misses, sum(miss_usd) AS miss_usd, sum(cuts)::BIGINT AS cuts
GROUP BY ALL
"""
_SESSIONS = f"""
FROM (FROM chosen_opened{_ROWS} SELECT * EXCLUDE (model),
    unnest(CASE WHEN $by = 'model' THEN coalesce(nullif(model, []), ['']) ELSE [''] END) AS model)
SELECT name_of($by, day, team, project, person, tool, model) AS name, count(*) AS sessions GROUP BY ALL
"""
_SPAN = f"FROM chosen_sums{_ROWS} SELECT min(day) AS first, max(day) AS last"
_NAMES = f"""
FROM chosen_sums{_ROWS} SELECT name_of($by, day, team, project, person, tool, model) AS name, sum(usd) AS usd
GROUP BY ALL ORDER BY usd DESC NULLS LAST, name
"""
_KNOWN = f"FROM chosen_sums{_ROWS} SELECT " + ", ".join(f"count(DISTINCT nullif({name}, '')) AS {name}" for name in OWNERS)
_DAYS = f"""
FROM chosen_sums{_ROWS}
SELECT coalesce(day::VARCHAR, '') AS day, name_of($by, day, team, project, person, tool, model) AS name,
    sum(requests)::BIGINT AS requests, sum(usd) AS usd
GROUP BY ALL ORDER BY ALL
"""
_FILLS = f"""
FROM chosen_sums{_ROWS}
SELECT sum(fill_0), sum(fill_1), sum(fill_2), sum(fill_3), sum(fill_4), sum(fill_5), sum(fill_6), sum(fill_7), sum(fill_8),
    sum(fill_9), sum(fill_10)
"""
_PEAKS = f"""
FROM chosen_opened{_ROWS} SELECT CASE WHEN peak_fill > 1 THEN 10 ELSE least(9, floor(peak_fill * 10)) END::INT AS bin,
    count(*) AS many
WHERE peak_fill IS NOT NULL GROUP BY ALL
"""
_COMPACTIONS = f"""
FROM chosen_opened{_ROWS} SELECT compactions AS times, count(*) AS sessions GROUP BY ALL ORDER BY ALL
"""
_CAUSES = f"""
FROM chosen_missed{_ROWS} SELECT cause, sum(misses)::BIGINT AS misses, sum(tokens)::BIGINT AS tokens, sum(usd) AS usd
GROUP BY ALL ORDER BY usd DESC NULLS LAST, misses DESC, cause
"""
_POLICIES = f"""
FROM (FROM chosen_replayed{_ROWS} SELECT *, median(requests) OVER (PARTITION BY policy) AS middle)
SELECT policy, count(*) AS sessions, sum(usd) AS usd, sum(record_usd) AS record_usd,
    sum(usd) / sum(record_usd) AS cost, sum(uncached) / sum(record_uncached) AS uncached, sum(hits)::BIGINT AS hits,
    sum(hits) / greatest(1, sum(uses)) AS lost, median(peak) AS peak, sum(unsent) / sum(requests) AS unsent,
    100 * sum(calls) / sum(requests) AS calls,
    (sum(usd) FILTER (requests > middle) / sum(record_usd) FILTER (requests > middle))
        / (sum(usd) FILTER (requests <= middle) / sum(record_usd) FILTER (requests <= middle)) AS growth
GROUP BY policy ORDER BY cost
"""
_KINDS = f"""
FROM (FROM chosen_replayed{_ROWS} SELECT policy, usd, record_usd, unnest(string_split(kinds, ',')) AS kind)
SELECT policy, trim(kind) AS kind, sum(usd) / sum(record_usd) AS cost GROUP BY ALL
"""
_PAIRS = f"FROM chosen_replayed{_ROWS} SELECT usd, record_usd"  # they lie by policy and session: see `warehouse`


@dataclass(frozen=True, slots=True)
class Cost:
    """What some requests cost.

    Attributes:
        name: what they have in common: a day as ISO 8601, or an owner; "" = not known.
        usd: None = none of their models has a known price.
        unpriced: requests with usage whose model has no known price.
        misses, miss_usd: cache misses, and what they cost beyond reading.
        cuts: requests before which something left the window.
        sessions: that began on the chosen days.
    """

    name: str
    requests: int = 0
    sessions: int = 0
    usd: Decimal | None = None
    unpriced: int = 0
    uncached: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    output: int = 0
    misses: int = 0
    miss_usd: Decimal | None = None
    cuts: int = 0


COLUMNS = tuple(each.name for each in fields(Cost))


@dataclass(frozen=True, slots=True)
class Cause:
    """Cache misses of one cause. `tokens` were billed again for `usd` beyond reading them; None = no price is known."""

    cause: str
    misses: int
    tokens: int
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Distributions:
    """How full windows were, how often sessions were compacted, and why the cache was missed.

    Attributes:
        requests: requests of main paths by the filled tenth of the window; see `FILLS`.
        peaks: sessions by that of their fullest request.
        compactions: sessions by how often they were compacted.
        causes: cache misses by cause, the most expensive first.
    """

    requests: tuple[int, ...]
    peaks: tuple[int, ...]
    compactions: tuple[tuple[int, int], ...]
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """What a policy would have cost and lost. `usd`, `record_usd`: sums over the replayed sessions; `hits`: lost references."""

    row: PolicyRow
    usd: float
    record_usd: float
    hits: int


def find_days(warehouse: Warehouse) -> tuple[date, date] | None:
    """Find the first and the last day; None = no request has one."""
    [row] = warehouse.ask(_SPAN)
    return (row["first"], row["last"]) if row["first"] else None


def list_names(warehouse: Warehouse, by: Group) -> tuple[str, ...]:
    """List the names of a group, the most expensive first; "" = not known.

    Args:
        warehouse: the tables.
        by: the group.
    """
    return tuple(row["name"] or "" for row in warehouse.ask(_NAMES, by=by))


def find_group(warehouse: Warehouse) -> Owner:
    """Find the first owner that sets requests apart: one of whom at least two are known; else one of whom any is.

    Args:
        warehouse: the tables.
    """
    [known] = warehouse.ask(_KNOWN)
    return next((by for least in (2, 1) for by in OWNERS if known[by] >= least), OWNERS[0])


def list_costs(warehouse: Warehouse, chosen: Selection, by: Group) -> tuple[Cost, ...]:
    """List costs by owner, the most expensive first, or by day, the newest first.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
        by: what a row is.
    """
    sessions = {row["name"] or "": row["sessions"] for row in warehouse.ask(_SESSIONS, chosen, by=by)}
    rows = [_make_cost(row, sessions) for row in warehouse.ask(_COSTS, chosen, by=by)]
    if by == "day":
        return tuple(sorted(rows, key=lambda row: row.name, reverse=True))
    return tuple(sorted(rows, key=lambda row: (-(row.usd or 0), -row.requests, row.name)))


def sum_costs(warehouse: Warehouse, chosen: Selection) -> Cost:
    """Sum up what is chosen.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    sessions = {"": sum(row["sessions"] for row in warehouse.ask(_SESSIONS, chosen, by=""))}
    rows = warehouse.ask(_COSTS, chosen, by="")
    return _make_cost(rows[0], sessions) if rows else Cost("", sessions=sessions[""])


def _make_cost(row: dict[str, Any], sessions: dict[str, int]) -> Cost:
    name = row["name"] or ""
    return Cost(**row | {"name": name}, sessions=sessions.get(name, 0))


def costs_to_csv(rows: Iterable[Cost]) -> str:
    """Write costs as CSV; a cost that is not known is an empty cell."""
    return format_csv(COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in rows))


def list_spending(warehouse: Warehouse, chosen: Selection, by: Group) -> tuple[Spending, ...]:
    """List costs by day and owner, as charts take them: `project` holds the name, whatever it is a name of.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
        by: the owner.
    """
    return tuple(
        Spending(row["day"], "", row["name"] or "", "", row["requests"], _to_pico(row["usd"]))
        for row in warehouse.ask(_DAYS, chosen, by=by)
    )


def _to_pico(usd: Decimal | None) -> int | None:
    return None if usd is None else int(usd * PICO_PER_USD)


def measure_distributions(warehouse: Warehouse, chosen: Selection) -> Distributions:
    """Measure how full windows were, how often sessions were compacted, and why the cache was missed.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    [fills] = warehouse.ask(_FILLS, chosen)
    peaks = {row["bin"]: row["many"] for row in warehouse.ask(_PEAKS, chosen)}
    return Distributions(
        requests=tuple(int(many or 0) for many in fills.values()),
        peaks=tuple(peaks.get(each, 0) for each in range(len(FILLS))),
        compactions=tuple((row["times"], row["sessions"]) for row in warehouse.ask(_COMPACTIONS, chosen)),
        causes=tuple(Cause(**row) for row in warehouse.ask(_CAUSES, chosen)),
    )


def list_policies(warehouse: Warehouse, chosen: Selection) -> tuple[PolicyCost, ...]:
    """List what each policy would have cost and lost over all replayed sessions, the cheapest first.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    rows = warehouse.ask(_POLICIES, chosen)
    if not rows:
        return ()
    kinds = {(row["policy"], row["kind"]): row["cost"] for row in warehouse.ask(_KINDS, chosen)}
    pairs = warehouse.ask_arrow(_PAIRS, chosen)
    usd = np.column_stack([pairs["usd"].to_numpy(), pairs["record_usd"].to_numpy()])
    by_name = sorted(rows, key=lambda row: row["policy"].encode())
    ends = accumulate(row["sessions"] for row in by_name)
    parts = {row["policy"]: usd[end - row["sessions"] : end] for row, end in zip(by_name, ends, strict=True)}
    return tuple(_make_policy(row, kinds, parts[row["policy"]]) for row in rows)


def _make_policy(row: dict[str, Any], kinds: dict[tuple[str, str], float], usd: Pairs) -> PolicyCost:
    low, high = draw_interval(usd)
    known = PolicyRow(
        policy=row["policy"],
        sessions=row["sessions"],
        cost=row["cost"],
        low=low,
        high=high,
        uncached=row["uncached"],
        lost=row["lost"],
        peak=row["peak"],
        unsent=row["unsent"],
        calls=row["calls"],
        growth=nan if row["growth"] is None else row["growth"],
        by_kind=tuple(kinds.get((row["policy"], kind), nan) for kind in KINDS),
    )
    return PolicyCost(known, row["usd"], row["record_usd"], row["hits"])
