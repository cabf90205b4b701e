"""Chats as they are kept: their store, and one of them as an opened session. Needs no provider and loads none."""

from __future__ import annotations

from turnscope.library.opening import count_session, replay
from turnscope.library.store import OpenedSession
from turnscope.session.destination import Destination
from turnscope.storage.threads import Conflict, Hit, Row, Threads
from turnscope.views.overview import build_overview

__all__ = ["Conflict", "Destination", "Hit", "Row", "Threads", "open_thread"]


def open_thread(threads: Threads, thread: str, version: str) -> OpenedSession:
    """A stored thread as an opened session. `version` changes with it. TurnscopeError where there is none."""
    session = threads.load(thread)
    trace = replay(session, ledger=count_session(session))
    return OpenedSession(f"thread-{thread}-{version}", build_overview(trace), lambda: session, dict, session, trace)
