"""Sessions in the index whose file is gone: those dropped on the page, moved or deleted after they were opened.

The store keeps them. In the index such a session is known under a name that no path has, until it is forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from turnscope.errors import TurnscopeError
from turnscope.library.indexing import build_entry, get_reader_version
from turnscope.library.loading import get_tool_title, pause_gc
from turnscope.library.store import CatalogueRow, Store
from turnscope.reading.source import Source
from turnscope.storage import library_index as kept
from turnscope.storage.library_index import IndexedSession, Problem

SCHEME = "opened:"


def get_dropped_source(key: str) -> str:
    """The name of a session in the index, by its key in the store."""
    return SCHEME + key


def get_dropped_key(source: str) -> str:
    """The key behind a name in the index; "" = it is a file or a chat."""
    return source.removeprefix(SCHEME) if source.startswith(SCHEME) else ""


def index_dropped(store: Store) -> int:
    """Index the opened sessions whose file is gone; those that were forgotten leave. Returns how many were read.

    Args:
        store: what is remembered of opened sessions.

    Raises:
        StorageError: the database or the index cannot be read or written.
    """
    known = {source: stamp for source, stamp in kept.read_stamps(store.index_path).items() if get_dropped_key(source)}
    rows = {get_dropped_source(row.key): row for row in store.list_recent() if not Path(row.path).exists()}
    if gone := known.keys() - rows.keys():
        kept.drop(store.index_path, sorted(gone))
    stamp = get_reader_version()
    fresh = [source for source in rows if known.get(source) != stamp]
    for source in fresh:
        sessions, problem = _read_session(store, rows[source], source)
        kept.keep(store.index_path, source, stamp=stamp, sessions=sessions, problem=problem)
    return len(fresh)


def _read_session(store: Store, row: CatalogueRow, source: str) -> tuple[list[IndexedSession], Problem | None]:
    try:
        with pause_gc():
            opened = store.reopen(row.key)
            if opened is None:
                return [], Problem(source, f"{row.name} is not stored any more", "Open the file again.")
            title = get_tool_title(row.source)
            made = build_entry(opened.session, Source(store.path), where=source, entry="", title=title)
    except TurnscopeError as error:
        return [], Problem(source, error.what, error.hint)
    ended = made.row.ended if made.row.started else row.opened
    line = structs.replace(made.row, name=row.name, size=row.size, ended=ended)
    return [replace(made, row=line)], None
