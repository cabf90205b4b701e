"""The debugger: every decision of a policy, stepped through forwards and back, with its reason and what it changed."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402
from turnscope import TurnscopeError  # noqa: E402

from pages.parts import (  # noqa: E402
    closeups,
    controls,
    debugging,
    policy_form,
    real_summaries,
    replaying,
    replays,
    stepper,
)

shown = controls.header()
debugging.style()
chosen, bar = policy_form.choose()
try:
    run, made = replays.replayed(shown, chosen)
except TurnscopeError as error:
    controls.notice(error.what, error.hint)
    st.stop()
with bar:
    replaying.draw(run, made)
if made is None:
    st.stop()
replay: replays.Replay = made
if replay.whole:
    with bar:
        real_summaries.offer(shown, replay)
    bar.html(debugging.verdict(shown, replay), width="stretch")
stepper.load(replay)
replays.arrive(shown, replay)


@st.fragment
def one_place() -> None:
    """Everything that depends on the place; the trace is not sent again."""
    at = stepper.draw(shown, replay)
    closeups.draw(shown, replay, at)


one_place()
