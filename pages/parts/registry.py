"""What can be opened: samples, files given on the command line, what tools keep on this machine, and what was opened before.

Looks at the metadata of files alone; a file is read when somebody chooses it. Keeps nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import turnscope
from turnscope import library
from turnscope.library import CatalogueRow
from turnscope.live.threads import Threads

from pages.parts.formats import shorten

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "sample_sessions"
FIRST = "tool-results-eat-the-window"  # the sample that a new visitor sees
MOST_FOUND = 50_000  # files listed; the newest ones
MOST_LISTED = 300  # conversations of one file that are listed
SECONDS = 3.0  # for a look through a folder that somebody names; it may be the whole disk
MOST_COUNTED = 20_000  # and those after them that are counted
BETWEEN = ":"  # in an id, between that of the file and that of one conversation in it

Origin = Literal["sample", "given", "recent", "found", "indexed", "chat"]

ORIGINS = {"sample": "Sample", "given": "File", "recent": "Recent", "found": "Found", "indexed": "Indexed", "chat": "Chat"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder that can be opened, or one conversation `inside` it ("" = the main one).

    `size` bytes; `modified` seconds since the epoch; `key` = as the store knows it; `tool`: who keeps it, where that is known.
    """

    id: str
    name: str
    folder: str
    origin: Origin
    path: Path
    size: int = 0
    modified: float = 0.0
    key: str = ""
    tool: str = ""
    inside: str = ""

    @property
    def file(self) -> str:
        """The id of the file that it stands in."""
        return self.id.partition(BETWEEN)[0]

    def select(self, inside: str) -> Entry:
        """Another conversation of the same file; "" = the main one."""
        return replace(self, id=f"{self.file}{BETWEEN}{inside}" if inside else self.file, inside=inside, key="")


@dataclass(frozen=True, slots=True)
class Conversations:
    """What a file holds: the first ones, how many more there are, and whether there are more than that."""

    listed: tuple[library.Entry, ...] = ()
    more: int = 0
    beyond: bool = False

    @property
    def rest(self) -> str:
        """What is not listed, as a sentence; "" where all are."""
        return f"and {'more than ' if self.beyond else ''}{self.more:,} more" if self.more else ""


def list_files(path: Path | None, places: Iterable[tuple[str, library.Place]]) -> tuple[Entry, ...]:
    """Samples, then what was given, then what tools keep. What is part of a session opens with that.

    Args:
        path: a file or folder that was named on the command line; None = none.
        places: where tools keep their files, by tool.
    """
    samples = _iter_entries("sample", sorted(SAMPLES.glob("*.jsonl")))
    found = {entry.id: entry for tool, place in places for entry in _iter_entries("found", place.paths(), tool)}
    named: list[Entry] = []
    if path is not None:
        for entry in _sort_newest(_iter_entries("given", library.find_sources(path))):
            known = found.pop(entry.id, entry)  # where a tool keeps it, it was given all the same
            named.append(replace(entry, tool=known.tool))
    return (*samples, *named, *_sort_newest(found.values()))


def find_entry(known: Mapping[str, Entry], id: str) -> Entry | None:
    """What an id names: a file, or one conversation of it; None where the file is not known.

    Args:
        known: entries by id.
        id: the id.
    """
    file, _, inside = id.partition(BETWEEN)
    found = known.get(file)
    return found.select(inside) if found and inside else found


def name_entry(entry: Entry, title: str) -> str:
    """What a session is called in the picker: its title where it was opened before, its file, and where it comes from.

    Args:
        entry: the session.
        title: its title; "" = it was not opened before.
    """
    name = f"{shorten(title, 60)} · {shorten(entry.name, 40, 'tail')}" if title else shorten(entry.name, 80)
    return f"{name} ({entry.tool or ORIGINS[entry.origin]})"


def make_id(path: Path) -> str:
    """The id of a file or folder that is no sample."""
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def iter_indexed(lines: Iterable[library.IndexRow], known: Iterable[Entry]) -> Iterator[Entry]:
    """Files that are indexed and not among the known ones: those of a folder that was imported.

    Args:
        lines: rows of the index.
        known: files that are listed already.
    """
    paths = {str(entry.path) for entry in known}
    for line in lines:
        if line.path not in paths and not (library.get_chat_thread(line.path) or library.get_dropped_key(line.path)):
            paths.add(line.path)
            path = Path(line.path)
            yield Entry(
                make_id(path), line.name, path.parent.name, "indexed", path, line.size, line.ended or 0.0, tool=line.tool
            )


def iter_recents(rows: Iterable[CatalogueRow], known: Iterable[Entry]) -> Iterator[Entry]:
    """Sessions opened before that are not among the known files: dropped on the page, moved, or from other folders.

    Args:
        rows: sessions that were opened.
        known: files that are listed already.
    """
    paths = {str(entry.path) for entry in known}
    for row in rows:
        if row.path not in paths:
            path, id = Path(row.path), row.key[:16]
            yield Entry(id, row.name, path.parent.name, "recent", path, row.size, row.opened, row.key, inside=row.entry)


def iter_chats(path: Path) -> Iterator[Entry]:
    """Live chats kept in the store at `path`, newest first. Their id begins with `thread-`; their key is the thread's own."""
    if path.exists():
        for row in Threads(path).list():
            yield Entry(f"thread-{row.id}", row.title or "Untitled chat", "live chat", "chat", path, 0, row.updated, row.id)


def list_conversations(path: Path) -> Conversations:
    """What a file, folder or archive holds, as far as it is worth listing. TurnscopeErrors."""
    found = turnscope.entries(path)
    listed = tuple(islice(found, MOST_LISTED))
    more = sum(1 for _ in islice(found, MOST_COUNTED))
    return Conversations(listed, more, next(found, None) is not None)


def read_state(path: Path) -> tuple[int, int]:
    """When a file, its log, or the newest file of a folder was changed, in nanoseconds, and their bytes. OSErrors."""
    log = path.with_name(path.name + "-wal")
    parts = [*path.iterdir()] if path.is_dir() else [path, *([log] if log.exists() else [])]
    stats = [part.stat() for part in parts]
    return max((stat.st_mtime_ns for stat in stats), default=0), sum(stat.st_size for stat in stats)


def is_session(folder: Path) -> bool:
    """Whether a folder opens as one session, as the task folders of some tools do."""
    return any(path.is_file() and library.find_session_path(path) == folder for path in islice(folder.iterdir(), MOST_FOUND))


def list_folder(folder: Path) -> tuple[list[Entry], bool]:
    """What can be opened in a folder, the newest first, and whether all of it was looked through. OSErrors."""
    until, whole = time.monotonic() + SECONDS, True

    def walk() -> Iterator[Path]:
        nonlocal whole
        for at, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")] if Path(at) != folder else folders
            yield from (Path(at, name) for name in sorted(names))
            if time.monotonic() > until:
                whole = False
                return

    found = [*islice(library.find_session_paths(walk()), MOST_COUNTED)]
    return _sort_newest(_iter_entries("given", found)), whole and len(found) <= MOST_FOUND


def _sort_newest(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: -entry.modified)[:MOST_FOUND]


def _iter_entries(origin: Origin, paths: Iterable[Path], tool: str = "") -> Iterator[Entry]:
    for path in paths:
        try:
            modified, size = read_state(path)
        except OSError:  # gone since it was listed
            continue
        name = path.stem if origin == "sample" else make_id(path)
        yield Entry(name, path.name, path.parent.name, origin, path, size, modified / 1e9, tool=tool)
