"""The envelope of one request: what filled it, what it cost, what changed. The page the app opens with."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402

from pages.parts import cards, controls, detail, exports, saving, state, theme  # noqa: E402

CHART = "envelope-chart"

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


@st.fragment
def one_request() -> None:
    """Everything that depends on the request."""
    at = state.request(shown)
    state.remember(shown, at)
    now = detail.summary(shown, at)
    top.html(cards.headline(now, detail.ahead(shown, at)) + cards.bar(now) + cards.buckets(now, shown.view.counter))
    detail.navigator(shown, CHART, at)
    detail.panes(shown, now)


one_request()
exports.sawtooth(shown)
exports.session(shown)
