"""Telemetry: requests and what was decided of them as OpenTelemetry spans, of live chats and of replays; to a file or a server.

Nothing leaves this machine unless an address is given, and no content unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from turnscope import settings
from turnscope.live.chat import Chat
from turnscope.live.events import Event

Turn = Callable[[Chat], Generator[Event]]


def trace_turn(turn: Turn) -> Turn:
    """A turn that is traced as `settings.telemetry` says; the turn itself where it says nothing.

    TurnscopeError where the trace's file cannot be written.
    """
    wanted = settings.read_telemetry()
    if wanted is None:
        return turn
    from turnscope.telemetry import chats  # OpenTelemetry's SDK: only who asks for it waits for it

    return chats.trace_requests(turn, chats.open_exporter(wanted), content=wanted.content)
