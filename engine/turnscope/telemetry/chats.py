"""What a live chat does, as spans: a sink beside its store, and a turn as one trace. What goes wrong here harms no chat."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Generator, Sequence
from functools import cache

from turnscope import settings
from turnscope.envelope.request_outcome import RequestEnded, Status
from turnscope.live.chat import Chat
from turnscope.live.events import Event
from turnscope.live.sinks import Sinks
from turnscope.planning.render import body
from turnscope.session.model import JSON, Fact, Message
from turnscope.telemetry import spans
from turnscope.telemetry.export import Exporting
from turnscope.telemetry.spans import Made, Told
from turnscope.views.decision_log import made


class Tracing:
    """A sink that tells of each request of a chat once it has ended; `over` tells of the turn that they were."""

    def __init__(self, exporting: Exporting, chat: Chat, *, content: bool = False) -> None:
        self.exporting, self.chat, self.content = exporting, chat, content
        self.turn: list[Told] = []

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """A message is told with the request that carries it."""

    def record_fact(self, fact: Fact) -> None:
        """What was recorded is told with the request that it bears on."""

    def record_request(self, ended: RequestEnded) -> None:
        """Tell of a request."""
        told = self._told(ended)
        self.turn.append(told)
        self.exporting.spans(spans.spans(told))
        for one in told.made if ended.status == "complete" else ():
            if one.decision.action == "condense":
                self.exporting.compacted(told.session, one.by, one.decision.rule)

    def over(self) -> None:
        """Tell of the turn that its requests were."""
        if self.turn:
            self.exporting.spans((spans.turn(self.turn),))
        self.turn = []

    def _told(self, ended: RequestEnded) -> Told:
        plan, expected, chat = ended.plan, ended.plan.calibration.predict, self.chat
        return Told(
            ended.session,
            "turnscope" if chat.destination and chat.destination.kind == "offline" else "anthropic",
            chat.settings.policy.name,
            ended.request,
            plan,
            ended.status,
            tuple(Made(by, one, expected(one.before), expected(one.after)) for by, one in made(plan)),
            plan.projected,
            {str(bucket): expected(tokens) for bucket, tokens in plan.seen.buckets.items()},
            usd=ended.usd,
            attempts=ended.attempts,
            error=ended.error,
            body=body(plan, chat.live_session.session) if self.content else None,
            answer=ended.blocks,
            first=self.turn[0].request.n if self.turn else ended.request.n,
        )


def followed(
    turn: Callable[[Chat], Generator[Event]], exporting: Exporting, *, content: bool = False
) -> Callable[[Chat], Generator[Event]]:
    """A turn whose requests are told as they end, and which is told itself when it is over, however it ends."""

    def run(chat: Chat) -> Generator[Event]:
        tracing = Tracing(exporting, chat, content=content)
        kept = chat.sink
        chat.sink = Sinks(kept, tracing, conversation=chat.live_session.session.id)
        try:
            yield from turn(chat)
        finally:
            chat.sink = kept
            tracing.over()

    return run


@cache
def exporting(wanted: settings.Telemetry) -> Exporting:
    """What takes the spans of every chat of this process, closed with it. TurnscopeError where its file cannot be written."""
    made = Exporting(wanted)
    atexit.register(made.close)
    return made
