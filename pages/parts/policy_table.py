"""What the tables of measured policies have in common: their chart, the first cell of a row, and hints of columns."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import figures
from turnscope.library.policy_table import PolicyRow

from pages.parts import theme
from pages.parts.formats import escape

HINTS = {
    "Policy": "★: no other one costs less and loses no more, or loses less and costs no more",
    "95 %": "the interval that 95 % of the draws of sessions with replacement lie in",
    "Lost": "references of later answers to what had left; answers are recorded, not made again",
    "Refused": "share of the requests that the provider would refuse",
    "Calls": "summaries by a model, per 100 requests",
}


def draw_chart(table: Sequence[PolicyRow], best: frozenset[str], key: str) -> None:
    """Draw cost against lost references.

    Args:
        table: a row for each policy.
        best: names of those that no other one beats.
        key: of the chart on its page.
    """
    st.plotly_chart(
        figures.draw_policy_table(table, best, theme.get_theme()),
        key=key,
        theme=None,
        config={"displayModeBar": False},
        alt="cost of each policy against the references that it loses",
    )


def render_name(policy: str, best: frozenset[str]) -> str:
    """A policy's name as HTML: a link to its page, behind a star where no other one beats it.

    Args:
        policy: its name.
        best: names of those that no other one beats.
    """
    star = '<b class="star">★</b> ' if policy in best else ""
    return f'{star}<a href="/policies?policy={escape(policy)}" target="_self">{escape(policy)}</a>'
