"""The envelope of one request: what filled it, what it cost, what changed. The page the app opens with."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from turnscope import figures
from turnscope.views import cache_layout

from pages.envelope import expensive, findings, panes
from pages.parts import cards, demo, exports, header, opening, request, savings, shell, theme, url

CHART = "envelope-chart"


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header(middle=False)  # shown among the findings
    if shown.entry.origin == "sample":
        demo.draw_link(shell.find_page)
    top = st.empty()  # filled by the fragment, so that a step through the requests does not draw the chart again
    st.html(cards.render_legend(shown.view))
    chart = _build_chart(shown, shown.key, theme.get_theme())
    st.plotly_chart(
        chart,
        key=CHART,
        theme=None,
        config={"displayModeBar": False},
        alt="Prompt tokens of every request, stacked by bucket; a click goes to that request",
    )
    with st.container(horizontal=True, gap="medium", key="envelope-body"):
        with st.container(key="envelope-request"):
            _draw_request(shown, top)
        with st.container(key="envelope-answers"):
            expensive.draw(shown)
            findings.draw(shown)
            savings.draw(shown)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="envelope-exports"):
        exports.draw_chart_buttons("sawtooth", chart, shown.view, "requests")
        with st.popover("This branch as a file", icon=":material/download:", type="tertiary"):
            exports.draw_session_buttons(shown.opened.session, f"session-{shown.opened.session.id[:8]}", "export.session")


@st.cache_resource(max_entries=24, show_spinner=False)
def _build_chart(_shown: opening.ShownSession, key: str, theme: figures.Theme) -> figures.Figure:  # noqa: ARG001  what the cache goes by
    """The saw-tooth of a session, made once per theme."""
    return figures.draw_sawtooth(_shown.view, "requests", theme)


@st.fragment
def _draw_request(shown: opening.ShownSession, top: DeltaGenerator) -> None:
    """Draw everything that depends on the request."""
    at = url.read_request(shown)
    url.remember_request(shown, at)
    now, layout = request.summarize(shown, at), cache_layout.lay_out_cache(shown.trace, shown.view, at)
    top.html(
        cards.render_headline(now, request.find_next_cut(shown, at), {"What was lost": request.find_lost_link(shown, at)})
        + cards.render_bar(now, layout.breakpoints)
        + cards.render_buckets(now, shown.view.counter)
    )
    request.draw_navigator(shown, CHART, at)
    panes.draw(shown, now, layout)
