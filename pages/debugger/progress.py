"""A replay under way: how far it is, a button to stop it, and the page drawn anew when there is more to see."""

from __future__ import annotations

import streamlit as st
from turnscope.library import ReplayJob

from pages.debugger.policy_replay import Replay
from pages.parts.formats import escape

POLL = 0.5  # seconds
MEGABYTE = 1_000_000


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
            st.rerun()
        run.poll()
        if len(run.stage or ()) != shown:
            st.rerun()
        with st.container(key="replay-bar", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(_render_line(run, shown), width="stretch")
            if run.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key="replay.cancel", on_click=run.cancel)
            elif run.state == "cancelled":
                st.button("Go on", icon=":material/play_arrow:", key="replay.on", on_click=run.resume)

    st.fragment(draw_progress, run_every=None if run.state == "full" else POLL)()


def _render_line(run: ReplayJob, shown: int) -> str:
    """How far it is, and of how many requests the page tells."""
    first = f"Below: the first {shown:,} requests." if shown else "Nothing to show yet."
    if run.state == "cancelled":
        state, more = f"Stopped after {run.done:,} of {run.count:,} requests", first
    elif run.state == "full":
        size = f"{run.held / MEGABYTE:,.0f} MB"
        state = f"Stopped after {run.done:,} of {run.count:,} requests"
        more = f"What it decided so far fills {size}, the most that is held. {first}"
    else:
        state, more = f"Replaying {run.done:,} of {run.count:,} requests …", first
    share = run.done / max(1, run.count)
    return (
        f'<div class="replay-line" role="status"><b>{escape(state)}</b> <span>{escape(more)}</span>'
        f'<i><em style="width:{share:.1%}"></em></i></div>'
    )
