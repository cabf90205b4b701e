"""The heatmap as a figure, and the choices that it is drawn with."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import streamlit as st
from turnscope import figures
from turnscope.views import slots

from pages.parts.opening import ShownSession

C = TypeVar("C", bound=str)


class Choices(NamedTuple):
    """What the heatmap shows: columns, measure and scale; whether each row has a scale of its own, and each slot a row."""

    by: figures.Unit
    measure: figures.Measure
    scale: figures.Scale
    each: bool = False
    parted: bool = False


def choose(priced: bool, slots: bool) -> Choices:
    """What the heatmap shows: columns, measure, scale, whether each row has a scale of its own, whether each slot has a row.

    Args:
        priced: whether any of it has a price; tokens are shown first where nothing has.
        slots: whether something was put in.
    """
    measures: dict[figures.Measure, str] = {"cost": "Cost", "tokens": "Tokens", "share": "Share of window"}
    if not priced:
        measures = {"tokens": "Tokens", "share": "Share of window"}
    with st.container(horizontal=True, vertical_alignment="center", key="heatmap-choices"):
        by: figures.Unit = _draw_choice("Columns", {"requests": "Requests", "turns": "Turns"}, "heatmap.by")
        measure = _draw_choice("Measure", measures, "heatmap.measure" if priced else "heatmap.measure.unpriced")
        scale: figures.Scale = _draw_choice(
            "Scale", {"rank": "By rank", "log": "Logarithmic", "linear": "Linear"}, "heatmap.scale"
        )
        each = _draw_choice("Rows", {"shared": "One scale", "each": "Each row its own"}, "heatmap.rows") == "each"
        parted = (
            slots and _draw_choice("Inserts", {"in": "In their buckets", "apart": "Inserts apart"}, "heatmap.slots") == "apart"
        )
    return Choices(by, measure, scale, each, parted)


def _draw_choice(label: str, options: dict[C, str], key: str) -> C:
    first = next(iter(options))
    chosen = st.segmented_control(
        label,
        list(options),
        default=first,
        required=True,
        format_func=options.__getitem__,
        key=key,
        label_visibility="collapsed",
        persist_state="session",
    )
    return chosen or first


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
    return figures.draw_heatmap(_shown.view, by, measure, scale, theme, trace=_shown.trace, each=chosen.each, parts=parts)


@st.cache_resource(max_entries=24, show_spinner=False)
def find_slots(_shown: ShownSession, key: str) -> slots.Slots | None:  # noqa: ARG001  what the cache goes by
    """What was put into the requests of a session, by slot; None where nothing was.

    Args:
        _shown: the session; not part of the cache's key.
        key: names the session as it is now.
    """
    return slots.build_slots(_shown.trace, _shown.view)
