"""What the app knows between runs: the store, and listings of what can be opened, each kept for a few seconds.

Sessions that are open are in `opening`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

import streamlit as st
import turnscope
from turnscope import library, settings
from turnscope.library import (
    Store,
)
from turnscope.library import index_queries as known_lines
from turnscope.live import threads

from pages.parts import registry
from pages.parts.registry import Entry

FOLDERS_SECONDS = 4  # for how long a listing of folders is good enough
LISTED = 300  # sessions in the list of the header


def store() -> Store:
    """What is remembered between runs."""
    return Store(settings.find_database())


def chats_file() -> Path:
    """Where live chats are kept."""
    return settings.find_database()


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


def near(file: str) -> dict[str, Entry]:
    """Of these the first ones, and the one with the id `file`: as many as a list can hold. The library has them all."""
    known = entries()
    listed = dict(islice(known.items(), LISTED))
    return listed | {file: known[file]} if file in known else listed


def titles() -> dict[str, str]:
    """Titles of the sessions that were opened before, by the path of their file; of several in a file the one opened last."""
    with suppress(turnscope.TurnscopeError):
        return {row.path: row.title for row in reversed([*store().list_recent()]) if row.title}
    return {}


def found_by(id: str) -> Entry | None:
    """What an id names; None where that is not known."""
    return registry.find(entries(), id)


def at_path(path: str) -> Entry | None:
    """The entry of a file, or of a chat in the index; None where it is not known any more."""
    if thread := library.get_chat_thread(path):
        return entries().get(f"thread-{thread}")
    return next(
        (entry for entry in entries().values() if str(entry.path) == path and entry.origin not in ("recent", "chat")), None
    )


def conversations(entry: Entry) -> registry.Conversations:
    """What the file of an entry holds; nothing where it cannot be read."""
    with suppress(turnscope.TurnscopeError):
        if entry.origin != "chat" and entry.path.exists():
            return _conversations(str(entry.path), version(entry))
    return registry.Conversations()


def version(entry: Entry) -> str:
    """Changes when the file does, also where its newest writes are in a log beside it."""
    try:
        modified, size = registry.state_of(entry.path)
    except OSError:
        return entry.key
    return f"{modified}:{size}"


def chat_store() -> threads.Threads:
    """The store of live chats."""
    return threads.Threads(chats_file())


@st.cache_resource(max_entries=2, show_spinner=False)
def lines(path: str, version: tuple[int, ...]) -> tuple[library.IndexRow, ...]:  # noqa: ARG001  what the cache goes by
    """The index of the library."""
    return known_lines.list_sessions(store().index_path)


def index_chats() -> None:
    """Bring chats in the index up to date, and take those out that are deleted. Only what changed is read."""
    with suppress(turnscope.TurnscopeError):  # the library says what is wrong with the database
        library.index_chats(store().index_path, chat_store())


@st.cache_resource(
    ttl=FOLDERS_SECONDS,
    max_entries=4,
    show_spinner=False,
    hash_funcs={library.Place: lambda place: (place.folder, place.pattern)},
)
def _files(given: Path | None, places: tuple[tuple[str, library.Place], ...]) -> tuple[Entry, ...]:
    return registry.files(given, places)


@st.cache_resource(ttl=FOLDERS_SECONDS, max_entries=4, show_spinner=False)
def _indexed(path: str, version: tuple[int, ...], _files: tuple[Entry, ...]) -> tuple[Entry, ...]:
    return tuple(registry.indexed(lines(path, version), _files))


@st.cache_resource(max_entries=8, show_spinner=False)
def _conversations(path: str, version: str) -> registry.Conversations:  # noqa: ARG001  what the cache goes by
    return registry.conversations(Path(path))
