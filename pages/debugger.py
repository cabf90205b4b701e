"""The debugger: every decision of a policy, stepped through forwards and back, with its reason and what it changed."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402

from engine import TurnscopeError  # noqa: E402
from pages.parts import closeups, controls, debugging, policy_form, real_summaries, replays, stepper  # noqa: E402

shown = controls.header()
debugging.style()
chosen, bar = policy_form.choose()
try:
    replay = replays.replayed(shown, chosen)
except TurnscopeError as error:
    controls.notice(error.what, error.hint)
    st.stop()
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
