"""A chart, its numbers and the session itself to take away. Made when the button is pressed; none needs a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st
from turnscope import Session, figures
from turnscope.share import export_formats
from turnscope.views import tables

from pages.parts import scales, state, theme


def sawtooth(shown: state.Shown) -> None:
    """The envelope page's chart."""
    _buttons("sawtooth", state.sawtooth(shown, shown.key, theme.name()), shown, "requests")


def session(shown: state.Shown) -> None:
    """The session, or the branch or subagent of it that is shown, in every form there is."""
    st.html('<div class="ts-small ts-faint">This path as a file</div>')
    forms(shown.opened.session, f"session-{shown.opened.session.id[:8]}", "export.session")


def forms(session: Session, name: str, key: str) -> None:
    """A button for each form, of the path that is shown; our own forms hold its branches and subagents too."""
    with st.container(horizontal=True, gap="small", key=f"{key}.forms"):
        for form in export_formats.list_formats().values():
            st.download_button(
                form.title, partial(form.encode, session), f"{name}.{form.suffix}", form.mime, key=f"{key}.{form.name}",
                icon=":material/download:", type="tertiary", on_click="ignore",
            )  # fmt: skip


def heatmap(
    shown: state.Shown, by: figures.Unit, measure: figures.Measure, scale: figures.Scale, each: bool, parted: bool = False
) -> None:
    """The heatmap page's chart, as chosen."""
    figure = state.heatmap(shown, shown.key, by, measure, scale, theme.name(), each, parted)
    _buttons("heatmap", figure, shown, by, lambda: scales.lines(shown, by, measure, scale, each, parted))


def _buttons(
    name: str, figure: figures.Figure, shown: state.Shown, by: figures.Unit, told: Callable[[], list[str]] = list
) -> None:
    ground = theme.palette()["ground"]
    with st.container(horizontal=True, key=f"{name}-exports"):
        _button("Chart as HTML", lambda: figures.to_html(figure, ground, told()), f"turnscope-{name}.html", "text/html")
        _button("Numbers as CSV", lambda: tables.overview_to_csv(shown.view, by), f"turnscope-{name}.csv", "text/csv")
        _button("Bill as CSV", lambda: tables.cost_to_csv(shown.view), f"turnscope-{name}-bill.csv", "text/csv")


def _button(label: str, make: Callable[[], str], file: str, mime: str) -> None:
    st.download_button(
        label, make, file, mime, key=f"export.{file}", icon=":material/download:", type="tertiary", on_click="ignore"
    )
