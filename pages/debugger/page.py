"""The debugger: every decision of a policy, stepped through forwards and back, with its reason and what it changed."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError

from pages.debugger import progress, stepper, summaries
from pages.parts import closeups, controls, debugging, policy_form, replays, state


def draw() -> None:
    """Draw the page."""
    shown = controls.header()
    debugging.style()
    chosen, bar = policy_form.choose()
    try:
        run, replay = replays.replayed(shown, chosen)
    except TurnscopeError as error:
        controls.notice(error.what, error.hint)
        st.stop()
    with bar:
        progress.draw(run, replay)
    if replay is None:
        st.stop()
    if replay.whole:
        with bar:
            summaries.offer(shown, replay)
        bar.html(debugging.verdict(shown, replay), width="stretch")
    stepper.load(replay)
    replays.arrive(shown, replay)
    _draw_place(shown, replay)


@st.fragment
def _draw_place(shown: state.Shown, replay: replays.Replay) -> None:
    """Draw everything that depends on the place; the trace is not sent again."""
    at = stepper.draw(shown, replay)
    closeups.draw(shown, replay, at)
