"""The exact messages array of a request, by conversation and turn."""

from __future__ import annotations

import json

import streamlit as st
from turnscope.numbering import format_request, index_request, number_request
from turnscope.views import exact_body

from pages.parts import opening, widgets
from pages.parts.formats import escape

TURN, REQUEST = "audit.turn", "audit.request"


@st.fragment
def draw(shown: opening.ShownSession) -> None:
    """What the model saw at a turn: the messages array of one of its requests, as it was sent."""
    plans = shown.trace.plans
    if not plans:
        return
    st.html('<h2 class="audit-title">What the model saw</h2>')
    named = shown.trace.session.about.get("conversation") or shown.trace.session.id
    wanted = st.query_params.get("turn", "")
    last = plans[-1].request.turn
    if TURN not in st.session_state and wanted.isdecimal():  # an address names conversation and turn
        st.session_state[TURN] = number_request(min(int(wanted), last))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="audit-replay"):
        turn = index_request(int(st.number_input("Turn", 1, number_request(last), key=TURN, width=130)))
        of_turn = [plan.request.n for plan in plans if plan.request.turn == turn]
        if not of_turn:
            st.html('<div class="ts-small ts-faint">This turn sent no request.</div>')
            return
        if st.session_state.get(REQUEST) not in of_turn:
            st.session_state[REQUEST] = of_turn[0]
        n = st.selectbox("Request in turn", of_turn, key=REQUEST, format_func=format_request, width=170)
        st.html(f'<div class="ts-small ts-faint">conversation {escape(str(named))}</div>')
        text = json.dumps(exact_body.build_exact_body(shown.trace, n)["messages"], ensure_ascii=True, indent=2, default=str)
        st.download_button(
            "Messages as JSON",
            text,
            f"messages-{number_request(n)}.json",
            "application/json",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
            key="audit.messages",
        )
    widgets.draw_text(text, height=340)
