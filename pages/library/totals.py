"""What all indexed sessions cost, by day, model and project, and how full their windows were."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import TurnscopeError, figures
from turnscope.library import index_queries

from pages.parts import cache, cards, theme, widgets
from pages.parts.formats import escape, format_percent, format_usd

MOST = 8  # models or projects listed; the others in one line


@st.cache_resource(max_entries=2, show_spinner=False)
def _read_totals(
    path: str, version: tuple[int, ...]
) -> tuple[index_queries.Metrics, tuple[index_queries.Spending, ...], list[tuple[str, int]]]:
    store = cache.open_store()
    lines, ratings = cache.list_index_rows(path, version), index_queries.count_ratings(store.path)
    return (
        index_queries.compute_metrics(lines, ratings),
        index_queries.list_spending(store.index_path),
        index_queries.group_by_week(index_queries.count_cuts(store.index_path)),
    )


def draw() -> None:
    """Cards, two charts, two lists; nothing where nothing is indexed."""
    index = cache.open_store().index_path
    try:
        metrics, rows, weeks = _read_totals(str(index), index_queries.read_version(index))
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    if not metrics.sessions:
        return
    st.html(
        f'<h2 class="ts-section">All {metrics.sessions:,} indexed sessions</h2>'
        f"{_render_cards(metrics, index_queries.sum_spending(rows))}"
    )
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.html('<div class="ts-small ts-faint">Cost per day, by model</div>')
        _draw_chart("library.spending", figures.draw_spending(rows, theme.get_theme()), "Cost per day, stacked by model")
    with right:
        st.html('<div class="ts-small ts-faint">Truncation events per week</div>')
        _draw_chart("library.trend", figures.draw_trend(weeks, theme.get_theme()), "Truncation events per week")
    models = _render_list("Cost by model", index_queries.group_spending(rows, lambda row: row.model))
    projects = _render_list("Cost by project", index_queries.group_spending(rows, lambda row: row.project))
    st.html(f'<div class="ts-panels even">{models}{projects}</div>')


def _draw_chart(key: str, figure: figures.Figure, alt: str) -> None:
    st.plotly_chart(figure, key=key, theme=None, config={"displayModeBar": False}, alt=alt)


def _render_cards(metrics: index_queries.Metrics, total: float | None) -> str:
    """The metrics; a dash where no session says it."""
    inside = f"{format_percent(metrics.band)} of requests lie in 40–70 %" if metrics.band is not None else "no window is known"
    tone = "" if metrics.utilisation is None else " tone-good" if 0.4 <= metrics.utilisation <= 0.7 else " tone-warn"
    shown = (
        ("Window filled", "–" if metrics.utilisation is None else format_percent(metrics.utilisation), inside, tone),
        (
            "Messages per request",
            "–" if metrics.messages is None else f"{metrics.messages:,.0f}",
            f"{metrics.requests:,} requests",
            "",
        ),
        ("Truncation events", f"{metrics.cuts:,}", "compacted, cut or cleared", ""),
        (
            "Condensed well",
            "–" if metrics.good is None else format_percent(metrics.good),
            f"of {metrics.rated:,} rated summaries" if metrics.rated else "no summary is rated yet",
            "",
        ),
        (
            "Cost",
            format_usd(total),
            f"{format_usd(metrics.usd)} a session" if metrics.usd is not None else "no known price",
            "",
        ),
    )
    return (
        '<div class="ts-cards">'
        + "".join(
            f'<div class="ts-card"><h3>{escape(name)}</h3><div class="value{mark}">{escape(value)}</div>'
            f"<p>{escape(note)}</p></div>"
            for name, value, note, mark in shown
        )
        + "</div>"
    )


def _render_list(name: str, rows: Sequence[tuple[str, int, float | None]]) -> str:
    body = "".join(_render_row(label or "not named", requests, cost) for label, requests, cost in rows[:MOST])
    if rest := rows[MOST:]:
        priced = [cost for _, _, cost in rest if cost is not None]
        body += _render_row(f"{len(rest):,} more", sum(requests for _, requests, _ in rest), sum(priced) if priced else None)
    return cards.render_panel(name, body, "branches and subagents in it, each request once")


def _render_row(label: str, requests: int, cost: float | None) -> str:
    return (
        f'<div class="ts-note ts-cost"><span class="ts-num">{format_usd(cost)}</span>'
        f'<span class="ts-num ts-faint">{requests:,} req.</span><span title="{escape(label)}">{escape(label)}</span></div>'
    )
