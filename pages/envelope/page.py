"""The envelope of one request: what filled it, what it cost, what changed. The page the app opens with."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.parts import cards, controls, detail, exports, saving, state, theme

CHART = "envelope-chart"


def draw() -> None:
    """Draw the page."""
    shown = controls.header(amid=False)  # said among the findings
    top = st.empty()  # filled by the fragment, so that a step through the requests does not draw the chart again
    detail.findings(shown)
    saving.draw(shown)
    st.html(cards.legend(shown.view))
    st.plotly_chart(
        state.sawtooth(shown, shown.key, theme.name()),
        key=CHART,
        theme=None,
        config={"displayModeBar": False},
        alt="Prompt tokens of every request, stacked by bucket; a click goes to that request",
    )
    _draw_request(shown, top)
    exports.sawtooth(shown)
    exports.session(shown)


@st.fragment
def _draw_request(shown: state.Shown, top: DeltaGenerator) -> None:
    """Draw everything that depends on the request."""
    at = state.request(shown)
    state.remember(shown, at)
    now = detail.summary(shown, at)
    top.html(cards.headline(now, detail.ahead(shown, at)) + cards.bar(now) + cards.buckets(now, shown.view.counter))
    detail.navigator(shown, CHART, at)
    detail.panes(shown, now)
