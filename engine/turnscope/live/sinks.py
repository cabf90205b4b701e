"""Who is told what a chat does. The store comes first; what others fail to take harms neither it nor the chat."""

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
    """Where a chat is kept, traced or watched. Each call is done when it returns."""

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """A message was said (prompt, tool results, system, tools)."""

    def record_request(self, ended: RequestEnded) -> None:
        """A request ended; with its answer's message, if there is one, in the same write."""

    def record_fact(self, fact: Fact) -> None:
        """Something was recorded: an ask answered, a prompt counted, an edit wished for, a summary rated."""


class Sinks:
    """Several sinks as one. `first` is where the chat is kept: what it raises is raised, and the others hear nothing of it.

    An error of another one goes to the log, and the chat goes on.
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
        """A request is about to be sent: the store alone hears of it, the others once it has ended."""
        if isinstance(self.first, DraftSink):
            self.first.record_start(request, plan)

    def record_draft(self, texts: Sequence[str]) -> None:
        """What was shown so far of its answer."""
        if isinstance(self.first, DraftSink):
            self.first.record_draft(texts)

    def _forward(self, what: Callable[[Sink], None]) -> None:
        what(self.first)
        for sink in self.others:
            try:
                what(sink)
            except Exception:  # noqa: BLE001 - whatever it is, the chat is kept; told below
                _log.exception("conversation %s is kept, but %s did not take it", self.conversation, type(sink).__name__)


class NullSink:
    """A sink that keeps nothing: for a chat that is only weighed, never sent."""

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """Nothing is kept."""

    def record_request(self, ended: RequestEnded) -> None:
        """Nothing is kept."""

    def record_fact(self, fact: Fact) -> None:
        """Nothing is kept."""
