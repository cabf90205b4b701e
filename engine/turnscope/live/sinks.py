"""Sinks receive each message and request of a chat. The store comes first; a failure of another sink harms neither."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded, Status
from turnscope.live.write_retry import DraftSink
from turnscope.session.model import JSON, Fact, Message, Request

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Receives what happens in a chat, to store, trace or watch it. A call is done when it returns."""

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """Receive a message that was appended (prompt, tool results, system prompt, tool definitions).

        Args:
            message: The message, with its place in the session.
            blocks: Its content, in Anthropic's shape.
            status: Whether it is complete.
        """

    def record_request(self, ended: RequestEnded) -> None:
        """Receive a request that ended, together with the message of its answer, if there is one."""

    def record_fact(self, fact: Fact) -> None:
        """Receive a recorded fact: the answer to a rule query, a count of a prompt, a wish, a rating of a summary."""


class Sinks:
    """Several sinks as one. Errors of the first are raised; errors of the others are logged, and the chat goes on.

    Args:
        first: The store of the chat. If it fails, the others are not called.
        others: Further sinks, called in order.
        conversation: The id of the chat, for the log.
    """

    def __init__(self, first: Sink, *others: Sink, conversation: str = "") -> None:
        self.conversation = conversation
        self.first = first
        self.others = others

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """See `Sink`."""
        self._forward(lambda sink: sink.record_message(message, blocks, status))

    def record_request(self, ended: RequestEnded) -> None:
        """See `Sink`."""
        self._forward(lambda sink: sink.record_request(ended))

    def record_fact(self, fact: Fact) -> None:
        """See `Sink`."""
        self._forward(lambda sink: sink.record_fact(fact))

    def record_start(self, request: Request, plan: Plan) -> None:
        """See `DraftSink`. Only the store gets it; the other sinks get a request when it ended."""
        if isinstance(self.first, DraftSink):
            self.first.record_start(request, plan)

    def record_draft(self, texts: Sequence[str]) -> None:
        """See `DraftSink`."""
        if isinstance(self.first, DraftSink):
            self.first.record_draft(texts)

    def _forward(self, what: Callable[[Sink], None]) -> None:
        what(self.first)
        for sink in self.others:
            try:
                what(sink)
            except Exception:  # noqa: BLE001 - the chat is stored, whatever another sink does
                _log.exception("conversation %s is stored, but %s failed", self.conversation, type(sink).__name__)


class NullSink:
    """A sink that stores nothing, for a chat that is previewed and never sent."""

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """See `Sink`."""

    def record_request(self, ended: RequestEnded) -> None:
        """See `Sink`."""

    def record_fact(self, fact: Fact) -> None:
        """See `Sink`."""
