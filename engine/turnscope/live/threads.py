"""The store of chats, and one stored chat as an opened session. Imports no provider."""

from __future__ import annotations

from turnscope.library.opening import count_session, replay
from turnscope.library.store import OpenedSession
from turnscope.session.destination import Destination
from turnscope.storage.threads import Conflict, Hit, Row, Threads
from turnscope.views.overview import build_overview

__all__ = ["Conflict", "Destination", "Hit", "Row", "Threads", "open_thread"]


def open_thread(threads: Threads, thread: str, version: str) -> OpenedSession:
    """Open a stored thread as a session.

    Args:
        threads: The store.
        thread: The id of the thread.
        version: Changes whenever the thread changes.

    Raises:
        TurnscopeError: There is no such thread.
    """
    session = threads.load(thread)
    trace = replay(session, ledger=count_session(session))
    return OpenedSession(f"thread-{thread}-{version}", build_overview(trace), lambda: session, dict, session, trace)
