"""A replay under way: how far it is, a button to stop it, and the page drawn anew when there is more to see."""

from __future__ import annotations

import streamlit as st
from turnscope.library import ReplayJob
from turnscope.numbering import format_request

from pages.debugger.policy_replay import Replay
from pages.parts import widgets
from pages.parts.formats import escape

POLL = 0.5  # seconds


def draw(run: ReplayJob, replay: Replay | None) -> None:
    """Draw it where the page shows less than the whole `replay`; nothing otherwise.

    Args:
        run: the replay under way.
        replay: the part of it that is shown, if any.
    """
    if replay and replay.is_whole:
        return
    shown = len(replay.trace.plans) if replay else 0

    def draw_progress() -> None:
        if run.error:
            widgets.rerun_page()
        run.poll()
        if len(run.stage or ()) != shown:
            widgets.rerun_page()
        with st.container(key="replay-bar", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(_render_line(run, shown), width="stretch")
            if run.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key="replay.cancel", on_click=run.cancel)
            elif run.state == "cancelled":
                st.button("Go on", icon=":material/play_arrow:", key="replay.on", on_click=run.resume)

    st.fragment(draw_progress, run_every=POLL)()


def _render_line(run: ReplayJob, shown: int) -> str:
    """How far it is, and how many requests the page shows."""
    first = f"Below: the first {shown:,} requests." if shown else "Nothing to show yet."
    if run.state == "running" and shown <= run.wanted < run.count:
        first += f" Request {format_request(run.wanted)} is shown as soon as it is planned."
    if run.state == "cancelled":
        state, more = f"Stopped after {run.done:,} of {run.count:,} requests", first
    else:
        state, more = f"Replaying {run.done:,} of {run.count:,} requests …", first
    share = run.done / max(1, run.count)
    return (
        f'<div class="replay-line" role="status"><b>{escape(state)}</b> <span>{escape(more)}</span>'
        f'<i><em style="width:{share:.1%}"></em></i></div>'
    )
