"""Spans of a request, of its decisions, of its rule queries and of the tools that it called; a turn is one trace.

Ids follow from the conversation, the turn and the request, so the same request always has the same span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from msgspec import Struct, structs
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from turnscope.counting.reconciliation import Terms
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, TurnscopeError
from turnscope.session.model import Answer, Ask, Request, Usage
from turnscope.telemetry import costs, names
from turnscope.telemetry.tool_runs import ToolRun

RESOURCE = Resource({"service.name": "turnscope"})
SCOPE = InstrumentationScope("turnscope")
EVENT_NAMES = {"condense": names.COMPACTION, "fallback": names.FALLBACK, "refuse": names.REFUSAL}
FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_call"}
FINISH_REASONS |= {"refusal": "content_filter"}
SECOND = 1_000_000_000


class DecisionRecord(Struct, frozen=True):
    """A decision, who made it (policy or server), and the expected tokens of the request before and after it."""

    by: str
    decision: Decision
    before: int
    after: int


class RequestRecord(Struct, frozen=True):
    """A request of conversation `session` for telemetry.

    Attributes:
        status: complete, interrupted, refused, failed, or replayed (never sent so, and not billed).
        expected: expected prompt tokens.
        buckets: how they split over the five buckets and `hidden`, see `split_tokens`.
        times: start and end in nanoseconds since the epoch; None = those of the request, which then has them.
        usd, answer_usd: what was billed, and the part of it for the answer; None = unknown.
        expected_usage: what would be billed, for a request that was not.
        content: attributes with prompt and answer, if they are exported.
        question, answered: text of the prompt that began the turn and of the answer, if content is exported.
        estimated_output: tokens of the answer as counted, where the recorded output cannot be true.
        first: the first request of its turn.
        belongs: the conversation that this one belongs to, by what it is to it (`names.BRANCH_OF`, `names.SUBAGENT_OF`).
        root: the session that it is part of; "" = it is one of its own.
    """

    session: str
    provider: str
    policy: str
    request: Request
    plan: Plan
    status: str
    made: tuple[DecisionRecord, ...]
    expected: int
    buckets: Mapping[str, int]
    times: tuple[int, int] | None = None
    usd: Decimal | None = None
    answer_usd: Decimal | None = None
    expected_usage: Usage | None = None
    attempts: int = 1
    error: TurnscopeError | None = None
    content: Mapping[str, Any] = {}
    question: str = ""
    answered: str = ""
    agent: str = "turnscope"
    estimated_output: int = 0
    first: int = 0
    belongs: Mapping[str, str] = {}
    root: str = ""

    @property
    def conversation(self) -> str:
        """The id of its conversation. A replay is one of its own for each policy."""
        return f"{self.session}:{self.policy}" if self.is_replayed else self.session

    @property
    def is_replayed(self) -> bool:
        """Whether the request was never sent so."""
        return self.status == "replayed"


def name_reason(reason: str | None) -> str:
    """The conventions' word for why an answer ended; "" where nothing is known."""
    return FINISH_REASONS.get(reason or "", reason or "")


def split_tokens(buckets: Mapping[Any, int], terms: Terms, total: int) -> dict[str, int]:
    """Split the tokens of a prompt by bucket, and `hidden`: what the log does not hold or explain. They sum to `total`.

    Args:
        buckets: counted tokens by bucket.
        terms: what turns counted tokens into the provider's.
        total: provider tokens of the whole prompt.
    """
    split = {str(bucket): round(terms.get_scale(at) * tokens) for at, (bucket, tokens) in enumerate(buckets.items())}
    hidden = total - sum(split.values())
    if hidden < 0:  # rounded up in several buckets: the largest gives way
        largest = max(split, key=lambda bucket: split[bucket])
        split[largest] += hidden
        hidden = 0
    return split | {"hidden": hidden}


def build_request_spans(record: RequestRecord) -> Iterator[ReadableSpan]:
    """Yield the span of a request, then one for each rule query that called a model."""
    start, end = get_times(record)
    own = _build_context(record, "request", record.request.n)
    yield _build_span(
        f"chat {record.plan.model}",
        own,
        parent=_build_context(record, "turn", record.first),
        attributes={
            **_build_attributes(record),
            **_list_usage(record.expected_usage or (None if record.is_replayed else record.request.usage)),
            **record.content,
        },
        times=(start, end),
        events=tuple(_iter_events(record, start)),
        links=_list_links(record, "request", record.request.n),
        status=Status(StatusCode.ERROR, type(record.error).__name__) if record.error else Status(),
    )
    for number, (ask, answer) in enumerate(record.plan.asks):
        if answer.usage is not None:
            yield _build_ask_span(record, own, number=number, ask=ask, answer=answer)


def build_turn_span(several: Sequence[RequestRecord]) -> ReadableSpan:
    """Build the span of a turn around the spans of its requests, which are in order. ValueError: there are none."""
    first, last = several[0], several[-1]
    about = {
        names.OPERATION: "invoke_agent",
        names.PROVIDER: first.provider,
        names.AGENT: first.agent,
        names.TURN: first.request.turn,
        names.VALUE_IN: first.question,
        names.VALUE_OUT: last.answered,
    }
    return _build_span(
        f"invoke_agent {first.agent}",
        _build_context(first, "turn", first.first),
        parent=None,
        attributes=_name_session(first) | {key: value for key, value in about.items() if value != ""},
        times=(get_times(first)[0], get_times(last)[1]),
        kind=SpanKind.INTERNAL,
        links=_list_links(first, "turn", first.first),
    )


def build_tool_span(record: RequestRecord, run: ToolRun, until: int) -> ReadableSpan:
    """Build the span of a tool's run.

    Args:
        record: the request whose answer called it.
        run: the run.
        until: when the next request was sent, in nanoseconds since the epoch. When the tool ran between is not recorded.
    """
    about = {
        names.OPERATION: "execute_tool",
        names.PROVIDER: record.provider,
        names.TOOL_NAME: run.name,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL: run.id,
        names.TOOL_ARGUMENTS: run.arguments,
        names.TOOL_RESULT: run.result,
        names.ERROR: "tool_error" if run.failed else "",
    }
    start = get_times(record)[1]
    return _build_span(
        f"execute_tool {run.name}",
        _build_context(record, f"tool {run.at}", record.request.n),
        parent=_build_context(record, "turn", record.first),
        attributes=_name_session(record) | {key: value for key, value in about.items() if value != ""},
        times=(start, max(start, until)),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR) if run.failed else Status(),
    )


def _build_attributes(record: RequestRecord) -> dict[str, Any]:
    request, settings = record.request, record.request.settings
    about: dict[str, Any] = {
        names.OPERATION: "chat",
        names.PROVIDER: record.provider,
        names.MODEL: record.plan.model,
        **_name_session(record),
        names.TURN: request.turn,
        names.REQUEST: request.n,
        names.POLICY: record.policy,
        names.STATUS: record.status,
        names.VERDICT: record.plan.verdict,
        names.EXPECTED: record.expected,
        **{names.BUCKETS + bucket: tokens for bucket, tokens in record.buckets.items()},
        **record.belongs,
        **costs.list_costs(record.usd, record.answer_usd),
    }
    reason = request.stop_reason if not record.is_replayed else None
    parameters = {names.MAX_TOKENS: settings.get("max_tokens"), names.TEMPERATURE: settings.get("temperature")}
    attributes: dict[str, Any] = {
        **parameters,
        names.WINDOW: record.plan.limit,
        names.ANSWER_ID: request.id,
        names.ANSWER_MODEL: record.plan.model if request.id else "",
        names.REASONS: [name_reason(reason)] if reason else None,
        names.STOP_REASON: reason,
        names.COMPACTED: any(one.decision.action == "condense" for one in record.made) or None,
        names.EXPECTED_USAGE: True if record.expected_usage else None,
        names.ATTEMPTS: record.attempts if record.attempts != 1 else None,
        names.ERROR: type(record.error).__name__ if record.error else "",
        names.UNTIMED: True if request.sent_at is None else None,
        names.ESTIMATED_OUTPUT: record.estimated_output or None,
    }
    return about | {key: value for key, value in attributes.items() if value not in (None, "")}


def _list_usage(usage: Usage | None) -> dict[str, int]:
    """What was billed. No tokens of a prompt mean that they were not recorded, and are not told as zero."""
    if usage is None or not (usage.prompt_tokens or usage.output_tokens or usage.iterations):
        return {}
    found = {names.OUTPUT_TOKENS: usage.output_tokens}
    if not usage.prompt_tokens and not usage.iterations:
        return found
    found |= {names.INPUT_TOKENS: usage.prompt_tokens}
    found |= {names.CACHE_READ: usage.cache_read_input_tokens}
    found |= dict.fromkeys((names.CACHE_WRITE, names.CACHE_CREATION), usage.cache_creation_input_tokens)
    if usage.cache_creation_1h_input_tokens:
        found[names.CACHE_WRITE_1H] = usage.cache_creation_1h_input_tokens
    passes = [one for one in usage.iterations if one.kind == "compaction"]
    if passes:
        found[names.COMPACTION_READ] = sum(one.prompt_tokens for one in passes)
        found[names.COMPACTION_WRITTEN] = sum(one.output_tokens for one in passes)
    return found


def _iter_events(record: RequestRecord, at: int) -> Iterator[Event]:
    for one in record.made:
        decision = one.decision
        about: dict[str, Any] = {
            names.CONVERSATION: record.conversation,
            names.DECISION: decision.seq,
            names.BY: one.by,
            names.RULE: decision.rule,
            names.ACTION: decision.action,
            names.BECAUSE: decision.edit.because,
            names.BEFORE: one.before,
            names.AFTER: one.after,
        }
        if decision.action in ("refuse", "condense"):
            about |= _list_usage(record.request.usage if one.by == "server" else None)
        cleaned = {key: _clean(value) for key, value in about.items()}
        yield Event(EVENT_NAMES.get(decision.action, names.EDIT), cleaned, at, limit=None)
    if isinstance(record.error, ContextWindowExceededError):
        over: dict[str, Any] = {
            names.BEFORE: record.error.projected,
            names.WINDOW: record.error.window,
            names.ERROR: type(record.error).__name__,
        }
        yield Event(names.REFUSAL, {names.CONVERSATION: record.conversation, **over, **record.error.counters}, at)
    for edit in record.request.applied:
        attributes: dict[str, Any] = {"edit": edit.edit, "cleared": edit.cleared, "tokens": edit.tokens}
        yield Event(names.APPLIED, {names.CONVERSATION: record.conversation, **attributes}, at)


def _build_ask_span(record: RequestRecord, above: SpanContext, number: int, ask: Ask, answer: Answer) -> ReadableSpan:
    """The span of a rule query that called a model. It is billed, but is no request of the conversation."""
    about = {
        names.OPERATION: "chat",
        names.PROVIDER: record.provider,
        names.MODEL: answer.model or record.plan.model,
        **_name_session(record),
        names.ASK: ask.kind,
        **_list_usage(answer.usage),
    }
    start = get_times(record)[0]
    return _build_span(
        f"chat {about[names.MODEL]}",
        _build_context(record, f"ask {number}", record.request.n),
        parent=above,
        attributes=about,
        times=(start, start),
    )


def get_times(record: RequestRecord) -> tuple[int, int]:
    """Start and end in nanoseconds since the epoch. ValueError: neither the record nor its request has any."""
    if record.times is not None:
        return record.times
    request = record.request
    if request.sent_at is None:
        raise ValueError("the time of the request is not known")
    start = round(request.sent_at * SECOND)
    return start, max(start, round((request.answered_at or request.sent_at) * SECOND))


def _name_session(record: RequestRecord) -> dict[str, Any]:
    """What a span belongs to: its conversation, the session that servers group by, and what it replays."""
    root = record.root or record.session
    found = {
        names.CONVERSATION: record.conversation,
        names.SESSION: f"{root}:{record.policy}" if record.is_replayed else root,
    }
    return found | ({names.RECORD: record.session} if record.is_replayed else {})


def _list_links(record: RequestRecord, what: str, number: int) -> tuple[Link, ...]:
    """The link from a replayed span to that of the record."""
    if not record.is_replayed:
        return ()
    recorded = structs.replace(record, status="complete")
    return (Link(_build_context(recorded, what, number), {names.CONVERSATION: record.session}),)


def _build_context(record: RequestRecord, what: str, number: int) -> SpanContext:
    name = f"{record.session}\0{record.policy if record.is_replayed else ''}\0{record.request.turn}"
    trace, span = (
        blake2b(key.encode("utf-8", "replace"), digest_size=size).digest()
        for key, size in ((name, 16), (f"{name}\0{what}\0{number}", 8))
    )
    return SpanContext(int.from_bytes(trace, "big"), int.from_bytes(span, "big"), False, TraceFlags(TraceFlags.SAMPLED))


def _build_span(
    name: str,
    context: SpanContext,
    parent: SpanContext | None,
    attributes: Mapping[str, Any],
    times: tuple[int, int],
    **more: Any,
) -> ReadableSpan:
    """A finished span. `more`: its kind, events, links and status, where these are not the usual ones."""
    return ReadableSpan(
        _clean(name),
        context,
        parent,
        resource=RESOURCE,
        attributes={key: _clean(value) for key, value in attributes.items()},
        start_time=times[0],
        end_time=times[1],
        instrumentation_scope=SCOPE,
        **{"kind": SpanKind.CLIENT, **more},
    )


def _clean(value: Any) -> Any:
    """The value without halves of characters, which protobuf does not take."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
