"""The heatmap as a figure, and the choices that it is drawn with."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st
from turnscope import figures
from turnscope.views import slots

from pages.parts import url
from pages.parts.opening import ShownSession


class Choices(NamedTuple):
    """What the heatmap shows: columns, measure and scale; whether each row has a scale of its own, and each slot a row.

    `span`: the requests [start, stop) that are zoomed into; None = all.
    """

    by: figures.Unit
    measure: figures.Measure
    scale: figures.Scale
    each: bool = False
    parted: bool = False
    span: tuple[int, int] | None = None


def choose(priced: bool, slots: bool) -> Choices:
    """What the heatmap shows: columns, measure, scale, whether each row has a scale of its own, whether each slot has a row.

    Args:
        priced: whether any of it has a price; tokens are shown first where nothing has.
        slots: whether something was put in.
    """
    measures: dict[figures.Measure, str] = {"cost": "Cost", "tokens": "Tokens", "share": "Share of window"}
    if not priced:
        measures = {"tokens": "Tokens", "share": "Share of window"}
    scales: dict[figures.Scale, str] = {"log": "Logarithmic", "rank": "Percentile", "linear": "Linear"}
    units: dict[figures.Unit, str] = {"requests": "Requests", "turns": "Turns"}
    with st.container(horizontal=True, vertical_alignment="center", key="heatmap-choices"):
        by = url.draw_choice("Columns", units, "by", "heatmap.by")
        measure = url.draw_choice("Measure", measures, "measure", "heatmap.measure" if priced else "heatmap.measure.unpriced")
        scale = url.draw_choice("Scale", scales, "scale", "heatmap.scale")
        each = url.draw_choice("Rows", {"each": "Per-row scale", "shared": "One scale"}, "rows", "heatmap.rows") == "each"
        inserts = {"in": "In their buckets", "apart": "Inserts apart"}
        parted = slots and url.draw_choice("Inserts", inserts, "inserts", "heatmap.slots") == "apart"
    return Choices(by, measure, scale, each, parted)


@st.cache_resource(max_entries=24, show_spinner=False)
def build_figure(_shown: ShownSession, key: str, chosen: Choices, theme: figures.Theme) -> figures.Figure:
    """The heatmap of a session, made once per choice.

    Args:
        _shown: the session; not part of the cache's key.
        key: names the session as it is now.
        chosen: what the heatmap shows.
        theme: light or dark.
    """
    parts = find_slots(_shown, key) if chosen.parted else None
    by, measure, scale = chosen.by, chosen.measure, chosen.scale
    rows = figures.RowStyle(chosen.each, parts)
    return figures.draw_heatmap(_shown.view, by, measure, scale, theme, trace=_shown.trace, rows=rows, span=chosen.span)


@st.cache_resource(max_entries=24, show_spinner=False)
def find_slots(_shown: ShownSession, key: str) -> slots.Slots | None:  # noqa: ARG001  what the cache goes by
    """What was put into the requests of a session, by slot; None where nothing was.

    Args:
        _shown: the session; not part of the cache's key.
        key: names the session as it is now.
    """
    return slots.build_slots(_shown.trace, _shown.view)
