"""The comparison as a table with a row per policy: five columns, and all of them when somebody asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import streamlit as st
from turnscope import figures
from turnscope.views import comparison

from pages.parts import opening

ROWS = 500  # of a table
SHOWN = 5  # columns that are always shown


def draw(shown: opening.ShownSession, rows: Sequence[comparison.Row], best: Collection[str]) -> None:
    """A row per policy, sortable, and the same as CSV.

    Args:
        shown: the session that is shown.
        rows: a row per policy.
        best: names of those that are Pareto-optimal; none while replays are under way.
    """
    columns = _build_columns(rows, best)
    with st.container(horizontal=True, vertical_alignment="center", key="compare-figures"):
        st.html('<div class="cmp-head"><h3>All figures</h3></div>', width="stretch")
        every = st.toggle(f"{len(columns) - SHOWN} more columns", key="compare.every")
        st.download_button(
            "CSV",
            comparison.rows_to_csv(rows),
            f"{shown.entry.id}-policies.csv",
            "text/csv",
            icon=":material/download:",
            help="Table as CSV",
        )
    listed = columns if every else dict(list(columns.items())[:SHOWN])
    st.dataframe(listed, hide_index=True, key="compare.table", placeholder="–", column_config=_configure_columns(rows))


def _build_columns(rows: Sequence[comparison.Row], best: Collection[str]) -> dict[str, list[Any]]:
    """All columns, those that are always shown first."""
    return {
        "policy": [
            f"{mark.text} {row.title}{' ★' if row.policy in best else ''}"
            for row, mark in zip(rows, figures.mark_policies(rows), strict=True)
        ],
        "cost": [None if row.usd is None else float(row.usd) for row in rows],
        "lost references": [len(row.losses.hits) for row in rows],
        "peak fill": [100 * row.peak[0] for row in rows],
        "from cache": [100 * row.cost.cache_share for row in rows],
        "× record": [row.factor for row in rows],
        "of it summaries": [float(sum(row.cost.summary_usd)) for row in rows],
        "saved": [100 * max(0.0, 1 - row.kept_share) for row in rows],
        **(
            {"published": [row.published_saving.partition(" (")[0] for row in rows]}
            if any(row.published_saving for row in rows)
            else {}
        ),
        "% lost": [100 * row.losses.rate for row in rows],
        "rules kept": [row.rules_label for row in rows],
        "rejected": [len(row.unsent) for row in rows],
        "refused": [row.refusals for row in rows],
        "over its limit": [row.overflows for row in rows],
        "over the window": [row.over_window for row in rows],
        "invalid body": [row.rejected_count for row in rows],
        "decisions": [_describe_decisions(row) for row in rows],
    }


def _describe_decisions(row: comparison.Row) -> str:
    """How many of each action; drops of the recorded tool's own summaries are named."""
    foreign = f" ({row.foreign_summaries:,} of them the recorded tool's summaries)" if row.foreign_summaries else ""
    counts = (f"{many:,} {kind}{foreign if kind == 'drop' else ''}" for kind, many in row.decisions.items())
    return ", ".join(counts) or "none"


def _configure_columns(rows: Sequence[comparison.Row]) -> dict[str, Any]:
    """Format and help of each column whose title does not say it all; small sums have more digits."""
    most = max((row.usd for row in rows if row.usd is not None), default=1)
    money = "$%.2f" if most >= 1 else "$%.4f"
    shares = {
        "from cache": "share of all prompt tokens that a cache would have served",
        "saved": "tokens that were not sent, of those with everything kept: measured on this session",
        "peak fill": "of the window, at the fullest request",
        "% lost": "of all references that answers reuse",
    }
    return {
        "policy": st.column_config.TextColumn(
            help="★: of those whose every request could be sent, no other one is cheaper and loses less"
        ),
        "cost": st.column_config.NumberColumn(
            format=money, help="dollars of the bill: prompts with their simulated cache, answers, summaries"
        ),
        "× record": st.column_config.NumberColumn(format="%.2f", help="cost as a factor of what the session cost"),
        "lost references": st.column_config.NumberColumn(help="what answers reuse and their request no longer holds"),
        "rules kept": st.column_config.TextColumn(
            help="sentences of prompts, memory files and system prompts that say never, always, must, only …: "
            "of how many every request holds the words"
        ),
        "of it summaries": st.column_config.NumberColumn(format=money, help="part of it: requests for summaries"),
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
            help="requests that could not be sent: over the window, refused, or with an invalid body"
        ),
        "invalid body": st.column_config.NumberColumn(
            help="requests whose body the provider's API would reject; none where its rules are not known here"
        ),
    }


def draw_row_limit(many: int) -> None:
    if many > ROWS:
        st.text(f"These are the first {ROWS:,} of {many:,}.")
