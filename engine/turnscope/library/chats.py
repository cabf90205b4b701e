"""Turnscope's own chats in the index: added, updated, and removed when they are deleted.

A chat is indexed under a name that no path has. The index only ever holds one user's chats. What a chat shares with the thread
or session that it continues was spent there, so it is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from turnscope.errors import TurnscopeError
from turnscope.library.indexing import build_entry, get_reader_version
from turnscope.library.loading import pause_gc
from turnscope.reading.source import Source
from turnscope.storage import library_index as kept
from turnscope.storage.library_index import IndexedSession, Problem
from turnscope.storage.threads import Threads, ThreadSummary

SCHEME, TOOL = "chat:", "Live chat"


def get_chat_source(thread: str) -> str:
    """The name of a chat in the index."""
    return SCHEME + thread


def get_chat_thread(source: str) -> str:
    """The thread behind a name in the index; "" = it is a file."""
    return source.removeprefix(SCHEME) if source.startswith(SCHEME) else ""


def list_changed(path: Path, threads: Threads) -> tuple[ThreadSummary, ...]:
    """List the user's chats that have changed since they were indexed, and remove deleted ones from the index. Reads no chat.

    Args:
        path: the index.
        threads: the user's chats.

    Raises:
        StorageError: the index cannot be written.
    """
    known = {source: stamp for source, stamp in kept.read_stamps(path).items() if get_chat_thread(source)}
    looks = {get_chat_source(look.thread): look for look in threads.list_summaries()}
    if gone := known.keys() - looks.keys():
        kept.drop(path, sorted(gone))
    return tuple(look for source, look in looks.items() if known.get(source) != _build_stamp(look))


def index_chats(path: Path, threads: Threads) -> int:
    """Bring the user's chats in the index up to date. Returns how many were read.

    Args:
        path: the index.
        threads: the user's chats.

    Raises:
        StorageError: the index cannot be written.
    """
    looks = list_changed(path, threads)
    for look in looks:
        _index_chat(path, threads, look)
    return len(looks)


def forget_chat(path: Path, thread: str) -> None:
    """Remove a deleted chat from the index, if there is one.

    Args:
        path: the index.
        thread: id of the chat.

    Raises:
        StorageError: the index cannot be written.
    """
    if path.exists():
        kept.drop(path, [get_chat_source(thread)])


def _index_chat(path: Path, threads: Threads, look: ThreadSummary) -> None:
    source, problem = get_chat_source(look.thread), None
    found: list[IndexedSession] = []
    try:
        with pause_gc():
            found = [*_build_entries(threads, look, source)]
    except TurnscopeError as error:
        problem = Problem(source, error.what, error.hint)
    kept.keep(path, source, stamp=_build_stamp(look), sessions=found, problem=problem)
    if not threads.holds(look.thread):  # it was deleted meanwhile
        kept.drop(path, [source])


def _build_entries(threads: Threads, look: ThreadSummary, source: str) -> Iterator[IndexedSession]:
    session = threads.load(look.thread)
    if not session.blocks:
        return
    shared = len(session.requests) - look.requests
    found = build_entry(session, Source(threads.path), where=source, entry="", title=TOOL, first=shared)
    spent = (row._replace(uid=f"{source}:{n}") for n, row in enumerate(found.costs))
    size = sum(len(block.text) for block in session.blocks)
    # ratings are counted where they are stored
    line = structs.replace(found.row, name="", project="live chat", size=size, good=0, rated=0)
    line = structs.replace(line, title=look.title or line.title, ended=look.updated)
    yield replace(found, row=line, costs=tuple(spent))


def _build_stamp(look: ThreadSummary) -> str:
    return f"{look.stamp}:{get_reader_version()}"
