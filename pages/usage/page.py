"""What all indexed sessions were billed, and why their prompt caches were cold: as `turnscope usage` and `cache` say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.library import index_queries
from turnscope.views.cache_misses import CAUSES, CacheMisses, MissRow, WarmRow, select
from turnscope.views.usage import Period, UsageRow, select_days, sum_usage

from pages.parts import cache, header, registry, shell, theme, widgets
from pages.usage import markup

SHEET = Path(__file__).parent / "browser" / "usage.css"
SHOWS = {"usage": "Usage", "cache": "Cache misses"}
BY: Mapping[Period, str] = {
    "daily": "Day",
    "weekly": "Week",
    "monthly": "Month",
    "projects": "Project",
    "tools": "Tool",
    "models": "Model",
    "sessions": "Session",
}
C = TypeVar("C", bound=str)
SPANS = {"": "All time", "30": "30 days", "7": "7 days", "1": "Today"}


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the index holds of the user's sessions; samples are nobody's cost."""

    usage: tuple[UsageRow, ...]
    misses: tuple[MissRow, ...]
    sources: frozenset[str]
    sessions: int


@st.cache_resource(max_entries=2, show_spinner=False)
def _read_rows(path: str, version: tuple[int, ...]) -> _Rows:  # noqa: ARG001  what the cache goes by
    index = cache.open_store().index_path
    listed = [row for row in index_queries.list_sessions(index) if not Path(row.path).is_relative_to(registry.SAMPLES)]
    sources = frozenset(row.path for row in listed)
    return _Rows(
        index_queries.list_usage(index, sources),
        index_queries.list_misses(index, sources),
        sources,
        len(listed),
    )


def draw() -> None:
    """Draw the page."""
    header.draw_optional_header(middle=False, title='<div class="ts-title"><h1>Usage</h1></div>')
    theme.add_sheet(SHEET)
    index = cache.open_store().index_path
    try:
        rows = _read_rows(str(index), index_queries.read_version(index))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if not rows.usage:
        st.html(
            '<div class="ts-empty">No session is indexed yet. The Library reads those that tools keep on this machine.</div>'
        )
        _link_library("Open the library")
        return
    with st.container(horizontal=True, key="usage-choices", vertical_alignment="center"):
        show = _choose("Show", SHOWS, "show")
        since = _find_first_day(_choose("Time", SPANS, "days"))
    if show == "cache":
        _draw_cache(rows, since)
    else:
        _draw_usage(rows, since)
    st.html(f'<p class="ts-small ts-faint">Of {rows.sessions:,} indexed sessions, each request once, at list prices.</p>')
    _link_library("The library indexes what is new")


def _link_library(label: str) -> None:
    st.page_link(shell.find_page("library"), label=label, icon=":material/folder_open:")


def _choose(label: str, options: Mapping[C, str], name: str) -> C:
    """One of several, as buttons. The address says which, but for the first."""
    key, first = f"usage.{name}", next(iter(options))
    if key not in st.session_state:
        wanted = st.query_params.get(name)
        st.session_state[key] = next((option for option in options if option == wanted), first)
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=options.__getitem__,
        key=key,
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    value = chosen or first
    if value == first:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = value
    return value


def _find_first_day(days: str) -> date | None:
    return datetime.now().astimezone().date() - timedelta(days=int(days) - 1) if days else None


def _draw_usage(rows: _Rows, since: date | None) -> None:
    period = _choose("By", BY, "by")
    found = sum_usage(rows.usage, period, since=since, now=time.time())
    st.html(markup.render_usage_cards(found.total))
    if not found.lines:
        st.html('<div class="ts-empty">No request of this time is known.</div>')
        return
    chosen = select_days(rows.usage, since=since)
    stack = {"projects": "project", "tools": "tool"}.get(period, "model")
    st.html(f'<h2 class="ts-section">Cost over time <small class="ts-small ts-faint">by {stack}</small></h2>')
    _draw_chart(
        figures.draw_spending(index_queries.spread_usage(chosen), theme.get_theme(), 230, lambda row: getattr(row, stack)),
        f"Cost over time, by {stack}",
        "usage.chart",
    )
    st.html(markup.render_usage(found))
    _draw_download(found.to_csv(), f"usage-{period}.csv", "usage.csv")


def _draw_cache(rows: _Rows, since: date | None) -> None:
    now = time.time()
    begin = None if since is None else datetime(since.year, since.month, since.day).astimezone().timestamp()
    misses = select(rows.misses, lambda _row: True, begin)
    warm = index_queries.list_warm(cache.open_store().index_path, rows.sources, now)
    spent = sum_usage(rows.usage, "models", since=since).total.usd or 0.0
    found = CacheMisses("causes", misses, warm, spent, None, now)
    st.html(markup.render_cache_cards(found))
    if misses:
        st.html('<h2 class="ts-section">Cost of cache misses over time <small class="ts-small ts-faint">by cause</small></h2>')
        spread = index_queries.spread_misses(misses, lambda row: CAUSES[row.cause if row.cause in CAUSES else "unknown"][0])
        if index_queries.sum_spending(spread):
            _draw_chart(
                figures.draw_spending(spread, theme.get_theme(), 230),
                "Cost of cache misses over time, by cause",
                "usage.misses",
            )
        st.html(markup.render_causes(found))
        st.html(markup.render_misses(misses, _link_misses(misses)))
        _draw_download(
            CacheMisses("misses", misses, warm, spent, None, now).to_csv(),
            "cache-misses.csv",
            "usage.misses.csv",
        )
    else:
        st.html('<div class="ts-empty">No cache miss of this time is known.</div>')
    st.html(markup.render_warm(warm, now, _link_sessions(warm)))


def _link_misses(misses: Sequence[MissRow]) -> dict[MissRow, str]:
    """The address of each of the most expensive misses: the request in its session."""
    found = {}
    for row in markup.select_most_expensive(misses):
        if entry := cache.find_entry_at(row.path):
            part = f"&part={row.part}" if row.part else ""
            found[row] = f"/start?session={(entry.select(row.entry) if row.entry else entry).id}{part}&request={row.request}"
    return found


def _link_sessions(warm: Sequence[WarmRow]) -> dict[str, str]:
    return {row.path: f"/start?session={entry.id}" for row in warm if (entry := cache.find_entry_at(row.path))}


def _draw_chart(figure: figures.Figure, alt: str, key: str) -> None:
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False}, alt=alt)


def _draw_download(text: str, name: str, key: str) -> None:
    st.download_button("CSV", text, name, "text/csv", icon=":material/download:", type="tertiary", on_click="ignore", key=key)
