"""Telemetry: requests and decisions as OpenTelemetry spans, of live chats and replays, to a file or a server.

Nothing leaves this machine unless an address is given, and no content unless it is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from turnscope import settings
from turnscope.live.chat import Chat
from turnscope.live.events import Event

Turn = Callable[[Chat], Generator[Event]]


def trace_turn(turn: Turn) -> Turn:
    """A turn that is traced as `settings` say; the turn itself where they say nothing. TurnscopeError: the trace's file is not
    writable.
    """
    wanted = settings.read_telemetry()
    if wanted is None:
        return turn
    from turnscope.telemetry import chats  # loads OpenTelemetry's SDK only if telemetry is on

    return chats.trace_requests(turn, chats.open_exporter(wanted), content=wanted.content)
