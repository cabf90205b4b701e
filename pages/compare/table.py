"""The comparison as a table with a row per policy, and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st
from turnscope import figures
from turnscope.views import comparison

from pages.parts import opening, theme
from pages.parts.formats import escape

ROWS = 500  # of a table


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row]) -> None:
    """A row per policy, sortable, and the same as CSV.

    Args:
        shown: the session that is shown.
        rows: a row per policy.
    """
    st.dataframe(_build_columns(rows), hide_index=True, key="compare.table", column_config=_configure_columns())
    checked = " ".join(row.calibration for row in rows)
    st.html(f'<div class="ts-empty">{escape(f"{comparison.ASSUMPTIONS} {checked}")}</div>')
    made = comparison.rows_to_csv(rows)
    st.download_button("Table as CSV", made, f"{shown.entry.id}-policies.csv", "text/csv", icon=":material/download:")


def _build_columns(rows: Sequence[comparison.Row]) -> dict[str, list[Any]]:
    best = comparison.find_pareto_optimal(rows)
    return {
        "policy": [row.title for row in rows],
        "best": ["★" if row.policy in best else "" for row in rows],
        "USD": [None if row.usd is None else float(row.usd) for row in rows],
        "× record": [row.factor for row in rows],
        "summaries, USD": [float(sum(row.cost.summary_usd)) for row in rows],
        "from cache": [100 * row.cost.cache_share for row in rows],
        "saved": [100 * max(0.0, 1 - row.kept_share) for row in rows],
        **(
            {"published": [row.published_saving.partition(" (")[0] for row in rows]}
            if any(row.published_saving for row in rows)
            else {}
        ),
        "peak fill": [100 * row.peak[0] for row in rows],
        "lost references": [len(row.losses.hits) for row in rows],
        "of all used": [100 * row.losses.rate for row in rows],
        "refused": [row.refusals for row in rows],
        "over its limit": [row.overflows for row in rows],
        "over the window": [row.over_window for row in rows],
        "rejected": [row.rejected_count for row in rows],
        "decisions": [", ".join(f"{many:,} {kind}" for kind, many in row.decisions.items()) or "none" for row in rows],
    }


def _configure_columns() -> dict[str, Any]:
    """Format and help of each column whose title does not say it all."""
    shares = {
        "from cache": "share of all prompt tokens that a cache would have served",
        "saved": "tokens that were not sent, of those with everything kept: measured on this session",
        "peak fill": "of the window, at the fullest request",
        "of all used": "of what answers take up again",
    }
    return {
        "best": st.column_config.TextColumn(
            help="of those whose every request could be sent, no other one is cheaper and loses no more"
        ),
        "USD": st.column_config.NumberColumn(format="%.2f", help="prompt with its simulated cache, answers, summaries"),
        "× record": st.column_config.NumberColumn(
            format="%.2f", help="USD as a factor of the record with its simulated cache: the same error is in both"
        ),
        "summaries, USD": st.column_config.NumberColumn(format="%.2f", help="part of it: what condensing asked of a model"),
        **{name: st.column_config.NumberColumn(format="%.0f %%", help=text) for name, text in shares.items()},
        "published": st.column_config.TextColumn(
            help="the saving of tokens that is published for such a policy, to hold the measured one against"
        ),
        "over its limit": st.column_config.NumberColumn(
            help="requests larger than the policy means them to be, or than the window"
        ),
        "over the window": st.column_config.NumberColumn(
            help="requests that no provider takes: larger than the model's window"
        ),
        "refused": st.column_config.NumberColumn(help="requests that the policy itself does not send"),
        "rejected": st.column_config.NumberColumn(
            help="requests whose body the provider's API would reject; none where its rules are not known here"
        ),
    }


def draw_chart(rows: Sequence[comparison.Row]) -> None:
    """How full each policy's prompts are."""
    st.plotly_chart(
        figures.draw_fill(rows, theme.get_theme()),
        key="compare-chart",
        theme=None,
        config={"displayModeBar": False},
        alt="prompt tokens of every request under each policy",
    )


def draw_row_limit(many: int) -> None:
    if many > ROWS:
        st.text(f"These are the first {ROWS:,} of {many:,}.")
