"""The requests that the heatmap is zoomed into."""

from __future__ import annotations

import streamlit as st
from turnscope.numbering import format_requests

from pages.parts import url
from pages.parts.opening import ShownSession

_NAME = "zoom"


def get(shown: ShownSession) -> tuple[int, int] | None:
    """The requests [start, stop) that are shown; None = all.

    Args:
        shown: the session that is shown.
    """
    return url.get_span(_NAME, len(shown.view))


def draw_buttons(shown: ShownSession, span: tuple[int, int]) -> None:
    """A button that zooms into a range, unless it is what is shown.

    Args:
        shown: the session that is shown.
        span: requests [start, stop).
    """
    if span != get(shown) and st.button("Zoom in", key="heatmap.zoom.in", icon=":material/zoom_in:"):
        url.set_span(_NAME, span)
        st.rerun()  # the chart is drawn outside the fragment that holds this button


def draw_reset(shown: ShownSession) -> None:
    """What is shown, and a way back to the whole session; nothing where all of it is."""
    if span := get(shown):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="heatmap-zoom"):
            st.html(f'<div class="ts-small">Zoomed into requests {format_requests(*span)}</div>', width="content")
            st.button(
                "Whole session",
                key="heatmap.zoom.out",
                icon=":material/zoom_out:",
                on_click=url.set_span,
                args=(_NAME, None),
            )
