"""Chats as they are kept: their store, and one of them as an opened session. Needs no provider and loads none."""

from __future__ import annotations

from turnscope.library.opening import ledger_of, replay
from turnscope.library.store import Opened
from turnscope.session.destination import Destination
from turnscope.storage.threads import Conflict, Hit, Row, Threads
from turnscope.views.overview import overview

__all__ = ["Conflict", "Destination", "Hit", "Row", "Threads", "opened"]


def opened(threads: Threads, thread: str, version: str) -> Opened:
    """A stored thread as an opened session. `version` changes with it. TurnscopeError where there is none."""
    session = threads.load(thread)
    trace = replay(session, ledger=ledger_of(session))
    return Opened(f"thread-{thread}-{version}", overview(trace), lambda: session, dict, session, trace)
