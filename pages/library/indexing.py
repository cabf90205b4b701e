"""Indexing on the page: what to index, how far it is, a button to stop it, and what could not be read and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import streamlit as st
from turnscope import library
from turnscope.library import IndexJob

from pages.parts import cache, cards
from pages.parts.formats import escape

POLL = 0.5  # seconds
PATIENCE = 0.3  # seconds that a page waits for chats which changed
MOST = 100  # problems listed
FRESH = "indexing.chats_fresh"


class _Jobs:
    """The one job of this app; several tabs watch it."""

    job: IndexJob | None = None
    chats: Thread | None = None


@st.cache_resource(show_spinner=False)
def _get_jobs() -> _Jobs:
    return _Jobs()


def stop_job() -> None:
    """Stop it, and forget what it came to."""
    if job := _get_jobs().job:
        job.cancel()
        job.wait(10)
    _get_jobs().job = None


def start_job(sources: Iterable[Path]) -> None:
    """Index these, unless that is under way."""
    room = _get_jobs()
    if room.job is None or room.job.state != "running":
        room.job = IndexJob(cache.open_store().index_path, sources)


def index_chats() -> None:
    """Bring our own chats in the index up to date. What takes long goes on, and the page is drawn again at its end, once."""
    room = _get_jobs()
    if st.session_state.pop(FRESH, False):  # drawn because that ended: to begin again would never end
        return
    if room.chats is None or not room.chats.is_alive():
        room.chats = Thread(target=cache.index_chats, name="indexing chats", daemon=True)
        room.chats.start()
    going = room.chats
    going.join(PATIENCE)

    def wait() -> None:
        if not going.is_alive():
            st.session_state[FRESH] = True
            st.rerun()

    if going.is_alive():
        st.fragment(wait, run_every=POLL)()


def draw() -> None:
    """The button for what tools keep here, and what indexing came to."""
    found = [entry.path for entry in cache.list_entries().values() if entry.origin in ("found", "given")]
    job = _get_jobs().job
    running = job is not None and job.state == "running"
    many = f"Index the {len(found):,} sessions found here" if len(found) != 1 else "Index the session found here"
    if found:
        st.button(
            many,
            key="library.index",
            icon=":material/manage_search:",
            disabled=running,
            on_click=start_job,
            args=(found,),
            help="Read them once, in the background, to search them, to see what they cost and to filter by model and cost",
        )
    if job is not None:
        _draw_progress(job)


def draw_folder_button(path: Path) -> None:
    """The button that indexes a folder."""
    st.button(
        "Index this folder",
        key="library.index-folder",
        icon=":material/manage_search:",
        on_click=start_job,
        args=(library.find_sources(path),),
        help="Read all of it once, in the background, to search it and to see what it cost",
    )


def _draw_progress(job: IndexJob) -> None:
    """How far it is, drawn anew by itself; when it ends the whole page is."""
    began = job.state == "running"

    def draw_job() -> None:
        if began and job.state != "running":
            st.rerun()
        with st.container(key="index-bar", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(_render_line(job), width="stretch")
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key="library.index.cancel", on_click=job.cancel)
        if job.problems:
            st.html(_render_problems(job))

    st.fragment(draw_job, run_every=POLL if began else None)()


def _render_line(job: IndexJob) -> str:
    of = f"of {job.count:,} files" if job.listed else f"of {job.count:,} files found so far"
    sentence = {
        "running": f"Indexing {job.done:,} {of} …",
        "done": f"Indexed {job.done:,} files",
        "cancelled": f"Stopped after {job.done:,} {of}",
        "failed": f"Stopped: {job.error}",
    }[job.state]
    same = job.done - job.fresh
    more = f"{job.sessions:,} sessions read, {same:,} files known already, {len(job.problems):,} not read"
    share = job.done / job.count if job.listed and job.count else 0.0
    return (
        f'<div class="ts-progress" role="status"><b>{escape(sentence)}</b> <span>{escape(more)}.</span>'
        f'<i><em style="width:{share:.1%}"></em></i></div>'
    )


def _render_problems(job: IndexJob) -> str:
    """What could not be read: how often for which reason, then file by file."""
    problems = [*job.problems]
    reasons = "".join(
        f'<div class="ts-note"><span class="warning">{count:,}</span><span>{"file" if count == 1 else "files"}</span>'
        f"<span>{escape(reason)}</span></div>"
        for reason, count in [*library.count_reasons(problems).items()][:20]
    )
    files = "".join(
        f'<div class="ts-note"><span></span><span></span><span>{escape(f"{each.path}: {each.what}. {each.hint}")}</span></div>'
        for each in problems[:MOST]
    )
    rest = f", the first {MOST} listed" if len(problems) > MOST else ""
    listed = f'<details class="ts-small"><summary>File by file{rest}</summary>{files}</details>'
    return cards.render_panel("Not read", reasons + listed, "1 file" if len(problems) == 1 else f"{len(problems):,} files")
