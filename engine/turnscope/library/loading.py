"""From a path to a session: reading only. Nothing here knows a price, so that the app opens at once.

While a long file is read, another process already counts its texts.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnscope.counting.tokens import count_while_reading
from turnscope.library.joining import join_thread
from turnscope.reading import contents, registry
from turnscope.reading.containers import open_source
from turnscope.reading.importer import Place
from turnscope.reading.source import Entry, Source
from turnscope.session.model import Session, Sessions
from turnscope.session.portable import make_wrong_type_error
from turnscope.session.thread import Thread
from turnscope.settings import detect_machine

atexit.register(gc.freeze)  # at exit, do not walk over all sessions again: that would take as long as closing the app

LONG_FILE = 1_000_000  # bytes of a file that takes longer to read than a vocabulary to load


@contextmanager
def pause_gc() -> Iterator[None]:
    """Switch the garbage collector off while a session is made.

    A third of the reading time would go there and find nothing, because what is dropped meanwhile has no cycles.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def load_all(path: Path | str) -> Sessions:
    """Load every session of a file as a tuple, the main one first. TurnscopeError with a hint: it cannot be read.

    >>> [session.title for session in turnscope.load_all("sample_sessions/cache-goes-cold.jsonl")]
    ['High water an hour late since Sunday']
    """
    source = open_source(Path(path))
    return Sessions(contents.read_source(source, lambda thread, entry: join_thread(thread, source, entry)))


def load(path: Path | str, entry: Entry | str = "") -> Session:
    """Load a session of a file, folder, archive or database, with its subagents and branches.

    Args:
        path: where it lies.
        entry: which one of several, as `entries` lists them, or its id; "" = the main one.

    Raises:
        TurnscopeError: it cannot be read; its `hint` says what to do.

    >>> session = turnscope.load("sample_sessions/tool-results-eat-the-window.jsonl")
    >>> len(session.requests), len(session.blocks), len(session.subagents)
    (325, 879, 1)
    """
    return thread(path, entry).session


def thread(path: Path | str, entry: Entry | str = "") -> Thread:
    """Load a conversation as a thread, the tree of all its messages.

    Args:
        path: where it lies.
        entry: which one of several, as `entries` lists them, or its id; "" = the main one.

    Raises:
        TurnscopeError: it cannot be read; its `hint` says what to do.

    >>> turnscope.thread("sample_sessions/cache-goes-cold.jsonl").leaves
    ('d9487e17-7279-42b9-8e29-af6015ee7538',)
    """
    return read_thread(open_source(Path(path)), entry.id if isinstance(entry, Entry) else entry)


def get_session(source: Session | Thread | Path | str) -> Session:
    """The session itself, that of a thread, or the main one of a path. TurnscopeError: it is none of these."""
    if isinstance(source, Session):
        return source
    if isinstance(source, Thread):
        return source.session
    if isinstance(source, (str, Path)):
        return load(source)
    raise make_wrong_type_error(source)


def read_thread(source: Source, entry: str = "", *, alone: bool = False) -> Thread:
    """Read a conversation of a source, joined with what a tap recorded of it.

    Args:
        source: the source.
        entry: id of its entry; "" = the main one.
        alone: leave out what a tap recorded.

    Raises:
        TurnscopeError: it cannot be read.
    """
    if source.kind != "file" or source.size <= LONG_FILE:
        with pause_gc():
            found = contents.read_entry(source, entry)
            return found if alone else join_thread(found, source, entry)
    with pause_gc(), count_while_reading() as source.on_text:  # its texts are counted next
        found = contents.read_entry(source, entry)
        return found if alone else join_thread(found, source, entry)


def entries(path: Path | str) -> Iterator[Entry]:
    """List the conversations at a path without reading them, the main one first. The list is lazy.

    >>> listed = [entry.id for entry in turnscope.entries("sample_sessions")]
    >>> listed[0], turnscope.load("sample_sessions", listed[0]).title
    ('cache-goes-cold.jsonl', 'High water an hour late since Sunday')
    """
    return contents.list_entries(open_source(Path(path)))


def find_places() -> tuple[tuple[str, Place], ...]:
    """Find where known tools keep their sessions on this machine, each with the title of its format."""
    return tuple((importer.title.partition(" (")[0], place) for importer, place in registry.find_places(detect_machine()))


def list_tool_folders() -> tuple[Path, ...]:
    """List the folders in which known tools would keep their sessions on this machine, also where there is none yet."""
    machine = detect_machine()
    return tuple(place.folder for importer in registry.find_importers() for place in importer.finds(machine))


def get_tool_title(source: str) -> str:
    """The title of a session's format, by the name of its importer (`Session.source`)."""
    title = next((importer.title for importer in registry.find_importers() if importer.name == source), source)
    return title.partition(" (")[0]
