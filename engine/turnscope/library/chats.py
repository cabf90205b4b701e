"""Our own chats in the index of the library: found, added up, and gone from it when they are deleted.

A chat stands there under a name that no path has. Only one user's chats are ever in it. What a chat shares with the thread
or the session that it comes from was spent there, and is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from turnscope.errors import TurnscopeError
from turnscope.library.indexing import build_entry, get_reader_version
from turnscope.library.loading import pause_gc
from turnscope.reading.source import Source
from turnscope.storage import library_index as kept
from turnscope.storage.library_index import IndexedSession, Problem
from turnscope.storage.threads import Threads, ThreadSummary

SCHEME, TOOL = "chat:", "Live chat"


def get_chat_source(thread: str) -> str:
    """What stands in the index in place of a path."""
    return SCHEME + thread


def get_chat_thread(source: str) -> str:
    """The thread that a source of the index is; "" where it is a file."""
    return source.removeprefix(SCHEME) if source.startswith(SCHEME) else ""


def list_changed(path: Path, threads: Threads) -> tuple[ThreadSummary, ...]:
    """The user's chats that the index at `path` does not know as they are; what is no chat of theirs goes out of it.

    No chat is read for it. StorageError where the index cannot be written.
    """
    known = {source: stamp for source, stamp in kept.read_stamps(path).items() if get_chat_thread(source)}
    looks = {get_chat_source(look.thread): look for look in threads.list_summaries()}
    if gone := known.keys() - looks.keys():
        kept.drop(path, sorted(gone))
    return tuple(look for source, look in looks.items() if known.get(source) != _build_stamp(look))


def index_chats(path: Path, threads: Threads) -> int:
    """Bring the user's chats in the index at `path` up to date; gives how many were read. StorageError as above."""
    looks = list_changed(path, threads)
    for look in looks:
        _index_chat(path, threads, look)
    return len(looks)


def forget_chat(path: Path, thread: str) -> None:
    """Take a chat that is deleted out of the index, where there is one. StorageError where it cannot be written."""
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
    kept.keep(path, source, _build_stamp(look), found, problem)
    if not threads.holds(look.thread):  # it was deleted meanwhile
        kept.drop(path, [source])


def _build_entries(threads: Threads, look: ThreadSummary, source: str) -> Iterator[IndexedSession]:
    session = threads.load(look.thread)
    if not session.blocks:
        return
    shared = len(session.requests) - look.requests
    found = build_entry(session, Source(threads.path), source, "", TOOL, shared)
    spent = ((f"{source}:{n}", *row[1:]) for n, row in enumerate(found.costs))
    size = sum(len(block.text) for block in session.blocks)
    line = replace(found.row, name="", project="live chat", size=size, good=0, rated=0)  # ratings are counted where they stand
    yield IndexedSession(
        replace(line, title=look.title or line.title, ended=look.updated), tuple(spent), found.cuts, found.texts
    )


def _build_stamp(look: ThreadSummary) -> str:
    return f"{look.stamp}:{get_reader_version()}"
