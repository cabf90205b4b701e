"""A chart and its numbers to take away: HTML that needs no network, and CSV. Made when the button is pressed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine import figures
from engine.views import tables
from pages.parts import chat_exports, scales, state, theme


def sawtooth(shown: state.Shown) -> None:
    """The envelope page's chart."""
    _buttons("sawtooth", state.sawtooth(shown, shown.key, theme.name()), shown, "requests")


def session(shown: state.Shown) -> None:
    """The session, or the branch or subagent of it that is shown, in every form there is."""
    st.html('<div class="ts-small ts-faint">This path as a file</div>')
    chat_exports.draw(shown.opened.session, f"session-{shown.opened.session.id[:8]}", "export.session")


def heatmap(shown: state.Shown, by: figures.Unit, measure: figures.Measure, scale: figures.Scale, each: bool) -> None:
    """The heatmap page's chart, as chosen."""
    figure = state.heatmap(shown, shown.key, by, measure, scale, theme.name(), each)
    _buttons("heatmap", figure, shown, by, lambda: scales.lines(shown, by, measure, scale, each))


def _buttons(
    name: str, figure: figures.Figure, shown: state.Shown, by: figures.Unit, told: Callable[[], list[str]] = list
) -> None:
    ground = theme.palette()["ground"]
    with st.container(horizontal=True, key=f"{name}-exports"):
        _button("Chart as HTML", lambda: figures.html(figure, ground, told()), f"turnscope-{name}.html", "text/html")
        _button("Numbers as CSV", lambda: tables.overview_csv(shown.view, by), f"turnscope-{name}.csv", "text/csv")
        _button("Bill as CSV", lambda: tables.bill_csv(shown.view), f"turnscope-{name}-bill.csv", "text/csv")


def _button(label: str, make: Callable[[], str], file: str, mime: str) -> None:
    st.download_button(
        label, make, file, mime, key=f"export.{file}", icon=":material/download:", type="tertiary", on_click="ignore"
    )
