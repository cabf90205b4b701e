"""The exact messages array of a request, by conversation and turn."""

from __future__ import annotations

import json

import streamlit as st
from turnscope.views import exact_body

from pages.parts import opening, widgets
from pages.parts.formats import escape

TURN, REQUEST = "audit.turn", "audit.request"
TURN, REQUEST = "audit.turn", "audit.request"


@st.fragment
def draw(shown: opening.ShownSession) -> None:
    """What the model saw at a turn: the messages array of one of its requests, as it was sent."""
    plans = shown.trace.plans
    if not plans:
        return
    st.html('<div class="ts-small ts-faint">What the model saw</div>')
    named = shown.trace.session.about.get("conversation") or shown.trace.session.id
    wanted = st.query_params.get("turn", "")
    if TURN not in st.session_state and wanted.isdecimal():  # an address names conversation and turn
        st.session_state[TURN] = min(int(wanted), plans[-1].request.turn)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="audit-replay"):
        turn = int(st.number_input("Turn", 0, plans[-1].request.turn, key=TURN, width=130))
        of_turn = [plan.request.n for plan in plans if plan.request.turn == turn]
        if not of_turn:
            st.html('<div class="ts-small ts-faint">This turn sent no request.</div>')
            return
        if st.session_state.get(REQUEST) not in of_turn:
            st.session_state[REQUEST] = of_turn[0]
        n = st.selectbox("Request of it", of_turn, key=REQUEST, width=170)
        st.html(f'<div class="ts-small ts-faint">conversation {escape(str(named))}</div>')
        text = json.dumps(exact_body.build_exact_body(shown.trace, n)["messages"], ensure_ascii=True, indent=2, default=str)
        st.download_button(
            "Messages as JSON",
            text,
            f"messages-{n}.json",
            "application/json",
            type="tertiary",
            icon=":material/download:",
            on_click="ignore",
            key="audit.messages",
        )
    widgets.draw_text(text, height=340)
