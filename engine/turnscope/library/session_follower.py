"""A session that is still being written, opened again and again. Only what is new is read and counted.

Stores nothing; the store does, when the session is opened the next time.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from turnscope.counting.ledger import Ledger
from turnscope.library.joining import join_session
from turnscope.library.opening import count_session, replay
from turnscope.library.store import OpenedSession
from turnscope.reading.containers import open_source
from turnscope.reading.followers import follow
from turnscope.session.model import Session
from turnscope.views.overview import build_overview


class SessionFollower:
    """One conversation of a source. Its methods raise TurnscopeError where the source cannot be read (any more)."""

    def __init__(self, path: Path, entry: str = "") -> None:
        self.path = path
        self._follower = follow(path, entry)
        self._session: Session | None = None
        self._ledger: Ledger | None = None
        self._read = 0
        self._lock = Lock()

    def read_session(self) -> Session:
        """Read the session as it is now; the same value where nothing was added. Any thread may call it."""
        with self._lock:
            found = join_session(self._follower.thread().session, open_source(self.path))
            if self._session is None or found != self._session:
                self._ledger = self._count(found)
                self._session = found
                self._read += 1
            return self._session

    def open(self) -> OpenedSession:
        """Open the session as it is now, with its ledger, trace and overview."""
        session = self.read_session()
        ledger = self._ledger
        assert ledger is not None
        trace = replay(session, ledger=ledger)
        key = f"{self.path}:{self._read}"
        return OpenedSession(
            key=key,
            overview=build_overview(trace),
            load_session=lambda: session,
            load_counts=lambda: ledger.memo,
            _session=session,
            _trace=trace,
        )

    def _count(self, session: Session) -> Ledger:
        """Count a session; known texts are looked up."""
        return count_session(session, self._ledger.memo if self._ledger else None)
