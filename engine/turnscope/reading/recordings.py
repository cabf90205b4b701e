"""Finds the recordings of a tap that may hold the sessions of a file, by the ids that requests name, and by the time.

No recording is parsed for it: the ids stand in the lines of its calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.source import Source
from turnscope.reading.tap_log import MARK
from turnscope.session.model import Session
from turnscope.settings import find_tap_folder

MIN_ID = 16  # characters of an id; a shorter one stands in other texts by chance
LATE_SECONDS = 60.0  # how long after the last record of a tap a tool may still write its own log
_ID = re.compile(rb"[\w.-]{16,80}")
_BOUNDARY = re.compile(r"^|[-_.~]")
_CALL = b'{"call"'


@dataclass(frozen=True, slots=True)
class Recording:
    """A tap's log: the words of its calls that may be ids, and when it was begun and last written."""

    path: Path
    words: frozenset[str] = field(compare=False)
    begun: float = 0.0
    ended: float = 0.0

    def names(self, session: Session, path: Path) -> bool:
        """Whether its requests name a session.

        Args:
            session: The session.
            path: Where it lies.
        """
        stated = (session.about.get(key) for key in ("id", "sessionId"))
        ids = (session.id, *(one for one in stated if isinstance(one, str)))
        return any(len(id) >= MIN_ID and id in self.words for id in ids) or self.names_part(path)

    def names_part(self, path: Path) -> bool:
        """Whether its requests name the session of a file whose name ends with an id."""
        ends = (path.stem[at.end() :] for at in _BOUNDARY.finditer(path.stem))
        return any(len(end) >= MIN_ID and end in self.words for end in ends)

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


def _list_recordings(folder: Path) -> Iterator[Recording]:
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(OSError):
            stat = path.stat()
            if (found := _read_recording(path, stat.st_mtime_ns, stat.st_size)) is not None:
                yield found


@lru_cache(maxsize=512)
def _read_recording(path: Path, modified: int, _size: int) -> Recording | None:
    """Read what a log says of its sessions; None where it is none of a tap."""
    words: set[bytes] = set()
    with path.open("rb") as lines:
        head = as_mapping(parse_if_json(lines.readline(10_000).decode("utf-8", "replace")))
        if MARK not in head:
            return None
        for line in lines:
            if line.startswith(_CALL) and b'"headers"' in line:
                words.update(_ID.findall(line))
    begun = head.get("started_at")
    begun = float(begun) if isinstance(begun, int | float) else 0.0
    return Recording(path, frozenset(word.decode("utf-8", "replace") for word in words), begun, modified / 1e9)
