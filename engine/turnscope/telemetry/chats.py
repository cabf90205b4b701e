"""Spans of a live chat: a sink next to its store, and a turn as one trace. A failure here does not stop the chat."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import Any

from turnscope import settings
from turnscope.counting.reconciliation import Terms
from turnscope.envelope.request_outcome import RequestEnded, Status
from turnscope.live.chat import Chat
from turnscope.live.events import Event
from turnscope.live.sinks import Sinks
from turnscope.planning.render import build_body
from turnscope.session.model import JSON, Fact, Message
from turnscope.telemetry import names, spans
from turnscope.telemetry.export import Exporter
from turnscope.telemetry.spans import DecisionRecord, RequestRecord
from turnscope.telemetry.tool_runs import iter_tool_runs
from turnscope.views.decision_log import iter_decisions


class TracingSink:
    """A sink that exports a span for each request once it has ended, and with `end_turn` one for the turn."""

    def __init__(self, exporting: Exporter, chat: Chat, *, content: bool = False) -> None:
        self.exporting, self.chat, self.content = exporting, chat, content
        self.turn: list[RequestRecord] = []

    def record_message(self, message: Message, blocks: Sequence[JSON], status: Status) -> None:
        """See `Sink`. Nothing to do: a message is part of the span of the request that carries it."""

    def record_fact(self, fact: Fact) -> None:
        """Nothing: a fact is part of the span of its request."""

    def record_request(self, ended: RequestEnded) -> None:
        """Export the spans of a request, and of the tools that ran before it."""
        record = self._build_record(ended)
        if self.turn:
            self._export_tools(self.turn[-1], spans.get_times(record)[0])
        self.turn.append(record)
        try:
            self.exporting.export_spans(spans.build_request_spans(record))
        except BaseException:
            self.exporting.prompts.forget()  # what the span held is nowhere: later ones must not refer to it
            raise
        for one in record.made if ended.status == "complete" else ():
            if one.decision.action == "condense":
                self.exporting.count_compaction(record.session, one.by, one.decision.rule)

    def end_turn(self) -> None:
        """Export the span of the turn."""
        if self.turn:
            self.exporting.export_spans((spans.build_turn_span(self.turn),))
        self.turn = []

    def _export_tools(self, record: RequestRecord, until: int) -> None:
        """Export the spans of what an answer called."""
        runs = iter_tool_runs(self.chat.live_session.session, record.request, content=self.content)
        self.exporting.export_spans(spans.build_tool_span(record, run, until) for run in runs)

    def _build_record(self, ended: RequestEnded) -> RequestRecord:
        plan, expected, chat = ended.plan, ended.plan.calibration.predict, self.chat
        return RequestRecord(
            session=ended.session,
            provider=names.PROVIDERS.get(chat.destination.kind if chat.destination else "", "anthropic"),
            policy=chat.settings.policy.name,
            request=ended.request,
            plan=plan,
            status=ended.status,
            made=tuple(DecisionRecord(by, one, expected(one.before), expected(one.after)) for by, one in iter_decisions(plan)),
            expected=plan.expected_tokens,
            buckets=spans.split_tokens(plan.seen.buckets, Terms(0, 0, 0, plan.calibration.scale), plan.expected_tokens),
            usd=ended.usd,
            attempts=ended.attempts,
            error=ended.error,
            content=self._write_content(ended),
            first=self.turn[0].request.n if self.turn else ended.request.n,
        )

    def _write_content(self, ended: RequestEnded) -> Mapping[str, Any]:
        """What the spans before do not hold of the prompt and its answer."""
        if not self.content:
            return {}
        body = build_body(ended.plan, self.chat.live_session.session)
        reason = spans.name_reason(ended.request.stop_reason)
        written = self.exporting.prompts.find(ended.session, ended.request.n)
        return written.write(ended.request.n, body, ended.blocks, reason)


def trace_requests(
    turn: Callable[[Chat], Generator[Event]], exporting: Exporter, *, content: bool = False
) -> Callable[[Chat], Generator[Event]]:
    """A turn that is exported: each request when it ends, and the turn itself however it ends.

    Args:
        turn: the turn.
        exporting: takes the spans.
        content: whether spans hold messages.
    """

    def run(chat: Chat) -> Generator[Event]:
        tracing = TracingSink(exporting, chat, content=content)
        sink = chat.sink
        chat.sink = Sinks(sink, tracing, conversation=chat.live_session.session.id)
        try:
            yield from turn(chat)
        finally:
            chat.sink = sink
            tracing.end_turn()

    return run


@cache
def open_exporter(wanted: settings.Telemetry) -> Exporter:
    """The exporter of all chats of this process, closed at exit. TurnscopeError: its file is not writable."""
    made = Exporter(wanted)
    atexit.register(made.close)
    return made
