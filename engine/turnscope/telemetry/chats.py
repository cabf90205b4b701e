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
from turnscope.planning.render import build_body
from turnscope.session.model import JSON, Fact, Message
from turnscope.telemetry import spans
from turnscope.telemetry.export import Exporter
from turnscope.telemetry.spans import DecisionRecord, RequestRecord
from turnscope.views.decision_log import iter_decisions


class TracingSink:
    """A sink that tells of each request of a chat once it has ended; `end_turn` tells of the turn that they were."""

    def __init__(self, exporting: Exporter, chat: Chat, *, content: bool = False) -> None:
        self.exporting, self.chat, self.content = exporting, chat, content
        self.turn: list[RequestRecord] = []

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """A message is told with the request that carries it."""

    def record_fact(self, fact: Fact) -> None:
        """What was recorded is told with the request that it bears on."""

    def record_request(self, ended: RequestEnded) -> None:
        """Tell of a request."""
        told = self._build_record(ended)
        self.turn.append(told)
        self.exporting.export_spans(spans.build_request_spans(told))
        for one in told.made if ended.status == "complete" else ():
            if one.decision.action == "condense":
                self.exporting.count_compaction(told.session, one.by, one.decision.rule)

    def end_turn(self) -> None:
        """Tell of the turn that its requests were."""
        if self.turn:
            self.exporting.export_spans((spans.build_turn_span(self.turn),))
        self.turn = []

    def _build_record(self, ended: RequestEnded) -> RequestRecord:
        plan, expected, chat = ended.plan, ended.plan.calibration.predict, self.chat
        return RequestRecord(
            ended.session,
            "turnscope" if chat.place and chat.place.kind == "offline" else "anthropic",
            chat.settings.policy.name,
            ended.request,
            plan,
            ended.status,
            tuple(DecisionRecord(by, one, expected(one.before), expected(one.after)) for by, one in iter_decisions(plan)),
            plan.expected_tokens,
            spans.split_tokens(plan.seen.buckets, plan.calibration.scale, plan.expected_tokens),
            usd=ended.usd,
            attempts=ended.attempts,
            error=ended.error,
            body=build_body(plan, chat.live_session.session) if self.content else None,
            answer=ended.blocks,
            first=self.turn[0].request.n if self.turn else ended.request.n,
        )


def trace_requests(
    turn: Callable[[Chat], Generator[Event]], exporting: Exporter, *, content: bool = False
) -> Callable[[Chat], Generator[Event]]:
    """A turn whose requests are told as they end, and which is told itself when it is over, however it ends."""

    def run(chat: Chat) -> Generator[Event]:
        tracing = TracingSink(exporting, chat, content=content)
        kept = chat.sink
        chat.sink = Sinks(kept, tracing, conversation=chat.live_session.session.id)
        try:
            yield from turn(chat)
        finally:
            chat.sink = kept
            tracing.end_turn()

    return run


@cache
def open_exporter(wanted: settings.Telemetry) -> Exporter:
    """What takes the spans of every chat of this process, closed with it. TurnscopeError where its file cannot be written."""
    made = Exporter(wanted)
    atexit.register(made.close)
    return made
