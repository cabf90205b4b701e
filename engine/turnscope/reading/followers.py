"""A conversation that may grow while it is shown. Formats that allow it are read on; others are read again after a change."""

from __future__ import annotations

from pathlib import Path

from turnscope.reading.claims import find_claim
from turnscope.reading.containers import open_source
from turnscope.reading.contents import read_entry, warn_of_skipped
from turnscope.reading.importer import Follower
from turnscope.session.thread import Thread


class _Rereader:
    """A source whose format cannot be read on: it is read again after each change."""

    def __init__(self, path: Path, id: str) -> None:
        self.path, self.id = path, id
        self.version = ""
        self.read: Thread | None = None

    def thread(self) -> Thread:
        source = open_source(self.path)
        if self.read is None or source.version != self.version:
            self.version, self.read = source.version, read_entry(source, self.id)
        return self.read


class _Continued:
    """A file whose format is read on. What is not shown of it is told as it is of a file that was read as a whole."""

    def __init__(self, path: Path, follower: Follower) -> None:
        self.path, self.follower = path, follower

    def thread(self) -> Thread:
        read = self.follower.thread()
        return warn_of_skipped(read, self.path.stat().st_size)


def follow(path: Path, id: str = "") -> Follower:
    """Follow a conversation. Raises `TurnscopeError`s only.

    Args:
        path: Where it lies.
        id: Id of its entry; "" = the main one.
    """
    source = open_source(path)
    importer = find_claim(source)
    is_plain_file = source.kind == "file" and not id and "data" not in source.__dict__
    if importer is not None and importer.follow is not None and is_plain_file:
        return _Continued(path, importer.follow(path))
    return _Rereader(path, id)
