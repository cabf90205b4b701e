"""The sessions of one project on this machine: the one that is asked for by its id, or the one that was written last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from turnscope.errors import TurnscopeError
from turnscope.library.indexing import PROJECT_KEYS
from turnscope.library.loading import find_places
from turnscope.library.session_follower import SessionFollower
from turnscope.library.store import OpenedSession
from turnscope.reading.containers import open_source
from turnscope.reading.contents import list_entries

HEAD = 1 << 19  # bytes of a file in which the project's folder has to stand
MOST = 400  # sessions that are looked at, the newest first


class ProjectSessions:
    """Opens sessions of one project. What was opened is followed: the next time only what is new is read.

    Args:
        folder: the project.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._followers: dict[Path, SessionFollower] = {}
        self._lock = Lock()

    def open(self, id: str = "") -> OpenedSession:
        """Open a session as it is now.

        Args:
            id: its id, which is the name of its file or stands in it; "" = the one that was written last.

        Raises:
            TurnscopeError: the project has no such session.
        """
        with self._lock:
            for path in self._list_paths():
                if id and path.stem != id and id.encode() not in _read_head(path):
                    continue
                with suppress(TurnscopeError, OSError):
                    opened = self._follow(path).open()
                    if self._holds(opened) and (not id or id in (path.stem, opened.session.id)):
                        return opened
            what = f"{self.folder} has no session {id!r}" if id else f"no session of {self.folder} was found on this machine"
            raise TurnscopeError(what, hint="Leave the id out for the session that was written last." if id else "")

    def _follow(self, path: Path) -> SessionFollower:
        if path not in self._followers:
            entry = next(entry.id for entry in list_entries(open_source(path)))
            self._followers = {path: SessionFollower(path, entry)}  # one is held: a session takes memory
        return self._followers[path]

    def _list_paths(self) -> Iterator[Path]:
        """Files whose beginning names the project, the one that was written last first."""
        found = []
        for _, place in find_places():
            for path in place.paths():
                with suppress(OSError):
                    found.append((path.stat().st_mtime, path))
        wanted = json.dumps(str(self.folder), ensure_ascii=False)[1:-1].encode()
        for _, path in sorted(found, reverse=True)[:MOST]:
            if wanted in _read_head(path):
                yield path

    def _holds(self, opened: OpenedSession) -> bool:
        """Whether a session is of the project: it was run in its folder, or below it."""
        about = opened.session.about
        folders = [Path(value) for key in PROJECT_KEYS if isinstance(value := about.get(key), str)]
        return any(each.is_absolute() and each.resolve().is_relative_to(self.folder) for each in folders)


def _read_head(path: Path) -> bytes:
    """The beginning of a file; of a folder that of the files in it."""
    with suppress(OSError):
        if path.is_dir():
            return b"".join(_read_head(each) for each in sorted(path.iterdir()) if each.is_file())[:HEAD]
        with path.open("rb") as file:
            return file.read(HEAD)
    return b""
