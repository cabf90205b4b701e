"""Indexing on the page: what to index, how far it is, a button to stop it, and what could not be read and why."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import streamlit as st
from turnscope import TurnscopeError, library, settings
from turnscope.library import IndexJob, user_file

from pages.parts import cache, cards, registry, widgets
from pages.parts.formats import escape

POLL = 0.5  # seconds
PATIENCE = 0.3  # seconds that a page waits for chats which changed
MOST = 100  # problems listed
FRESH = "indexing.chats_fresh"
FILE = "library.json"  # what the user chose
AUTOMATIC = True  # tests index when they say so
RESTS = 60.0  # seconds since its last change after which a file that grows is indexed again


class _Jobs:
    """The jobs of this app, of which one runs at a time; several tabs watch them."""

    def __init__(self) -> None:
        self.job: IndexJob | None = None  # that somebody requested
        self.own: IndexJob | None = None  # that began by itself
        self.chats: Thread | None = None
        self.looked: dict[Path, float] = {}  # sources that were indexed by themselves, and when they had been changed


@st.cache_resource(show_spinner=False)
def _get_jobs() -> _Jobs:
    return _Jobs()


def stop_job() -> None:
    """Stop them, and forget what they came to."""
    room = _get_jobs()
    for job in (room.job, room.own):
        if job:
            job.cancel()
            job.wait(10)
    room.job = room.own = None
    room.looked.clear()


def start_job(sources: Iterable[Path]) -> None:
    """Index these on request, unless that is under way. What began by itself stops, and goes on afterwards."""
    room = _get_jobs()
    if not _is_running(room.job):
        stop_job()
        room.job = IndexJob(cache.open_store().index_path, sources)


def _is_running(job: IndexJob | None) -> bool:
    return job is not None and job.state == "running"


def set_automatic(*, value: bool) -> None:
    """Whether sessions are indexed by themselves; it lasts. TurnscopeError: it cannot be written."""
    user_file.write_file(settings.find_library_file(FILE), {"automatic": value})


def is_automatic() -> bool:
    """Whether sessions are indexed by themselves: until somebody stops it, or has them forgotten."""
    with suppress(TurnscopeError):
        return AUTOMATIC and user_file.read_file(settings.find_library_file(FILE), dict[str, bool], "").get("automatic", True)
    return False


def index_opened() -> None:
    """Bring the index up to date: chats and opened sessions at once, and meanwhile the files that tools keep here.

    What takes long goes on, and the page is drawn again at its end, once.
    """
    room = _get_jobs()
    if is_automatic() and not _is_running(room.job) and not _is_running(room.own):
        entries = [each for each in cache.list_entries().values() if each.origin in ("found", "given", "indexed")]
        entries += [each for each in _list_opened_samples() if each.path.exists()]
        if fresh := [each for each in entries if room.looked.get(each.path) != each.modified and not _is_being_written(each)]:
            room.looked |= {each.path: each.modified for each in fresh}
            room.own = IndexJob(cache.open_store().index_path, [each.path for each in fresh], processes=1)
    if st.session_state.pop(FRESH, False):  # drawn because that ended: to begin again would never end
        return
    if room.chats is None or not room.chats.is_alive():
        room.chats = Thread(target=cache.index_stored, name="indexing chats", daemon=True)
        room.chats.start()
    going = room.chats
    going.join(PATIENCE)

    def wait() -> None:
        if not going.is_alive():
            st.session_state[FRESH] = True
            widgets.rerun_page()

    if going.is_alive():
        st.fragment(wait, run_every=POLL)()


def _list_opened_samples() -> list[registry.Entry]:
    """Samples that somebody looked at."""
    with suppress(TurnscopeError):
        opened = {row.path for row in cache.open_store().list_recent()}
        return [each for each in cache.list_entries().values() if each.origin == "sample" and str(each.path) in opened]
    return []


def _is_being_written(entry: registry.Entry) -> bool:
    """Whether it will have changed in a moment: it is indexed when it rests, or when it was not indexed at all."""
    return entry.path in _get_jobs().looked and time.time() - entry.modified < RESTS


def draw() -> None:
    """What is indexed by itself, the button that does so where it was stopped, and what indexing came to."""
    found = [entry.path for entry in cache.list_entries().values() if entry.origin in ("found", "given")]
    room = _get_jobs()
    many = f"Index the {len(found):,} sessions found here" if len(found) != 1 else "Index the session found here"
    if found and not is_automatic():
        st.button(
            many,
            key="library.index",
            icon=":material/manage_search:",
            disabled=_is_running(room.job),
            on_click=_start_again,
            args=(found,),
            help="Read them in the background, to search them, to see what they cost and to filter by model and cost. "
            "New ones are then indexed by themselves.",
        )
    if room.own and (_is_running(room.own) or (room.own.problems and room.job is None)):
        _draw_progress(room.own)
    elif room.job:
        _draw_progress(room.job)


def _start_again(found: list[Path]) -> None:
    with suppress(TurnscopeError):
        set_automatic(value=True)
    start_job(found)


def _stop() -> None:
    """On request: what began by itself does not begin again."""
    room = _get_jobs()
    if _is_running(room.own):
        with suppress(TurnscopeError):
            set_automatic(value=False)
    for job in (room.job, room.own):
        if job:
            job.cancel()


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
            widgets.rerun_page()
        with st.container(key="index-bar", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(_render_line(job), width="stretch")
            if job.state == "running":
                st.button("Cancel", icon=":material/stop_circle:", key="library.index.cancel", on_click=_stop)
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
