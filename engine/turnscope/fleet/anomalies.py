"""Anomalies of a fleet: a day's cost, a tool that fails more, a system prompt that changed what requests cost.

Each value is held against the median of earlier ones, in units of their spread: the median absolute deviation, times 1.4826,
which is the standard deviation where values are normal (Iglewicz and Hoaglin, "How to detect and handle outliers", 1993, whose
limit of 3.5 is taken). One earlier outlier moves neither. The spread is never taken to be less than a tenth of the median; of
days, less than one USD.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnscope.fleet.queries import Group
from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.views.phrases import format_usd

Kind = Literal["day", "tool", "prompt"]

LIMIT = 3.5
TO_SIGMA = 1.4826
LEAST_SPREAD = 0.1  # of the median
MIN_USD = 5.0  # between a day and the median; less is not worth the time to look
LEAST_USD = 1.0  # of the spread of days
WEEKS = 8  # before, of the same weekday
MIN_WEEKS = 4  # of them with cost
MIN_CALLS, LEAST_RATE_SPREAD = 50, 0.01  # of a tool in a week; of its share of errors
PROMPT_DAYS, MIN_PROMPT_DAYS = 28, 5  # before and after a change; of them with requests
MIN_PROMPT_SHARE = 0.5  # of the requests of a day that a prompt has to have to be the one in use
_ROWS = "($since, $until, $team, $project, $person, $tool, $model)"
_DAYS = f"""
FROM chosen_sums{_ROWS} SELECT day, name_of($by, day, team, project, person, tool, model) AS name, sum(usd)::DOUBLE AS usd
WHERE day IS NOT NULL GROUP BY ALL ORDER BY name, day
"""
_CALLS = f"""
FROM chosen_called{_ROWS} SELECT date_trunc('week', day)::DATE AS week, name, sum(calls)::BIGINT AS calls,
    sum(errors)::BIGINT AS errors
WHERE day IS NOT NULL GROUP BY ALL ORDER BY name, week
"""
_DIGESTS = f"""
FROM chosen_prompts{_ROWS} SELECT tool, day, digest, sum(requests)::BIGINT AS requests, sum(priced)::BIGINT AS priced,
    sum(usd)::DOUBLE AS usd, sum(static)::DOUBLE / nullif(sum(sized), 0) AS static
WHERE day IS NOT NULL GROUP BY ALL ORDER BY tool, day, requests DESC, digest
"""
Days = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A value that stands out against earlier ones.

    Attributes:
        group, name: whose it is, such as `team` and "search"; of a day of everything "".
        since, until: the days that it is of.
        value, usual: it, and the median of those before.
        off: how many spreads it is off; below 0 = less than usual.
        text: what is compared, and how far off it is, as a sentence.
    """

    kind: Kind
    group: str
    name: str
    since: date
    until: date
    value: float
    usual: float
    off: float
    text: str


def find_anomalies(warehouse: Warehouse, chosen: Selection, by: Group, most: int = 20) -> tuple[Anomaly, ...]:
    """Find what stands out against earlier values: days by the USD between, tools, and prompts, each by how far off they are.

    Args:
        warehouse: the tables.
        chosen: what is looked at; days before it are not compared with.
        by: whose days are compared: those of each team, for example; of `day`, those of everything.
        most: how many of each kind.
    """
    kinds = (_find_days(warehouse, chosen, by), _find_tools(warehouse, chosen), _find_prompts(warehouse, chosen))
    return tuple(one for found in kinds for one in sorted(found, key=_rank)[:most])


def _rank(one: Anomaly) -> tuple[float, date, str]:
    """Days by the USD between, which say what is worth the time to look; others by how far off they are."""
    return -abs(one.value - one.usual if one.kind == "day" else one.off), one.since, one.name


def measure_off(value: float, before: Sequence[float], least: float) -> tuple[float, float]:
    """How far a value is off those before: their median, and the spreads between.

    Args:
        value: the value.
        before: earlier ones, at least one.
        least: the least spread.

    >>> measure_off(30.0, [9.0, 10.0, 11.0, 10.0, 500.0], 1.0)  # doctest: +ELLIPSIS
    (10.0, 13.489...)
    """
    usual = median(before)
    spread = max(TO_SIGMA * median(abs(each - usual) for each in before), LEAST_SPREAD * usual, least)
    return usual, (value - usual) / spread


def _find_days(warehouse: Warehouse, chosen: Selection, by: Group) -> Iterator[Anomaly]:
    """Days against the same weekday of the weeks before. A day without cost counts as one, once its owner had any."""
    table = warehouse.ask_arrow(_DAYS, chosen, by="" if by == "day" else by)
    if not table.num_rows:
        return
    at = table["day"].to_numpy().astype("datetime64[D]").astype(np.int64)
    names = table["name"].to_pylist()
    first, span = at.min(), at.max() - at.min() + 1
    rows = {name: number for number, name in enumerate(dict.fromkeys(names))}
    usd = np.zeros((len(rows), span))
    owner = np.array([rows[name] for name in names])
    usd[owner, at - first] = np.nan_to_num(table["usd"].to_numpy())
    began = np.full(len(rows), span)
    np.minimum.at(began, owner, at - first)
    usual, off = _compare_weekdays(usd, began)
    listed, group = [*rows], "" if by == "day" else by
    for row, column in np.argwhere(np.abs(np.nan_to_num(off)) >= LIMIT):
        value, middle = float(usd[row, column]), float(usual[row, column])
        if abs(value - middle) >= MIN_USD:
            day = date(1970, 1, 1) + timedelta(days=int(first + column))
            weeks = min(WEEKS, int(column - began[row]) // 7)  # since its owner had any
            text = f"{format_usd(value)}; the {weeks} {day:%A}s before have a median of {format_usd(middle)}."
            yield Anomaly("day", group, listed[row] or "", day, day, value, middle, float(off[row, column]), text)


def _compare_weekdays(usd: Days, began: NDArray[np.int64]) -> tuple[Days, Days]:
    """Of each day the median of the same weekday before, and how many spreads the day is off; NaN where too little is known."""
    count, span = usd.shape
    before = np.full((WEEKS, count, span), np.nan)
    known = np.where(np.arange(span) >= began[:, None], usd, np.nan)
    for week in range(1, WEEKS + 1):
        before[week - 1, :, 7 * week :] = known[:, : max(0, span - 7 * week)]
    enough = ((before > 0).sum(axis=0) >= MIN_WEEKS) & (np.arange(span) >= began[:, None])
    usual, off = np.full((count, span), np.nan), np.full((count, span), np.nan)
    if enough.any():
        chosen = before[:, enough]
        middle = np.nanmedian(chosen, axis=0)
        spread = np.maximum(TO_SIGMA * np.nanmedian(np.abs(chosen - middle), axis=0), LEAST_SPREAD * middle)
        usual[enough], off[enough] = middle, (usd[enough] - middle) / np.maximum(spread, LEAST_USD)
    return usual, off


def _find_tools(warehouse: Warehouse, chosen: Selection) -> Iterator[Anomaly]:
    """Weeks of a tool in which more, or fewer, of its calls failed than in the weeks before."""
    weeks: dict[str, list[dict[str, Any]]] = {}
    for row in warehouse.ask(_CALLS, chosen):
        if row["calls"] >= MIN_CALLS:
            weeks.setdefault(row["name"], []).append(row)
    for name, rows in weeks.items():
        rates = [row["errors"] / row["calls"] for row in rows]
        for number in range(MIN_WEEKS, len(rows)):
            before = rates[max(0, number - WEEKS) : number]
            usual, off = measure_off(rates[number], before, LEAST_RATE_SPREAD)
            if abs(off) >= LIMIT:
                row = rows[number]
                text = f"{row['errors']:,} of {row['calls']:,} calls failed, {rates[number]:.1%}; "
                text += f"the {len(before)} weeks before have a median of {usual:.1%}."
                end = row["week"] + timedelta(days=6)
                yield Anomaly("tool", "called", name, row["week"], end, rates[number], usual, off, text)


def _find_prompts(warehouse: Warehouse, chosen: Selection) -> Iterator[Anomaly]:
    """Changes of the system prompt and tools that a tool sends, after which a request costs something else."""
    tools: dict[str, dict[date, dict[str, Any]]] = {}
    totals: dict[tuple[str, date], int] = {}
    for row in warehouse.ask(_DIGESTS, chosen):
        totals[row["tool"], row["day"]] = totals.get((row["tool"], row["day"]), 0) + row["requests"]
        tools.setdefault(row["tool"], {}).setdefault(row["day"], row)  # the first of a day has the most requests
    for tool, days in tools.items():
        used = [row for day, row in days.items() if row["priced"] and row["requests"] >= MIN_PROMPT_SHARE * totals[tool, day]]
        for number in range(MIN_PROMPT_DAYS, len(used)):
            if used[number]["digest"] != used[number - 1]["digest"]:
                yield from _compare_prompts(tool, used, number)


def _compare_prompts(tool: str, days: Sequence[dict[str, Any]], number: int) -> Iterator[Anomaly]:
    """The days with a prompt against those with the one before, up to `PROMPT_DAYS` of each."""
    new, old, day = days[number]["digest"], days[number - 1]["digest"], days[number]["day"]
    begin, end = day - timedelta(days=PROMPT_DAYS), day + timedelta(days=PROMPT_DAYS)
    before = [row for row in days[:number] if row["digest"] == old and row["day"] >= begin]
    after = [row for row in days[number:] if row["digest"] == new and row["day"] < end]
    if min(len(before), len(after)) < MIN_PROMPT_DAYS:
        return
    value = median(row["usd"] / row["priced"] for row in after)
    usual, off = measure_off(value, [row["usd"] / row["priced"] for row in before], 1e-6)
    sizes = [median(row["static"] or 0.0 for row in rows) for rows in (before, after)]
    text = f"{tool or 'A tool'} sends another system prompt or other tools since {day.isoformat()}: a request costs "
    text += f"{_format_small(value)} instead of {_format_small(usual)} in the median of {len(after)} and {len(before)} days; "
    text += f"system prompt and tools are {sizes[1]:,.0f} tokens instead of {sizes[0]:,.0f}."
    yield Anomaly("prompt", "tool", tool, day, after[-1]["day"], value, usual, off, text)


def _format_small(usd: float) -> str:
    return f"${usd:.4f}" if usd < 1 else format_usd(usd)
