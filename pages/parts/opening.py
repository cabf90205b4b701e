"""Sessions that are open: read from files, chats and the store, shared between browser tabs, and treated as values."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import streamlit as st
import turnscope
from turnscope import Session, Trace, library
from turnscope.library import (
    ExactCounts,
    Ledger,
    OpenedSession,
    Progress,
    SessionFollower,
    exact_available,
    iter_descendants,
)
from turnscope.live import threads
from turnscope.views import overview as views
from turnscope.views.findings import Finding

from pages.parts import cache, registry
from pages.parts.registry import Entry


@dataclass(frozen=True, slots=True)
class Part:
    """A session, or one that hangs from it (`number` > 0): a branch or a subagent of any depth, opened when it is looked at.

    Of a branch: `parted` is the request before which it parts from the path that it left, -1 for all else, and `says` what is
    shown first on it.
    """

    number: int
    label: str
    open: Callable[[], OpenedSession]
    fork_request: int = -1
    first_text: str = ""


@dataclass(frozen=True, slots=True)
class ShownSession:
    """A session on the screen. `key` names its content and its part of the file; `view` has cache breaks among its markers."""

    entry: Entry
    key: str
    part: int
    view: views.Overview
    findings: tuple[Finding, ...]
    opened: OpenedSession
    parts: tuple[Part, ...]

    @property
    def trace(self) -> Trace:
        """What was really sent, request by request."""
        return self.opened.trace


@dataclass(slots=True)
class _Slot:
    """Room for one opened file, filled outside Streamlit's cache so that progress can be drawn meanwhile."""

    lock: Lock = field(default_factory=Lock)
    opened: OpenedSession | None = None
    shown: dict[int, ShownSession] = field(default_factory=dict)
    counting: bool = False  # exact counts were requested
    exact: bool = False  # and are all in


def is_open(entry: Entry) -> bool:
    """Whether opening it would be instant."""
    return _find_slot(entry).opened is not None


def open_session(entry: Entry, part: int = 0, progress: Progress | None = None, *, live: bool = False) -> ShownSession:
    """Open a session, or give the one that is open.

    Args:
        entry: what is opened.
        part: number of a branch or subagent; 0 = the session itself.
        progress: called with how far it is.
        live: read on where it grew.

    Raises:
        TurnscopeError: it cannot be read.
    """
    slot = _find_slot(entry)
    with slot.lock:
        if slot.opened is None and entry.origin == "chat":
            slot.opened = threads.open_thread(threads.Threads(entry.path), entry.key, cache.read_version(entry))
        if slot.opened is None and live:
            slot.opened = follow_session(entry).open()
        if slot.opened is None:
            stored = cache.open_store().reopen(entry.key) if entry.key and not entry.path.exists() else None
            slot.opened = stored or cache.open_store().open(
                entry.path, entry=entry.inside, name=entry.name, progress=progress, keeper=_get_writes().put
            )
        if entry.origin != "chat":
            _count_exactly(slot, slot.opened)
        if part not in slot.shown:
            slot.shown[part] = _build_shown(entry, slot.opened, part)
            freeze_objects()
        return slot.shown[part]


def follow_session(entry: Entry) -> SessionFollower:
    """What is known of a session that grows, so that only what is new has to be read. Raises `TurnscopeError`s."""
    return _get_follower(str(entry.path), entry.inside)


def adopt_file(name: str, path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Open a file that will not stay where it is; gives the id under which it can be shown, and how much of it is not kept.

    Of a file with several conversations the first ones are opened, as many as are kept whole.

    Args:
        name: name of the file.
        path: where it is now.
        progress: called with how far it is.
    """
    conversations = registry.list_conversations(path)
    main, ids = "", [entry.id for entry in conversations.listed[: library.MAX_SESSIONS]] or [""]
    for id in reversed(ids):
        found = cache.open_store().open(path, entry=id if len(ids) > 1 else "", name=name, progress=progress)
        row = next(row for row in cache.open_store().list_recent() if row.key == found.key)
        main = found.key[:16]
        _get_slot(main, row.path, found.key, library.read_choices_state()).opened = found
    return main, len(conversations.listed) - len(ids) + conversations.more


def write_pending() -> None:
    """Have what was read kept on disk, in the background. For the end of a script run: then the page is drawn."""
    if not _get_writes().empty():
        # a daemon: where it is cut short, the session is read again from its file
        Thread(target=_run_writes, args=(_get_writes(),), name="keeping", daemon=True).start()


def freeze_objects() -> None:
    """Take what is open out of the garbage collector's sight.

    Streamlit runs a full collection after every script run. Over the objects of a long session that takes 300 ms, and no
    message reaches the browser meanwhile. Sessions are freed by reference counts all the same; what Streamlit keeps of a visit
    hangs in circles, so that what was taken out of sight before is looked at once more: nobody frees it otherwise.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's
        trim(0)  # what replays have left lies in pieces, 150 MB of them


@st.cache_resource(max_entries=8, show_spinner=False)
def _get_slot(entry_id: str, path: str, version: str, choices: str) -> _Slot:  # noqa: ARG001  what the cache goes by
    return _Slot()


def _find_slot(entry: Entry) -> _Slot:
    return _get_slot(entry.id, str(entry.path), cache.read_version(entry), library.read_choices_state())


@st.cache_resource(show_spinner=False)
def _get_writes() -> SimpleQueue[Callable[[], None]]:
    """What writes to the disk what was read: it takes a third of the time that opening takes, and nobody has to wait for it."""
    return SimpleQueue()


def _run_writes(waiting: SimpleQueue[Callable[[], None]]) -> None:
    with suppress(Empty):
        while True:
            waiting.get_nowait()()


@st.cache_resource(max_entries=2, show_spinner=False)
def _get_follower(path: str, inside: str) -> SessionFollower:
    return SessionFollower(Path(path), inside)


def _count_exactly(slot: _Slot, opened: OpenedSession) -> None:
    """Have the session counted exactly in the background, and take the counts over once they are all there."""
    if slot.exact or not exact_available():
        return
    worker = _get_counter()
    counted, total = worker.progress
    if slot.counting and counted < total:
        return
    found = cache.open_store().recount(opened, worker)
    slot.exact, slot.counting = slot.counting, True
    if found is not opened:
        slot.opened = found
        slot.shown.clear()


@st.cache_resource(show_spinner=False)
def _get_counter() -> ExactCounts:
    """The one background process that counts with the models' own tokenizers."""
    return ExactCounts()


def _build_shown(entry: Entry, main: OpenedSession, number: int) -> ShownSession:
    parts = tuple(_iter_parts(main))
    number = number if 0 <= number < len(parts) else 0
    this = parts[number].open()
    view, findings = this.annotations
    chosen = "".join(f":{each.window}" for each in view.evidence if each.kind == "chosen")
    return ShownSession(entry, f"{main.key}:{number}{chosen}", number, view, findings, this, parts)


def _iter_parts(main: OpenedSession) -> Iterator[Part]:
    """The main session and all that hang from it, nearest first."""
    yield Part(0, "Main session", lambda: main)
    for number, below in enumerate(iter_descendants(main.session), 1):
        depth, of, fork, own = below
        label = f"{'– ' * depth}{below.name}"
        if fork < 0:
            yield Part(number, f"{label} ({len(own.requests)} requests)", partial(_open_part, main.key, own))
        else:
            label = f"{label} ({of.count_branch_requests(fork)} requests)"
            parted = sum(request.stop <= of.forks[fork].start for request in of.requests)
            says = next((block.text for block in own.blocks if block.text.strip()), own.title)
            yield Part(number, label, partial(_open_branch, main, of, fork), parted, says[:200])


def _open_branch(main: OpenedSession, session: Session, number: int) -> OpenedSession:
    """A branch of `session`: counted from where it parted, if that is the main session."""
    ledger = library.count_branch(session, number, main.build_ledger()) if session is main.session else None
    return _open_part(main.key, session.branches[number], ledger)


def _open_part(key: str, session: Session, ledger: Ledger | None = None) -> OpenedSession:
    trace = turnscope.replay(session, ledger=ledger)
    return OpenedSession(key, views.build_overview(trace), lambda: session, dict, session, trace)
