"""The cost heatmap: requests or turns by buckets, below the saw-tooth on the same axis, and the request under the cursor."""

from __future__ import annotations

import streamlit as st

from pages.parts import cards, controls, detail, exports, scales, state, theme

CHART = "heatmap-chart"


def draw() -> None:
    """Draw the page."""
    shown = controls.header()
    slots = state.slots_of(shown, shown.key) is not None
    by, measure, scale, each, parted = controls.heatmap_choices(bool(shown.view.usd.any()), slots)
    st.html(cards.legend(shown.view, heat=True) + scales.draw(shown, by, measure, scale, each, parted))
    st.plotly_chart(
        state.heatmap(shown, shown.key, by, measure, scale, theme.name(), each, parted),
        key=CHART,
        theme=None,
        config={"displayModeBar": False},
        alt=f"{measure} of every bucket over {by}; a click goes to that request",
    )
    _draw_request(shown)
    exports.heatmap(shown, by, measure, scale, each, parted)


@st.fragment
def _draw_request(shown: state.Shown) -> None:
    """Draw everything that depends on the request; the chart above is not drawn again."""
    at = state.request(shown)
    state.remember(shown, at)
    now = detail.summary(shown, at)
    detail.navigator(shown, CHART, at)
    st.html(cards.headline(now, detail.ahead(shown, at)) + cards.bar(now, slim=True) + cards.buckets(now, shown.view.counter))
    detail.blocks(shown, now)
