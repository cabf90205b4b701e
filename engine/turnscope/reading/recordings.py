"""Finds the recordings of a tap that may hold the sessions of a file, by the ids that requests name, and by the time.

The ids stand in the lines of its calls. They are read once: beside each recording lies a small file with a digest of each, and
of one that has grown only what is new is read.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from turnscope.atomic_file import replace_file
from turnscope.errors import TurnscopeError
from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.source import Source
from turnscope.reading.tap_log import MARK
from turnscope.session.model import Session
from turnscope.settings import find_tap_folder

MIN_ID = 16  # characters of an id; a shorter one stands in other texts by chance
LATE_SECONDS = 60.0  # how long after the last record of a tap a tool may still write its own log
INDEX_SUFFIX = ".ids"
FORMAT = 1  # of the files with digests; count up when they change
KEPT_BYTES = 1_000_000  # how much a recording has grown when its digests are written again
_ID = re.compile(r"[\w.-]{16,80}")
_BOUNDARY = re.compile(r"^|[-_.~]")
_CALL = b'{"call"'


@dataclass(frozen=True, slots=True)
class Recording:
    """A tap's log: digests of the words of its calls that may be ids, sorted, and when it was begun and last written."""

    path: Path
    ids: array[int] = field(compare=False)
    begun: float = 0.0
    ended: float = 0.0

    def has(self, id: str) -> bool:
        """Whether one of its requests has a word that may be an id."""
        wanted = _digest(id)
        at = bisect_left(self.ids, wanted)
        return len(id) >= MIN_ID and at < len(self.ids) and self.ids[at] == wanted

    def names(self, session: Session, path: Path) -> bool:
        """Whether its requests name a session.

        Args:
            session: The session.
            path: Where it lies.
        """
        stated = (session.about.get(key) for key in ("id", "sessionId"))
        ids = (session.id, *(one for one in stated if isinstance(one, str)))
        return any(map(self.has, ids)) or self.names_part(path)

    def names_part(self, path: Path) -> bool:
        """Whether its requests name the session of a file whose name ends with an id."""
        return any(self.has(path.stem[at.end() :]) for at in _BOUNDARY.finditer(path.stem))

    def saw(self, session: Session) -> bool:
        """Whether it was written while a session asked its model."""
        times = [request.sent_at for request in session.requests if request.sent_at is not None]
        return any(self.begun - LATE_SECONDS <= at <= self.ended + LATE_SECONDS for at in times)


def find_recordings(source: Source) -> list[Recording]:
    """Find the recordings that may hold sessions of a source: its name says so, or it was written while a tap ran.

    A database or a folder holds sessions of any time: all recordings may. An archive comes from somewhere else: none may.
    """
    folder = find_tap_folder()
    if source.kind == "zip" or folder in (source.path, source.path.parent) or not folder.is_dir():
        return []
    found, changed = list(_list_recordings(folder)), source.modified_at or 0.0
    if source.kind != "file":
        return found
    return [one for one in found if one.begun <= changed <= one.ended + LATE_SECONDS or one.names_part(source.path)]


@dataclass(slots=True)
class _Read:
    """What was read of a recording: up to which byte, when that was begun, and what was found. `size` 0 = it is none."""

    size: int = 0
    modified: int = 0
    begun: float = 0.0
    ids: array[int] = field(default_factory=lambda: array("Q"))
    kept: int = 0  # bytes of which the digests are on the disk


_known: dict[Path, _Read] = {}
_lock = Lock()


def _list_recordings(folder: Path) -> Iterator[Recording]:
    with _lock:
        for orphan in (path for path in folder.glob(f"*{INDEX_SUFFIX}") if not path.with_suffix(".jsonl").exists()):
            with suppress(OSError):
                orphan.unlink()
        for path in sorted(folder.glob("*.jsonl")):
            with suppress(OSError):
                stat = path.stat()
                read = _known.get(path) or _load(path)
                if (read.size, read.modified) != (stat.st_size, stat.st_mtime_ns):
                    read = _known[path] = _read_on(path, read if read.size < stat.st_size else _Read())
                    read.modified = stat.st_mtime_ns
                    _keep(path, read)
                if read.begun:
                    yield Recording(path, read.ids, read.begun, stat.st_mtime_ns / 1e9)


def _load(path: Path) -> _Read:
    """Load what an earlier process has read of a recording; nothing where that is missing or of another format."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        head, _, data = path.with_suffix(INDEX_SUFFIX).read_bytes().partition(b"\n")
        about = orjson.loads(head)
        if about["format"] == FORMAT:
            ids = array("Q")
            ids.frombytes(data)
            return _Read(int(about["size"]), int(about["modified"]), float(about["begun"]), ids, int(about["size"]))
    return _Read()


def _keep(path: Path, read: _Read) -> None:
    """Keep what was read, unless the recording has grown a little only, or the folder cannot be written."""
    if not read.begun or (read.kept and read.size - read.kept < KEPT_BYTES):
        return
    about = {"format": FORMAT, "size": read.size, "modified": read.modified, "begun": read.begun}
    with suppress(OSError, TurnscopeError), replace_file(path.with_suffix(INDEX_SUFFIX)) as part:
        part.write_bytes(orjson.dumps(about) + b"\n" + read.ids.tobytes())
        part.chmod(0o600)
        read.kept = read.size


def _read_on(path: Path, before: _Read) -> _Read:
    """Read what a recording says of its sessions, from where it was read up to before. A line that is not whole is left."""
    found = set(before.ids)
    with path.open("rb") as lines:
        if not before.size:
            head = as_mapping(parse_if_json(lines.readline(10_000).decode("utf-8", "replace")))
            begun = head.get("started_at") if MARK in head else None
            if not isinstance(begun, int | float):
                return _Read(path.stat().st_size)
            before = _Read(lines.tell(), begun=float(begun))
        lines.seek(before.size)
        size = before.size
        for line in lines:
            if not line.endswith(b"\n"):
                break
            size += len(line)
            if line.startswith(_CALL) and b'"headers"' in line:
                found.update(map(_digest, _list_words(parse_if_json(line.decode("utf-8", "replace")))))
    return _Read(size, 0, before.begun, array("Q", sorted(found)), before.kept)


def _list_words(record: Any) -> Iterator[str]:
    """List the words of a call that may be ids: those of its headers, and of its body what is no message."""
    fields = as_mapping(record)
    texts = fields.get("body")
    parts: Iterable[Any] = texts[::2] if isinstance(texts, list) else ()
    for text in chain(as_mapping(fields.get("headers")).values(), parts):
        if isinstance(text, str):
            yield from _ID.findall(text)


def _digest(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "replace"), digest_size=8).digest(), "big")
