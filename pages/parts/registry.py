"""What can be opened: samples, files given on the command line, Claude Code's own sessions, and those opened before.

Looks at the metadata of files alone; a file is read when somebody chooses it. Keeps nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.library import Recent
from engine.live.threads import Threads

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "sample_sessions"
FIRST = "tool-results-eat-the-window"  # the sample that a new visitor sees
MOST_FOUND = 500  # files listed; the newest ones
SUFFIXES = (".jsonl", ".json", ".yaml", ".yml")

Origin = Literal["sample", "given", "recent", "found", "chat"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A session file that can be opened. `size` bytes; `modified` seconds since the epoch; `key` = as the store knows it."""

    id: str
    name: str
    folder: str
    origin: Origin
    path: Path
    size: int = 0
    modified: float = 0.0
    key: str = ""


def files(given: Path | None, projects: Iterable[Path]) -> tuple[Entry, ...]:
    """Samples, then what was given, then what lies in Claude Code's folders. A subagent's file opens with its parent."""
    found = sorted(_entries("sample", SAMPLES.glob("*")), key=lambda entry: entry.name)
    if given is not None:
        found += _newest(_entries("given", given.rglob("*") if given.is_dir() else [given]))
    for folder in projects:
        found += _newest(_entries("found", folder.rglob("*.jsonl")))
    return tuple(found)


def recents(rows: Iterable[Recent], known: Iterable[Entry]) -> Iterator[Entry]:
    """Sessions opened before that are not among the known files: dropped on the page, moved, or from other folders."""
    paths = {str(entry.path) for entry in known}
    for row in rows:
        if row.path not in paths:
            path = Path(row.path)
            yield Entry(row.key[:16], row.name, path.parent.name, "recent", path, row.size, row.opened, row.key)


def chats(path: Path) -> Iterator[Entry]:
    """Live chats kept in the store at `path`, newest first. Their id begins with `thread-`; their key is the thread's own."""
    if path.exists():
        for row in Threads(path).list():
            yield Entry(f"thread-{row.id}", row.title or "Untitled chat", "live chat", "chat", path, 0, row.updated, row.id)


def _newest(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: -entry.modified)[:MOST_FOUND]


def _entries(origin: Origin, paths: Iterable[Path]) -> Iterator[Entry]:
    for path in paths:
        if path.suffix in SUFFIXES and path.parent.name != "subagents":
            try:
                stat = path.stat()
            except OSError:  # gone since it was listed
                continue
            name = path.stem if origin == "sample" else hashlib.sha256(str(path).encode()).hexdigest()[:12]
            yield Entry(name, path.name, path.parent.name, origin, path, stat.st_size, stat.st_mtime)
