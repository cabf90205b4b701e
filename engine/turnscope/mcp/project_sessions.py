"""The sessions of one project on this machine: the one that is asked for by its id, or the one that was written last."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from turnscope.errors import TurnscopeError
from turnscope.library.indexing import PROJECT_KEYS
from turnscope.library.loading import find_places
from turnscope.library.session_follower import SessionFollower
from turnscope.library.store import OpenedSession
from turnscope.reading.containers import open_source
from turnscope.reading.contents import list_entries, read_entry
from turnscope.reading.source import Source
from turnscope.session.model import Session

HEAD = 1 << 19  # bytes of a file in which the project's folder has to stand
MOST = 400  # files that are looked at, the newest first, and conversations of a database
MOST_READ = 20  # conversations of a database that are read where its list does not say of which project they are
DATABASE = b"SQLite format 3\0"


class _Found(NamedTuple):
    """A session that may be one of the project: when it was written, its file, and its entry in that ("" = the only one)."""

    at: float
    path: Path
    entry: str


class ProjectSessions:
    """Opens sessions of one project. What was opened is followed: the next time only what is new is read.

    Args:
        folder: the project.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._followers: dict[tuple[Path, str], SessionFollower] = {}
        self._stored: dict[tuple[Path, str], tuple[str, list[_Found]]] = {}  # by database and id, with its version
        self._lock = Lock()

    def open(self, id: str = "") -> OpenedSession:
        """Open a session as it is now.

        Args:
            id: its id, which is the name of its file or stands in it; "" = the one that was written last.

        Raises:
            TurnscopeError: the project has no such session.
        """
        with self._lock:
            for found in self._list_sessions(id):
                with suppress(TurnscopeError, OSError):
                    opened = self._follow(found).open()
                    names = (found.path.stem, found.entry.rpartition("#")[2], opened.session.id)
                    if self._holds(opened.session) and (not id or id in names):
                        return opened
            what = f"{self.folder} has no session {id!r}" if id else f"no session of {self.folder} was found on this machine"
            raise TurnscopeError(what, hint="Leave the id out for the session that was written last." if id else "")

    def _follow(self, found: _Found) -> SessionFollower:
        key = found.path, found.entry
        if key not in self._followers:
            entry = found.entry or next(entry.id for entry in list_entries(open_source(found.path)))
            self._followers = {key: SessionFollower(found.path, entry)}  # one is held: a session takes memory
        return self._followers[key]

    def _list_sessions(self, id: str) -> list[_Found]:
        """What may be a session of the project and have that id, the one that was written last first."""
        files = []
        for _, place in find_places():
            for path in place.paths():
                with suppress(OSError):
                    files.append(_Found(_find_time(path), path, ""))
        wanted = json.dumps(str(self.folder), ensure_ascii=False)[1:-1].encode()
        listed: list[_Found] = []
        for file in sorted(files, reverse=True)[:MOST]:
            head = _read_head(file.path)
            if head.startswith(DATABASE):
                with suppress(TurnscopeError, OSError):
                    listed += self._list_stored(file, id)
            elif wanted in head and (not id or file.path.stem == id or id.encode() in head):
                listed.append(file)
        return sorted(listed, reverse=True)

    def _list_stored(self, file: _Found, id: str) -> list[_Found]:
        """The same of a database, which holds sessions of every project. It is looked at again when it has changed."""
        source = open_source(file.path)
        known = self._stored.get((file.path, id))
        if known is None or known[0] != source.version:
            entries = sorted(list_entries(source), key=lambda entry: -(entry.at or file.at))[:MOST]
            named = [entry for entry in entries if not id or not entry.id or entry.id.rpartition("#")[2] == id]
            silent = [entry.id for entry in named if not entry.project][:MOST_READ]
            mine = {each for each in silent if self._is_stored_here(source, each)}
            mine |= {entry.id for entry in named if _is_below(entry.project, self.folder)}
            found = [_Found(entry.at or file.at, file.path, entry.id) for entry in named if entry.id in mine]
            known = self._stored[file.path, id] = source.version, found
        return known[1]

    def _is_stored_here(self, source: Source, entry: str) -> bool:
        with suppress(TurnscopeError, OSError):
            return self._holds(read_entry(source, entry).session)
        return False

    def _holds(self, session: Session) -> bool:
        """Whether a session is of the project: it was run in its folder, or below it."""
        folders = [value for key in PROJECT_KEYS if isinstance(value := session.about.get(key), str)]
        return any(_is_below(each, self.folder) for each in folders)


def _is_below(path: str, folder: Path) -> bool:
    return Path(path).is_absolute() and Path(path).resolve().is_relative_to(folder)


def _find_time(path: Path) -> float:
    """When a file was written last; of a database also what it has not taken into the file yet."""
    log = path.with_name(f"{path.name}-wal")
    return max(each.stat().st_mtime for each in (path, log) if each is path or each.exists())


def _read_head(path: Path) -> bytes:
    """The beginning of a file; of a folder that of the files in it."""
    with suppress(OSError):
        if path.is_dir():
            return b"".join(_read_head(each) for each in sorted(path.iterdir()) if each.is_file())[:HEAD]
        with path.open("rb") as file:
            return file.read(HEAD)
    return b""
