"""The two charts of a comparison: cost against losses, and prompt sizes over the session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st
from turnscope import figures
from turnscope.views import comparison

from pages.parts import theme
from pages.parts.formats import escape

_QUIET = {"displayModeBar": False}


def draw(rows: Sequence[comparison.Row], best: Collection[str]) -> None:
    """Draw both charts side by side; without prices, the prompt sizes alone.

    Args:
        rows: a row per policy.
        best: names of those that are Pareto-optimal; none while replays are under way.
    """
    priced = any(row.factor for row in rows)
    with st.container(key="compare-charts"):
        left, right = st.columns([2, 3], gap="medium") if priced else (None, st.container())
    if left is not None:
        with left:
            draw_heading("Cost against lost references", "lower left is better; larger = fuller prompts")
            st.plotly_chart(
                figures.draw_pareto(rows, best, theme.get_theme()),
                key="compare-pareto",
                theme=None,
                config=_QUIET,
                alt="cost of each policy as a factor of the record, against its lost references",
            )
    with right:
        draw_heading("Prompt size over requests", "tokens; compressed above the window")
        st.plotly_chart(
            figures.draw_fill(rows, theme.get_theme()),
            key="compare-chart",
            theme=None,
            config=_QUIET,
            alt="prompt tokens of every request under each policy",
        )


def draw_heading(text: str, more: str = "") -> None:
    """A heading with a note at its right end.

    Args:
        text: the heading.
        more: the note.
    """
    st.html(f'<div class="cmp-head"><h3>{escape(text)}</h3><small>{escape(more)}</small></div>')
