"""The debugger: every decision of a policy, stepped through forwards and back, with its reason and what it changed."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError

from pages.debugger import address, effects, panes, policy_bar, policy_replay, progress, stepper, summaries, verdict
from pages.debugger.policy_replay import Replay
from pages.parts import header, opening, theme, widgets

SHEET = Path(__file__).parent / "browser" / "debugger.css"


def draw() -> None:
    """Draw the page."""
    shown = header.draw_header()
    theme.add_sheet(SHEET)
    chosen, bar = policy_bar.choose()
    try:
        run, replay = policy_replay.replay_policy(shown, chosen)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        st.stop()
    if (wanted := address.read_request()) is not None:
        run.want(wanted)
    with bar:
        progress.draw(run, replay)
    if replay is None:
        st.stop()
    if replay.is_whole:
        with bar:
            summaries.draw(shown, replay)
        bar.html(verdict.render_verdict(shown, replay), width="stretch")
        effects.draw(shown, replay)
    stepper.send_trace(replay)
    address.arrive(shown, replay)
    _draw_place(shown, replay)


@st.fragment
def _draw_place(shown: opening.ShownSession, replay: Replay) -> None:
    """Draw everything that depends on the place; the trace is not sent again."""
    at = stepper.draw(shown, replay)
    panes.draw(shown, replay, at)
