"""The tap on the page: start and stop it, what passes it, how each tool is led to it, and its recording by one click."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from turnscope import TurnscopeError
from turnscope.tap.apis import PORT
from turnscope.tap.service import RunningTap, get_service
from turnscope.tap.snippets import list_snippets
from turnscope.tap.traffic import TrafficState

from pages.library import upload
from pages.parts import cache, live, shell, widgets
from pages.parts.formats import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlit.elements.lib.column_types import ColumnConfig

POLL_SECONDS = 2
TITLE = "Tap: record what an agent really sends"
COLUMNS: dict[str, ColumnConfig] = {"Last request": st.column_config.DatetimeColumn(format="HH:mm:ss")}


def draw() -> None:
    """The section of the page."""
    service = get_service()
    running = service.running
    with st.expander(TITLE, icon=":material/sensors:", expanded=running is not None, key="library-tap"):
        if running is None:
            _draw_start(service.last)
            return
        has_passed = running.read_traffic().requests > 0
        _draw_traffic(running, has_passed=has_passed)
        with st.container(horizontal=True, gap="small"):
            help = None if has_passed else "Nothing has passed yet"
            icon = ":material/folder_open:"
            if st.button(
                "Open the recording",
                key="library.tap.open",
                type="primary",
                icon=icon,
                disabled=not has_passed,
                help=help,
                on_click=live.turn_on,
            ):
                _open_recording(running.path)
            if st.button("Stop the tap", key="library.tap.stop", icon=":material/stop_circle:"):
                service.stop()
                st.rerun()
        _draw_snippets(running)


def _draw_start(last: Path | None) -> None:
    hint = (
        "A tap passes requests on to their provider, unchanged, and records them with their answers: system prompt, tools, "
        "cache marks, and requests that no log holds. It runs on this machine until you stop it, or the app."
    )
    st.html(f'<div class="ts-small">{hint}</div>')
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="library-tap-start"):
        label = "Send all requests to (optional)"
        upstream = st.text_input(
            label, key="library.tap.upstream", placeholder="each tool's own provider", persist_state="session"
        )
        port = st.number_input("Port", 1, 65_535, PORT, key="library.tap.port", width=140, persist_state="session")
        if st.button("Start the tap", key="library.tap.start", type="primary", icon=":material/play_circle:"):
            try:
                get_service().start((upstream or "").strip(), int(port))
            except TurnscopeError as error:
                widgets.draw_notice(error.what, error.hint.replace("with --port", "above"))
            else:
                st.rerun()
        if (
            last
            and last.exists()
            and st.button("Open the last recording", key="library.tap.last", icon=":material/folder_open:")
        ):
            _open_recording(last)
    st.page_link(shell.find_page("help"), label="How a tap works", icon=":material/menu_book:", query_params={"page": "tap"})


@st.fragment(run_every=POLL_SECONDS)
def _draw_traffic(running: RunningTap, *, has_passed: bool) -> None:
    """What has passed so far, drawn anew by itself; with the first request the recording can be opened."""
    now = running.read_traffic()
    if get_service().running is not running or (now.requests and not has_passed):
        widgets.rerun_page()
    if running.problem:
        what = f"Recording fails: {running.problem}. Agents go on without it; {running.lost:,} requests are not recorded."
        widgets.draw_notice(what, "Make room on the disk, or stop the tap and start it again.")
    st.html(render_traffic(running.tap.address, now, running.lost))
    if now.clients:
        table: dict[str, Sequence[object]] = {
            "Client": [one.name for one in now.clients],
            "Requests": [one.requests for one in now.clients],
            "Errors": [one.errors for one in now.clients],
            "Last request": [_tell_time(one.last_at) for one in now.clients],
        }
        st.dataframe(table, key="library.tap.clients", column_config=COLUMNS, hide_index=True, height="auto")


def render_traffic(address: str, now: TrafficState, lost: int) -> str:
    """What has passed, in a line, as HTML.

    Args:
        address: The tap's address.
        now: What has passed.
        lost: Requests that are not recorded.
    """
    facts = [
        f"{now.requests:,} {'request' if now.requests == 1 else 'requests'}",
        f"{now.per_minute:,} in the last minute",
        f"{now.running:,} running",
        f"{now.errors:,} {'error' if now.errors == 1 else 'errors'}",
    ]
    facts += [f"{lost:,} not recorded"] if lost else []
    parts = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    at = f"{_tell_time(now.last_error_at):%H:%M:%S}"
    error = f'<div class="ts-small">Last error, at {at}: {escape(now.last_error)}</div>' if now.last_error else ""
    return f'<div class="ts-live" role="status"><i></i><b>{escape(address)}</b>{parts}</div>{error}'


def _tell_time(at: float) -> datetime:
    """A moment of the tap, by this machine's clock: the requests are its own."""
    return datetime.fromtimestamp(at).astimezone()


def _draw_snippets(running: RunningTap) -> None:
    snippets = {one.tool: one for one in list_snippets(running.tap.address, running.tap.upstreams)}
    chosen = st.pills("Lead a tool to it", list(snippets), default=next(iter(snippets)), key="library.tap.tool")
    if chosen:
        st.html(f'<div class="ts-small">{escape(snippets[chosen].where)}</div>')
        st.code(snippets[chosen].text, language=snippets[chosen].language, wrap_lines=True)


def _open_recording(path: Path) -> None:
    """Open a log where it lies: it is followed while it grows."""
    if entry := cache.find_entry_at(str(path)):
        upload.show_session(entry.id)
    upload.open_path(path)
