"""A chart, its numbers and the session itself as files. Made when a button is pressed; none needs a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st
from turnscope import Session, figures
from turnscope.share import export_formats
from turnscope.views import tables
from turnscope.views.overview import Overview

from pages.parts import theme


def draw_session_buttons(session: Session, name: str, key: str) -> None:
    """A button for each form, of the path that is shown; our own forms hold its branches and subagents too.

    Args:
        session: the session.
        name: beginning of the file names.
        key: begins the keys of the widgets.
    """
    with st.container(horizontal=True, gap="small", key=f"{key}.forms"):
        for form in export_formats.list_formats().values():
            st.download_button(
                form.title,
                partial(form.encode, session),
                f"{name}.{form.suffix}",
                form.mime,
                key=f"{key}.{form.name}",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
            )


def draw_chart_buttons(
    name: str, figure: figures.Figure, view: Overview, by: figures.Unit, captions: Callable[[], list[str]] = list
) -> None:
    """A button for a chart as HTML, and one for its numbers as CSV.

    Args:
        name: beginning of the file names.
        figure: the chart.
        view: what the chart shows.
        by: what a column stands for.
        captions: lines that stand under the chart.
    """
    ground = theme.get_palette()["ground"]
    with st.container(horizontal=True, key=f"{name}-exports"):
        _draw_button(
            "Chart as HTML", lambda: figures.to_html(figure, ground, captions()), f"turnscope-{name}.html", "text/html"
        )
        _draw_button("Numbers as CSV", lambda: tables.overview_to_csv(view, by), f"turnscope-{name}.csv", "text/csv")
        _draw_button("Bill as CSV", lambda: tables.cost_to_csv(view), f"turnscope-{name}-bill.csv", "text/csv")


def _draw_button(label: str, make: Callable[[], str], file: str, mime: str) -> None:
    st.download_button(
        label, make, file, mime, key=f"export.{file}", icon=":material/download:", type="tertiary", on_click="ignore"
    )
