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

from pages.parts import cache, header, registry, shell, theme, url, widgets
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
CHOICES: Mapping[str, Sequence[str]] = {"show": (*SHOWS,), "days": (*SPANS,), "by": (*BY,)}
ADDRESS = "usage.address"  # in the session state: what the address said last


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
    _read_address()
    with st.container(horizontal=True, key="usage-choices", vertical_alignment="center"):
        show = _choose("Show", SHOWS, "show")
        since = _find_first_day(_choose("Time", SPANS, "days"))
    if show == "cache":
        _draw_cache(rows, since)
    else:
        _draw_usage(rows, since)
    _write_address()
    st.html(f'<p class="ts-small ts-faint">Of {rows.sessions:,} indexed sessions, each request once, at list prices.</p>')
    _link_library("The library indexes what is new")


def _link_library(label: str) -> None:
    st.page_link(shell.find_page("library"), label=label, icon=":material/folder_open:")


def _choose(label: str, options: Mapping[C, str], name: str) -> C:
    """One of several, as buttons."""
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=options.__getitem__,
        key=_get_key(name),
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    return chosen or next(iter(options))


def _get_key(name: str) -> str:
    return f"usage.{name}"


def _read_address() -> None:
    """Take over what the address asks for, where it was not made by this page: a link, Back.

    After a switch of pages the page is as it was.
    """
    wanted = {name: value for name in CHOICES if (value := st.query_params.get(name)) in CHOICES[name]}
    known = st.session_state.get(ADDRESS)
    switched = st.session_state.get(url.BEFORE) != "usage"
    if known is None or (wanted != known and (wanted or not switched)):
        st.session_state[ADDRESS] = wanted
        for name, options in CHOICES.items():
            st.session_state[_get_key(name)] = wanted.get(name, options[0])


def _write_address() -> None:
    """Have the address say what is chosen, but for defaults. Each choice is one entry of the browser's history."""
    chosen = {name: st.session_state.get(_get_key(name)) for name in CHOICES}
    wanted = {name: value for name, value in chosen.items() if value and value != CHOICES[name][0]}
    st.session_state[ADDRESS] = wanted
    others = {name: value for name, value in st.query_params.to_dict().items() if name not in CHOICES}
    if st.query_params.to_dict() != others | wanted:
        st.query_params.from_dict(others | wanted)


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
    if warm:
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
