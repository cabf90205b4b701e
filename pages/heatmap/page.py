"""The cost heatmap: requests or turns by buckets, below the saw-tooth on the same axis, and the request under the cursor."""

from __future__ import annotations

import streamlit as st

from pages.heatmap import chart, scales
from pages.parts import cards, exports, header, opening, request, theme, url

CHART = "heatmap-chart"


def draw() -> None:
    """Draw the page."""
    shown = header.header()
    slots = chart.slots_of(shown, shown.key) is not None
    chosen = chart.choose(bool(shown.view.usd.any()), slots)
    st.html(cards.legend(shown.view, heat=True) + scales.draw(shown, chosen))
    figure = chart.heatmap(shown, shown.key, chosen, theme.name())
    st.plotly_chart(
        figure,
        key=CHART,
        theme=None,
        config={"displayModeBar": False},
        alt=f"{chosen.measure} of every bucket over {chosen.by}; a click goes to that request",
    )
    _draw_request(shown)
    exports.chart("heatmap", figure, shown, chosen.by, lambda: scales.lines(shown, chosen))


@st.fragment
def _draw_request(shown: opening.Shown) -> None:
    """Draw everything that depends on the request; the chart above is not drawn again."""
    at = url.request(shown)
    url.remember(shown, at)
    now = request.summary(shown, at)
    request.navigator(shown, CHART, at)
    st.html(cards.headline(now, request.ahead(shown, at)) + cards.bar(now, slim=True) + cards.buckets(now, shown.view.counter))
    request.blocks(shown, now)
