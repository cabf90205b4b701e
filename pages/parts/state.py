"""The state of the app: the URL says what is shown, and the only caches are here.

`?session=<id>&part=<k>&request=<n>`; of a file with several conversations, `<id>:<conversation>` is another one than the main
one. A session is looked up in the registry; what a URL says is never joined into a path.
OpenedSession sessions are shared between browser tabs and treated as values.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import streamlit as st
import turnscope
from turnscope import Session, Trace, figures, library, settings
from turnscope.library import (
    ExactCounts,
    Ledger,
    OpenedSession,
    Progress,
    SessionFollower,
    Store,
    exact_available,
    iter_descendants,
)
from turnscope.library import index_queries as known_lines
from turnscope.live import threads
from turnscope.views import overview as views
from turnscope.views import request_summary, slots, text_search
from turnscope.views.findings import Finding

from pages.parts import registry
from pages.parts.registry import Entry

FOLDERS_SECONDS = 4  # for how long a listing of folders is good enough
LISTED = 300  # sessions in the list of the header
NEWEST = 10**9  # a request beyond every session's end: the last one


@dataclass(frozen=True, slots=True)
class Part:
    """A session, or one that hangs from it (`number` > 0): a branch or a subagent of any depth, opened when it is looked at.

    Of a branch: `parted` is the request before which it parts from the path that it left, -1 for all else, and `says` what is
    said first on it.
    """

    number: int
    label: str
    open: Callable[[], OpenedSession]
    parted: int = -1
    says: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
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
    shown: dict[int, Shown] = field(default_factory=dict)
    counting: bool = False  # exact counts were asked for
    exact: bool = False  # and are all in


# What is shown: the URL


def entries() -> dict[str, Entry]:
    """Everything that can be opened, by id."""
    files = _files(settings.read_path_to_open(), library.find_places())
    known = {entry.id: entry for entry in files}
    with suppress(turnscope.TurnscopeError):  # the library says what is wrong with the database
        more = _indexed(str(store().index_path), known_lines.read_version(store().index_path), files)
        files += more
        known |= {entry.id: entry for entry in more}
        for entry in registry.recents(store().list_recent(), files):
            known.setdefault(entry.id, entry)
        return known | {entry.id: entry for entry in registry.chats(chats_file())}
    return known


def near(shown: Shown | None) -> dict[str, Entry]:
    """Of these the first ones, and what is shown: as many as a list can hold. The library has them all."""
    known = entries()
    listed = dict(islice(known.items(), LISTED))
    return listed if shown is None or shown.entry.file not in known else listed | {shown.entry.file: known[shown.entry.file]}


def titles() -> dict[str, str]:
    """Titles of the sessions that were opened before, by the path of their file; of several in a file the one opened last."""
    with suppress(turnscope.TurnscopeError):
        return {row.path: row.title for row in reversed([*store().list_recent()]) if row.title}
    return {}


def chats_file() -> Path:
    """Where live chats are kept."""
    return settings.find_database()


@st.cache_resource(
    ttl=FOLDERS_SECONDS,
    max_entries=4,
    show_spinner=False,
    hash_funcs={library.Place: lambda place: (place.folder, place.pattern)},
)
def _files(given: Path | None, places: tuple[tuple[str, library.Place], ...]) -> tuple[Entry, ...]:
    return registry.files(given, places)


@st.cache_resource(max_entries=2, show_spinner=False)
def lines(path: str, version: tuple[int, ...]) -> tuple[library.IndexRow, ...]:  # noqa: ARG001  what the cache goes by
    """The index of the library."""
    return known_lines.list_sessions(store().index_path)


@st.cache_resource(ttl=FOLDERS_SECONDS, max_entries=4, show_spinner=False)
def _indexed(path: str, version: tuple[int, ...], _files: tuple[Entry, ...]) -> tuple[Entry, ...]:
    return tuple(registry.indexed(lines(path, version), _files))


def index_chats() -> None:
    """Bring chats in the index up to date, and take those out that are deleted. Only what changed is read."""
    with suppress(turnscope.TurnscopeError):  # the library says what is wrong with the database
        library.index_chats(store().index_path, threads.Threads(chats_file()))


def at_path(path: str) -> Entry | None:
    """The entry of a file, or of a chat in the index; None where it is not known any more."""
    if thread := library.get_chat_thread(path):
        return entries().get(f"thread-{thread}")
    return next(
        (entry for entry in entries().values() if str(entry.path) == path and entry.origin not in ("recent", "chat")), None
    )


def entry() -> Entry | None:
    """The session that the URL names, else the one last looked at, else a given file, else the first sample."""
    known = entries()
    wanted = st.query_params.get("session") or st.session_state.get("state.session")
    if wanted:
        return registry.find(known, wanted)
    given = next((entry for entry in known.values() if entry.origin == "given"), None)
    return given or known.get(registry.FIRST) or next(iter(known.values()), None)


def found_by(id: str) -> Entry | None:
    """What an id names; None where that is not known."""
    return registry.find(entries(), id)


def conversations(entry: Entry) -> registry.Conversations:
    """What the file of an entry holds; nothing where it cannot be read."""
    with suppress(turnscope.TurnscopeError):
        if entry.origin != "chat" and entry.path.exists():
            return _conversations(str(entry.path), version(entry))
    return registry.Conversations()


@st.cache_resource(max_entries=8, show_spinner=False)
def _conversations(path: str, version: str) -> registry.Conversations:  # noqa: ARG001  what the cache goes by
    return registry.conversations(Path(path))


def part() -> int:
    """Which session of the file the URL names."""
    return _number("part", 0)


def request(shown: Shown) -> int:
    """The request that the URL names, inside the session; where it names none, the one to show first."""
    last = max(0, len(shown.view) - 1)
    return max(0, min(last, _number("request", request_summary.find_opening_request(shown.view))))


def _number(name: str, otherwise: int) -> int:
    try:
        return int(st.query_params.get(name, ""))
    except ValueError:
        return otherwise


def go(request: int) -> None:
    """Show another request."""
    st.query_params["request"] = str(request)


def choose(entry_id: str, part: int = 0, request: int | None = None) -> None:
    """Show another session, or another part of it, at the request that it opens with, or at that one."""
    st.session_state["state.session"] = entry_id
    st.session_state.pop("state.query", None)
    more = ({"part": str(part)} if part else {}) | ({} if request is None else {"request": str(request)})
    st.query_params.from_dict({"session": entry_id} | more)


def remember(shown: Shown, request: int) -> None:
    """Keep URL and memory equal: a switch of pages drops the query, a reload drops the memory."""
    st.session_state["state.session"] = shown.entry.id
    wanted = {"session": shown.entry.id, "request": str(request)} | ({"part": str(shown.part)} if shown.part else {})
    st.session_state["state.query"] = wanted
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def recall() -> None:
    """After a switch of pages, put back what the URL said."""
    if "session" not in st.query_params and "state.query" in st.session_state:
        st.query_params.from_dict(st.session_state["state.query"])


def forget() -> None:
    """Drop the session last looked at, so that the next page begins anew."""
    for key in ("state.session", "state.query"):
        st.session_state.pop(key, None)
    st.query_params.clear()


# What is open: the caches


def store() -> Store:
    """What is remembered between runs."""
    return Store(settings.find_database())


@st.cache_resource(max_entries=8, show_spinner=False)
def _slot(entry_id: str, path: str, version: str) -> _Slot:  # noqa: ARG001  what the cache goes by
    return _Slot()


def version(entry: Entry) -> str:
    """Changes when the file does, also where its newest writes are in a log beside it."""
    try:
        modified, size = registry.state_of(entry.path)
    except OSError:
        return entry.key
    return f"{modified}:{size}"


def _room(entry: Entry) -> _Slot:
    return _slot(entry.id, str(entry.path), version(entry))


def is_open(entry: Entry) -> bool:
    """Whether opening it would be instant."""
    return _room(entry).opened is not None


def opened(entry: Entry, part: int = 0, progress: Progress | None = None, *, live: bool = False) -> Shown:
    """Open a session, or give the one that is open. `live`: read on where it grew. Raises `TurnscopeError`s."""
    slot = _room(entry)
    with slot.lock:
        if slot.opened is None and entry.origin == "chat":
            slot.opened = threads.open_thread(threads.Threads(entry.path), entry.key, version(entry))
        if slot.opened is None and live:
            slot.opened = follow(entry).open()
        if slot.opened is None:
            kept = store().reopen(entry.key) if entry.key and not entry.path.exists() else None
            slot.opened = kept or store().open(
                entry.path, entry=entry.inside, name=entry.name, progress=progress, keeper=_unkept().put
            )
        if entry.origin != "chat":
            _sharpen(slot, slot.opened)
        if part not in slot.shown:
            slot.shown[part] = _shown(entry, slot.opened, part)
            settle()
        return slot.shown[part]


@st.cache_resource(show_spinner=False)
def _unkept() -> SimpleQueue[Callable[[], None]]:
    """What writes to the disk what was read: it takes a third of the time that opening takes, and nobody has to wait for it."""
    return SimpleQueue()


def keep() -> None:
    """Have what was read kept on disk, beside. For the end of a script run: then the page is drawn."""
    if not _unkept().empty():
        # a daemon: where it is cut short, the session is read again from its file
        Thread(target=_drain, args=(_unkept(),), name="keeping", daemon=True).start()


def _drain(waiting: SimpleQueue[Callable[[], None]]) -> None:
    with suppress(Empty):
        while True:
            waiting.get_nowait()()


@st.cache_resource(max_entries=2, show_spinner=False)
def _following(path: str, inside: str) -> SessionFollower:
    return SessionFollower(Path(path), inside)


def follow(entry: Entry) -> SessionFollower:
    """What is known of a session that grows, so that only what is new has to be read. Raises `TurnscopeError`s."""
    return _following(str(entry.path), entry.inside)


def _sharpen(slot: _Slot, opened: OpenedSession) -> None:
    """Have the session counted exactly in the background, and take the counts over once they are all there."""
    if slot.exact or not exact_available():
        return
    worker = _counting()
    settled, asked = worker.progress
    if slot.counting and settled < asked:
        return
    found = store().recount(opened, worker)
    slot.exact, slot.counting = slot.counting, True
    if found is not opened:
        slot.opened = found
        slot.shown.clear()


@st.cache_resource(show_spinner=False)
def _counting() -> ExactCounts:
    """The one background process that counts with the models' own tokenizers."""
    return ExactCounts()


def settle() -> None:
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


def adopt(name: str, path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Open a file that will not stay where it is; gives the id under which it can be shown, and how much of it is not kept.

    Of a file with several conversations the first ones are opened, as many as are kept whole.
    """
    held = registry.conversations(path)
    main, ids = "", [entry.id for entry in held.listed[: library.MAX_SESSIONS]] or [""]
    for id in reversed(ids):
        found = store().open(path, entry=id if len(ids) > 1 else "", name=name, progress=progress)
        row = next(row for row in store().list_recent() if row.key == found.key)
        main = found.key[:16]
        _slot(main, row.path, found.key).opened = found
    return main, len(held.listed) - len(ids) + held.more


def _shown(entry: Entry, main: OpenedSession, number: int) -> Shown:
    parts = tuple(_parts(main))
    number = number if 0 <= number < len(parts) else 0
    this = parts[number].open()
    view, findings = this.annotations
    return Shown(entry, f"{main.key}:{number}", number, view, findings, this, parts)


def _parts(main: OpenedSession) -> Iterator[Part]:
    """The main session and all that hang from it, nearest first."""
    yield Part(0, "Main session", lambda: main)
    for number, (depth, of, fork, own) in enumerate(iter_descendants(main.session), 1):
        indent = "– " * depth
        if fork < 0:
            yield Part(number, f"{indent}Subagent: {_label(own, len(own.requests))}", partial(_alone, main.key, own))
        else:
            label = f"{indent}Branch: {_label(own, of.count_branch_requests(fork))}"
            parted = sum(request.stop <= of.forks[fork].start for request in of.requests)
            says = next((block.text for block in own.blocks if block.text.strip()), own.title)
            yield Part(number, label, partial(_branch, main, of, fork), parted, says[:200])


def _label(session: Session, requests: int) -> str:
    return f"{session.title or session.id} ({requests} requests)"


def _branch(main: OpenedSession, session: Session, number: int) -> OpenedSession:
    """A branch of `session`: counted from where it parted, if that is the main session."""
    ledger = library.count_branch(session, number, main.build_ledger()) if session is main.session else None
    return _alone(main.key, session.branches[number], ledger)


def _alone(key: str, session: Session, ledger: Ledger | None = None) -> OpenedSession:
    trace = turnscope.replay(session, ledger=ledger)
    return OpenedSession(key, views.build_overview(trace), lambda: session, dict, session, trace)


@st.cache_resource(max_entries=24, show_spinner=False)
def heatmap(
    _shown: Shown,
    key: str,
    by: figures.Unit,
    measure: figures.Measure,
    scale: figures.Scale,
    theme: figures.Theme,
    each: bool = False,
    parted: bool = False,
) -> figures.Figure:
    """The heatmap of a session, made once per choice. `parted`: with a row for each slot."""
    parts = slots_of(_shown, key) if parted else None
    return figures.draw_heatmap(_shown.view, by, measure, scale, theme, trace=_shown.trace, each=each, parts=parts)


@st.cache_resource(max_entries=24, show_spinner=False)
def slots_of(_shown: Shown, key: str) -> slots.Slots | None:  # noqa: ARG001  what the cache goes by
    """What was put into the requests of a session, by slot; None where nothing was."""
    return slots.build_slots(_shown.trace, _shown.view)


@st.cache_resource(max_entries=24, show_spinner=False)
def sawtooth(_shown: Shown, key: str, theme: figures.Theme) -> figures.Figure:  # noqa: ARG001  what the cache goes by
    """The saw-tooth of a session, made once per theme."""
    return figures.draw_sawtooth(_shown.view, "requests", theme)


@st.cache_resource(max_entries=64, show_spinner=False)
def found(_shown: Shown, key: str, query: text_search.Query, start: int = 0) -> text_search.SearchResult:  # noqa: ARG001  what the cache goes by
    """Where a text appears in a session, a page of it. QueryError: the pattern is wrong, or takes too long."""
    return text_search.search(_shown.trace, query, start)
