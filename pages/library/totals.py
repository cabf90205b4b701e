"""What the listed sessions cost, by day, project, tool, model and tag, and how full their windows were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.library import index_queries
from turnscope.library.index_queries import Spending

from pages.library import filters
from pages.library.rows import Key, Row
from pages.parts import cache, shell, theme, widgets
from pages.parts.components import define_component
from pages.parts.formats import escape, format_percent, format_usd, get_today

_HERE = Path(__file__).parent / "browser"
MOST = 8  # lines of the list; the others in one
BY, LIST = "library.by", "library.costs"
GROUPS: Mapping[str, tuple[str, Callable[[Spending], str]]] = {
    "project": ("Project", lambda row: row.project),
    "tool": ("Tool", lambda row: row.tool),
    "model": ("Model", lambda row: row.model),
    "day": ("Day", lambda row: row.day),
    "tag": ("Tag", lambda row: row.project),
}
PERIODS = (("Today", 1), ("7 days", 7), ("30 days", 30), ("All time", 0))
_costs = define_component(
    "turnscope_costs",
    html='<div class="list"></div>',
    css=theme.read_files(_HERE, "costs.css"),
    js=theme.REDRAW + theme.read_files(_HERE, "costs.js"),
)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Of some sessions: averages, what they cost, and how often something was taken out, by week."""

    metrics: index_queries.Metrics
    spent: tuple[Spending, ...]
    weeks: list[tuple[str, int]]


@st.cache_resource(max_entries=6, show_spinner=False)
def _read_totals(path: str, version: tuple[int, ...], _rows: Sequence[Row], keys: int) -> _Totals:  # noqa: ARG001  what the cache goes by
    store = cache.open_store()
    every = len(index_queries.list_sessions(store.index_path)) == len(_rows)
    of = None if every else [row.key for row in _rows]
    ratings = index_queries.count_ratings(store.path) if every else (0, 0)
    return _Totals(
        index_queries.compute_metrics((row.line for row in _rows if row.line), ratings),
        index_queries.list_spending(store.index_path, of),
        index_queries.group_by_week(index_queries.count_cuts(store.index_path, of)),
    )


def draw(rows: Sequence[Row]) -> None:
    """Cards, charts and a list; nothing where nothing is indexed. Samples are nobody's cost.

    Args:
        rows: the rows that the filters leave.
    """
    indexed = [row for row in rows if row.line and not row.sample]
    if not indexed:
        return
    index = cache.open_store().index_path
    try:
        version = index_queries.read_version(index)
        totals = _read_totals(str(index), version, indexed, hash(frozenset(row.key for row in indexed)))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    st.html(_render_cards(totals, indexed))
    st.page_link(
        shell.find_page("usage"), label="Usage by day, project and model; why caches were cold", icon=":material/table_chart:"
    )
    with st.container(key="library-costs"):
        left, right = st.columns([3, 2], gap="medium")
    with right:
        by = _draw_costs(totals.spent, indexed)
    with left:
        name = "model" if by in ("day", "tag") else by
        st.html(f'<h3 class="ts-small library-chart">Cost over time, by {name}</h3>')
        if index_queries.sum_spending(totals.spent) is None:
            st.html('<p class="ts-small ts-faint">No price is known for the models of these sessions.</p>')
        else:
            _draw_spending(totals.spent, name)
    if any(number for _, number in totals.weeks):
        with st.expander(f"Truncation events per week: {totals.metrics.cuts:,} in all", icon=":material/content_cut:"):
            _draw_chart("library.trend", figures.draw_trend(totals.weeks, theme.get_theme()), "Truncation events per week")


def _draw_spending(spent: Sequence[Spending], name: str) -> None:
    """The chart of cost by day, stacked by a group of `GROUPS`."""
    group = GROUPS[name][1]
    names = shorten_names(group(row) for row in spent)
    figure = figures.draw_spending(spent, theme.get_theme(), 230, lambda row: names[group(row)] or "not named")
    _draw_chart("library.spending", figure, f"Cost over time, stacked by {name}")


def shorten_names(names: Iterable[str]) -> dict[str, str]:
    """The last part of each path, as people call a project, and the one before it where two would be called the same.

    >>> shorten_names(["/home/mira/shop", "/work/a/cli", "/work/b/cli", "gpt-5"])
    {'/home/mira/shop': 'shop', '/work/a/cli': 'a/cli', '/work/b/cli': 'b/cli', 'gpt-5': 'gpt-5'}
    """
    found = {name: _take_end(name, 1) for name in dict.fromkeys(names)}
    many = Counter(found.values())
    return {name: _take_end(name, 2) if many[label] > 1 else label for name, label in found.items()}


def _take_end(name: str, parts: int) -> str:
    return "/".join(name.rstrip("/").split("/")[-parts:]) if name.startswith(("/", "~")) else name


def _draw_chart(key: str, figure: figures.Figure, alt: str) -> None:
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False}, alt=alt)


def _render_cards(totals: _Totals, rows: Sequence[Row]) -> str:
    today = datetime.combine(get_today(), time())  # its midnight by this machine's clock
    # A session whose log gives no times is of no day: none of its requests is.
    dated = [row.at for row in rows if row.at is not None and row.line and row.line.started is not None]
    cards = ""
    for name, days in PERIODS:
        begin = today - timedelta(days=days - 1)
        spent = [row for row in totals.spent if not days or row.day >= f"{begin:%Y-%m-%d}"]
        since = begin.timestamp()
        many = sum(at >= since for at in dated) if days else len(rows)
        requests = sum(row.requests for row in spent)
        cost = index_queries.sum_spending(spent) if spent else 0.0
        sessions = f"{many:,} {'session' if many == 1 else 'sessions'}"
        cards += (
            f'<div class="ts-card"><h3>{name}</h3><div class="value">{escape(format_usd(cost))}</div>'
            f"<p>{sessions} · {requests:,} {'request' if requests == 1 else 'requests'}</p></div>"
        )
    chips = f'<div class="ts-chips">{_render_metrics(totals.metrics, rows)}</div>'
    return (
        f'<h2 class="ts-section">Cost <small class="ts-small ts-faint">of {len(rows):,} indexed '
        f"{'session' if len(rows) == 1 else 'sessions'}, each request once</small></h2>"
        f'<div class="ts-cards library-periods">{cards}</div>{chips}'
    )


def _render_metrics(metrics: index_queries.Metrics, rows: Sequence[Row]) -> str:
    """What else is known of them all; what no session says is left out."""
    missed = sum(row.line.missed or 0 for row in rows if row.line) / index_queries.PICO_PER_USD
    misses = sum(row.line.misses for row in rows if row.line)
    inside = f"{format_percent(metrics.band)} of requests lie in 40–70 %" if metrics.band is not None else ""
    shown = (
        ("Window filled", metrics.utilisation is not None and format_percent(metrics.utilisation), inside),
        ("Messages per request", metrics.messages is not None and f"{metrics.messages:,.0f}", ""),
        ("Cost per session", metrics.usd is not None and format_usd(metrics.usd), ""),
        ("Cache misses", misses and f"{misses:,}", format_usd(missed) if missed else ""),
        ("Truncation events", f"{metrics.cuts:,}", ""),
        (
            "Condensed well",
            metrics.good is not None and format_percent(metrics.good),
            f"of {metrics.rated:,} rated summaries",
        ),
    )
    return "".join(
        f'<span class="ts-chip seg"><em>{escape(name)}</em> <b>{escape(value)}</b>'
        f"{f' <em>{escape(more)}</em>' if more else ''}</span>"
        for name, value, more in shown
        if value
    )


def _draw_costs(spent: Sequence[Spending], rows: Sequence[Row]) -> str:
    """What they cost by what is chosen, a line each that filters; gives what is chosen."""
    by = st.segmented_control(
        "Cost by",
        list(GROUPS),
        format_func=lambda name: GROUPS[name][0],
        default="project",
        required=True,
        key=BY,
        label_visibility="collapsed",
        persist_state="session",
    )
    by = by or "project"
    found = _group_by_tag(rows) if by == "tag" else index_queries.group_spending(spent, GROUPS[by][1])
    if not found:
        st.html('<div class="ts-empty">No session has a tag yet: point at a line of the list below and choose “+ tag”.</div>')
        return by
    top = max((cost or 0.0 for _, _, cost in found), default=0.0)
    names = shorten_names(name for name, _, _ in found)
    lines = [_build_cost(name, names[name], requests, cost, top=top, by=by) for name, requests, cost in found[:MOST]]
    if rest := found[MOST:]:
        priced = [cost for _, _, cost in rest if cost is not None]
        many = sum(requests for _, requests, _ in rest)
        lines.append(_build_cost("", f"{len(rest):,} more", many, sum(priced) if priced else None, top=0, by=""))
    _costs(key=LIST, data={"rows": lines}, default={"event": None}, on_event_change=lambda: _follow(by))
    return by


def _follow(by: str) -> None:
    name = str((widgets.read_report(LIST, "event") or {}).get("name") or "")
    if name:
        filters.change(**({"from": name, "to": name, "last": ""} if by == "day" else {by: name}))


def _build_cost(name: str, label: str, requests: int, cost: float | None, *, top: float, by: str) -> dict[str, object]:
    """A line: what it is, requests, cost, and its share of the highest. One without a name is no filter."""
    if by == "day" and name:
        day = datetime.fromisoformat(name)
        label = f"{day:%a} {day.day} {day:%b %Y}"
    share = round(100 * (cost or 0) / top, 1) if top else 0
    return {
        "name": name,
        "label": label or "not named",
        "full": name,
        "requests": f"{requests:,} req.",
        "cost": format_usd(cost),
        "share": share,
    }


def _group_by_tag(rows: Iterable[Row]) -> list[tuple[str, int, float | None]]:
    """Sessions of each tag: a session with two tags is in both, so that these do not add up to the whole."""
    of: dict[str, list[Key]] = {}
    for row in rows:
        for tag in row.tags:
            of.setdefault(tag, []).append(row.key)
    index = cache.open_store().index_path
    found = []
    for tag, keys in of.items():
        spent = index_queries.list_spending(index, keys)
        found.append((tag, sum(row.requests for row in spent), index_queries.sum_spending(spent)))
    return sorted(found, key=lambda each: (-(each[2] or 0), each[0]))
