"""How full windows were, how often sessions were compacted, and why the cache was missed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import streamlit as st
from turnscope import figures
from turnscope.fleet import queries
from turnscope.fleet.queries import FILLS, Cause, Distributions
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.parts import theme
from pages.parts.formats import escape, format_percent, format_tokens, format_usd

MOST_TIMES = 9  # compactions that have a bar of their own


def draw(warehouse: Warehouse, chosen: Selection) -> None:
    """The charts and the table of causes.

    Args:
        warehouse: the tables.
        chosen: what is looked at.
    """
    made = queries.measure_distributions(warehouse, chosen)
    with st.container(key="fleet-charts"):
        left, right = st.columns(2, gap="medium")
        with left:
            _draw_fills("Window filled, by request", made.requests, "requests", "fills")
        with right:
            _draw_fills("Window filled at the fullest request, by session", made.peaks, "sessions", "peaks")
        left, right = st.columns(2, gap="medium")
        with left:
            _draw_compactions(made)
        with right:
            _draw_causes(made.causes)


def _draw_fills(title: str, counts: Sequence[int], unit: str, key: str) -> None:
    whole = sum(counts)
    half = next((name for name, many in zip(FILLS, accumulate(counts), strict=True) if 2 * many >= whole), "")
    summary = f"{whole:,} {unit} with a known window; the median lies in {half}" if whole else f"no {unit} with a known window"
    _draw_chart(title, summary, FILLS[: 11 if counts[-1] else 10], counts[: 11 if counts[-1] else 10], unit, key)


def _draw_chart(title: str, summary: str, names: Sequence[str], counts: Sequence[int], unit: str, key: str) -> None:
    st.html(f'<h2 class="ts-small fleet-chart">{title}</h2><p class="fleet-hint">{escape(summary)}.</p>')
    if any(counts):
        figure = figures.draw_bars(names, counts, unit, theme.get_theme())
        st.plotly_chart(figure, key=f"fleet.{key}", theme=None, config={"displayModeBar": False}, alt=f"{title}: {summary}")


def _draw_compactions(made: Distributions) -> None:
    counts = dict(made.compactions)
    names = [str(times) for times in range(MOST_TIMES + 1)] + [f"over {MOST_TIMES}"]
    bars = [counts.get(times, 0) for times in range(MOST_TIMES + 1)]
    bars.append(sum(many for times, many in made.compactions if times > MOST_TIMES))
    whole, without = sum(counts.values()), counts.get(0, 0)
    summary = f"{whole - without:,} of {whole:,} sessions were compacted, {format_percent((whole - without) / max(1, whole))}"
    most = max((n for n, many in enumerate(bars) if many), default=0) + 1
    _draw_chart("Compactions of a session that was compacted", summary, names[1:most], bars[1:most], "sessions", "compactions")


def _draw_causes(causes: Sequence[Cause]) -> None:
    many = sum(cause.misses for cause in causes)
    summary = f"{many:,} cache miss{'' if many == 1 else 'es'}; USD beyond what reading the cache would have cost"
    st.html(f'<h2 class="ts-small fleet-chart">Cache misses by cause</h2><p class="fleet-hint">{summary}.</p>')
    if not causes:
        return
    whole = sum(float(cause.usd or 0) for cause in causes)
    body = "".join(
        f"<tr><td>{escape(cause.cause)}</td><td>{cause.misses:,}</td><td>{format_tokens(cause.tokens)}</td>"
        f"<td>{escape(format_usd(cause.usd))}</td><td>{_format_share(cause, whole)}</td></tr>"
        for cause in causes
    )
    head = "<th>Cause</th><th>Misses</th><th>Tokens billed again</th><th>Cost</th><th>Share</th>"
    table = f'<table class="ts-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    st.html(f'<div class="fleet-table">{table}</div>')


def _format_share(cause: Cause, whole: float) -> str:
    return format_percent(float(cause.usd) / whole) if cause.usd and whole else ""
