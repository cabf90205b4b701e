"""What the app knows between runs: the store, and listings of what can be opened, each kept for a few seconds.

Sessions that are open are in `opening`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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
from pages.parts.formats import make_unique
from pages.parts.registry import Entry

FOLDERS_SECONDS = 4  # for how long a listing of folders is good enough
LISTED = 300  # sessions in the list of the header


def open_store() -> Store:
    """What is remembered between runs."""
    return Store(settings.find_database())


def find_chats_file() -> Path:
    """Where live chats are kept."""
    return settings.find_database()


def list_entries() -> dict[str, Entry]:
    """Everything that can be opened, by id."""
    places = library.find_places()
    named = [(title, place.folder, place.pattern) for title, place in places]
    period = find_period(FOLDERS_SECONDS)
    files = _list_files(settings.read_path_to_open(), named, period, places)
    known = {entry.id: entry for entry in files}
    with suppress(turnscope.TurnscopeError):  # the library says what is wrong with the database
        index = open_store().index_path
        more = _list_indexed(str(index), known_lines.read_version(index), period, files)
        files += more
        known |= {entry.id: entry for entry in more}
        for entry in registry.iter_recents(open_store().list_recent(), files):
            known.setdefault(entry.id, entry)
        return known | {entry.id: entry for entry in registry.iter_chats(find_chats_file())}
    return known


def find_period(seconds: float) -> int:
    """Number of the current period: what is cached by it is made anew in the next one.

    Streamlit's own way, `cache_resource(ttl=...)`, raises KeyError where an entry expires while it is read.

    Args:
        seconds: length of a period.
    """
    return int(time.monotonic() // seconds)


def list_first_entries(file: str) -> dict[str, Entry]:
    """Of these the first ones, and the one with the id `file`: as many as a list can hold. The library has them all."""
    known = list_entries()
    listed = dict(islice(known.items(), LISTED))
    return listed | {file: known[file]} if file in known else listed


def name_entries(known: Mapping[str, Entry]) -> dict[str, str]:
    """What sessions are called in a picker, by their ids. Those that were opened before have their title."""
    titles = _list_titles()
    return make_unique({id: registry.name_entry(entry, titles.get(str(entry.path), "")) for id, entry in known.items()})


def _list_titles() -> dict[str, str]:
    """Titles of the sessions that were opened before, by the path of their file; of several in a file the one opened last."""
    with suppress(turnscope.TurnscopeError):
        return {row.path: row.title for row in reversed([*open_store().list_recent()]) if row.title}
    return {}


def find_entry(id: str) -> Entry | None:
    """What an id names; None where that is not known."""
    return registry.find_entry(list_entries(), id)


def find_entry_at(path: str) -> Entry | None:
    """The entry of a file, or of a chat in the index; None where it is not known any more."""
    if thread := library.get_chat_thread(path):
        return list_entries().get(f"thread-{thread}")
    if key := library.get_dropped_key(path):
        return next((entry for entry in list_entries().values() if entry.key == key), None)
    return next(
        (entry for entry in list_entries().values() if str(entry.path) == path and entry.origin not in ("recent", "chat")), None
    )


def list_conversations(entry: Entry) -> registry.Conversations:
    """What the file of an entry holds; nothing where it cannot be read."""
    with suppress(turnscope.TurnscopeError):
        if entry.origin != "chat" and entry.path.exists():
            return _list_conversations(str(entry.path), read_version(entry))
    return registry.Conversations()


def read_version(entry: Entry) -> str:
    """Changes when the file does, also where its newest writes are in a log next to it."""
    try:
        modified, size = registry.read_state(entry.path)
    except OSError:
        return entry.key
    return f"{modified}:{size}"


def open_chat_store() -> threads.Threads:
    """The store of live chats."""
    return threads.Threads(find_chats_file())


@st.cache_resource(max_entries=2, show_spinner=False)
def list_index_rows(path: str, version: tuple[int, ...]) -> tuple[library.IndexRow, ...]:  # noqa: ARG001  what the cache goes by
    """The index of the library.

    Args:
        path: the index.
        version: its version; another one is read anew.
    """
    return known_lines.list_rows(open_store().index_path)


def index_stored() -> None:
    """Index chats, and opened sessions without a file; what is deleted leaves. Only what changed is read."""
    with suppress(turnscope.TurnscopeError):  # the library says what is wrong with the database
        library.index_chats(open_store().index_path, open_chat_store())
        library.index_dropped(open_store())


@st.cache_resource(max_entries=2, show_spinner=False)
def _list_files(
    path: Path | None,
    named: list[tuple[str, Path, str]],  # noqa: ARG001 - what tells places apart, also those of packages
    period: int,  # noqa: ARG001 - what the cache goes by
    _places: tuple[tuple[str, library.Place], ...],
) -> tuple[Entry, ...]:
    return registry.list_files(path, _places)


@st.cache_resource(max_entries=2, show_spinner=False)
def _list_indexed(path: str, version: tuple[int, ...], period: int, _files: tuple[Entry, ...]) -> tuple[Entry, ...]:  # noqa: ARG001
    return tuple(registry.iter_indexed(list_index_rows(path, version), _files))


@st.cache_resource(max_entries=8, show_spinner=False)
def _list_conversations(path: str, version: str) -> registry.Conversations:  # noqa: ARG001  what the cache goes by
    return registry.list_conversations(Path(path))
