"""The report of a week: what was spent by whom, why caches were missed, and what other policies would have cost.

It is written as Markdown; HTML is made of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

from turnscope.errors import TurnscopeError
from turnscope.fleet.queries import (
    FILLS,
    Cost,
    Distributions,
    Group,
    PolicyCost,
    list_costs,
    list_policies,
    measure_distributions,
    sum_costs,
)
from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.views.cache_misses import CAUSES
from turnscope.views.phrases import format_usd

MOST = 10  # rows of a table
PARTS: dict[Group, str] = {
    "team": "Teams",
    "project": "Projects",
    "person": "People",
    "tool": "Tools",
    "model": "Models",
    "day": "Days",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~&])")
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:left}"
    "td:nth-child(n+2){font-variant-numeric:tabular-nums}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}td,th{border-color:#444}}"
)


def parse_week(text: str) -> date:
    """The Monday of a week as `2026-W48`. TurnscopeError: it is none."""
    found = re.fullmatch(r"(\d{4})-W(\d{1,2})", text.strip())
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1) if found else date.fromisoformat("")
    except ValueError as error:
        raise TurnscopeError(f"{text!r} is no week", hint="Write it as 2026-W48.") from error


def write_report(warehouse: Warehouse, monday: date) -> str:
    """Write the report of a week as Markdown.

    Args:
        warehouse: the tables.
        monday: its first day.
    """
    week = timedelta(days=7)
    chosen = Selection(since=monday, until=monday + week - timedelta(days=1))
    earlier = Selection(since=monday - week, until=monday - timedelta(days=1))
    year, number, _ = monday.isocalendar()
    lines = [f"# Week {year}-W{number:02}", "", f"{chosen.since} to {chosen.until}, days in UTC.", ""]
    lines += _describe_sum(sum_costs(warehouse, chosen), sum_costs(warehouse, earlier))
    for by, title in PARTS.items():
        costs = list_costs(warehouse, chosen, by)
        lines += _list_costs(title, costs if by != "day" else costs[::-1])
    lines += _describe_windows(measure_distributions(warehouse, chosen))
    lines += _list_policies(list_policies(warehouse, chosen))
    return "\n".join(lines) + "\n"


def _describe_sum(now: Cost, before: Cost) -> Iterator[str]:
    if not now.requests:
        yield "No requests."
        return
    yield f"{_format_usd(now)} for {now.requests:,} requests of {now.sessions:,} sessions."
    if before.usd and now.usd is not None:
        yield f"The week before: {_format_usd(before)} ({float(now.usd / before.usd) - 1:+.0%})."
    if now.unpriced:
        yield f"{now.unpriced:,} requests are of models without a known price."
    if now.miss_usd:
        yield f"Cache misses cost {format_usd(float(now.miss_usd))} beyond reading."
    yield ""


def _list_costs(title: str, costs: Sequence[Cost]) -> Iterator[str]:
    rows = ((cost.name or "not known", _format_usd(cost), f"{cost.requests:,}", f"{cost.sessions:,}") for cost in costs[:MOST])
    yield from _format_table(title, ("", "USD", "requests", "sessions"), rows)
    if len(costs) > MOST:
        yield from (f"{len(costs) - MOST:,} more.", "")


def _describe_windows(found: Distributions) -> Iterator[str]:
    causes = (
        (CAUSES.get(each.cause, (each.cause,))[0], f"{each.misses:,}", "" if each.usd is None else format_usd(float(each.usd)))
        for each in found.causes
    )
    yield from _format_table("Cache misses", ("cause", "misses", "beyond reading"), causes)
    whole = max(1, sum(found.requests))
    fills = ((name, f"{many / whole:.0%}") for name, many in zip(FILLS, found.requests, strict=True) if many)
    yield from _format_table("How full windows were", ("of the window", "requests"), fills)
    yield f"{sum(sessions for times, sessions in found.compactions if times):,} sessions were compacted."
    yield ""


def _list_policies(policies: Sequence[PolicyCost]) -> Iterator[str]:
    rows = (
        (each.row.policy, f"{each.row.cost:.2f}", f"{each.row.low:.2f} to {each.row.high:.2f}", f"{each.row.lost:.1%}")
        for each in policies
    )
    yield from _format_table("Policies", ("", "cost / record", "95 % of draws", "lost references"), rows)


def _format_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A section with a table; nothing where it has no row."""
    listed = [f"| {' | '.join(map(_escape, row))} |" for row in rows]
    if listed:
        rule = f"| --- |{' ---: |' * (len(head) - 1)}"
        yield from (f"## {title}", "", f"| {' | '.join(head)} |", rule, *listed, "")


def _escape(text: str) -> str:
    """A name as Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _format_usd(cost: Cost) -> str:
    return "no known price" if cost.usd is None else format_usd(float(cost.usd))


def to_html(markdown: str) -> str:
    """A report as a page of its own. Names are text in it, whatever they hold."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    title = markdown.partition("\n")[0].removeprefix("# ")
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"{meta}<title>{title}</title><style>{_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}</body></html>\n'
