"""Spans of a request, of its decisions and of its rule queries; a turn is one trace.

Ids follow from the conversation, the turn and the request, so the same request always has the same span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from turnscope.counting.reconciliation import Terms
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, TurnscopeError
from turnscope.session.model import JSON, Answer, Ask, Request, Usage
from turnscope.telemetry import genai_messages, names

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
        usd: what was billed; None = unknown.
        body, answer: content, if it is exported.
        estimated_output: tokens of the answer as counted, where the recorded output cannot be true.
        first: the first request of its turn.
        belongs: the conversation that this one belongs to, by what it is to it (`names.BRANCH_OF`, `names.SUBAGENT_OF`).
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
    usd: Decimal | None = None
    attempts: int = 1
    error: TurnscopeError | None = None
    body: Mapping[str, JSON] | None = None
    answer: Sequence[JSON] = ()
    agent: str = "turnscope"
    estimated_output: int = 0
    first: int = 0
    belongs: Mapping[str, str] = {}


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
    start, end = _get_times(record.request)
    own = _build_context(record, "request", record.request.n)
    yield _build_span(
        f"chat {record.plan.model}",
        own,
        parent=_build_context(record, "turn", record.first),
        attributes={
            **_build_attributes(record),
            **_list_usage(None if record.status == "replayed" else record.request.usage),
            **_list_content(record),
        },
        times=(start, end),
        events=tuple(_iter_events(record, start)),
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
        names.CONVERSATION: first.session,
        names.TURN: first.request.turn,
    }
    context = _build_context(first, "turn", first.first)
    name, times = f"invoke_agent {first.agent}", (_get_times(first.request)[0], _get_times(last.request)[1])
    return _build_span(name, context, parent=None, attributes=about, times=times, kind=SpanKind.INTERNAL)


def _build_attributes(record: RequestRecord) -> dict[str, Any]:
    request, settings = record.request, record.request.settings
    about: dict[str, Any] = {
        names.OPERATION: "chat",
        names.PROVIDER: record.provider,
        names.MODEL: record.plan.model,
        names.CONVERSATION: record.session,
        names.TURN: request.turn,
        names.REQUEST: request.n,
        names.POLICY: record.policy,
        names.STATUS: record.status,
        names.VERDICT: record.plan.verdict,
        names.EXPECTED: record.expected,
        **{names.BUCKETS + bucket: tokens for bucket, tokens in record.buckets.items()},
        **record.belongs,
    }
    reason = request.stop_reason if record.status != "replayed" else None
    parameters = {names.MAX_TOKENS: settings.get("max_tokens"), names.TEMPERATURE: settings.get("temperature")}
    attributes: dict[str, Any] = {
        **parameters,
        names.WINDOW: record.plan.limit,
        names.ANSWER_ID: request.id,
        names.ANSWER_MODEL: record.plan.model if request.id else "",
        names.REASONS: [FINISH_REASONS.get(reason, reason)] if reason else None,
        names.STOP_REASON: reason,
        names.COMPACTED: any(one.decision.action == "condense" for one in record.made) or None,
        names.USD: float(record.usd) if record.usd is not None else None,
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
    found |= {names.CACHE_READ: usage.cache_read_input_tokens, names.CACHE_WRITE: usage.cache_creation_input_tokens}
    if usage.cache_creation_1h_input_tokens:
        found[names.CACHE_WRITE_1H] = usage.cache_creation_1h_input_tokens
    passes = [one for one in usage.iterations if one.kind == "compaction"]
    if passes:
        found[names.COMPACTION_READ] = sum(one.prompt_tokens for one in passes)
        found[names.COMPACTION_WRITTEN] = sum(one.output_tokens for one in passes)
    return found


def _list_content(record: RequestRecord) -> dict[str, Any]:
    if record.body is None:
        return {}
    found = {
        names.SYSTEM: genai_messages.to_parts(record.body.get("system")),
        names.TOOLS: genai_messages.to_tools(record.body),
        names.INPUT: genai_messages.to_messages(record.body),
        names.OUTPUT: genai_messages.to_answer(
            record.answer, FINISH_REASONS.get(record.request.stop_reason or "", record.request.stop_reason or "")
        ),
    }
    return {key: value for key, value in found.items() if value}


def _iter_events(record: RequestRecord, at: int) -> Iterator[Event]:
    for one in record.made:
        decision = one.decision
        about: dict[str, Any] = {
            names.CONVERSATION: record.session,
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
        yield Event(EVENT_NAMES.get(decision.action, names.EDIT), about, at, limit=None)
    if isinstance(record.error, ContextWindowExceededError):
        over: dict[str, Any] = {
            names.BEFORE: record.error.projected,
            names.WINDOW: record.error.window,
            names.ERROR: type(record.error).__name__,
        }
        yield Event(names.REFUSAL, {names.CONVERSATION: record.session, **over, **record.error.counters}, at)
    for edit in record.request.applied:
        attributes: dict[str, Any] = {"edit": edit.edit, "cleared": edit.cleared, "tokens": edit.tokens}
        yield Event(names.APPLIED, {names.CONVERSATION: record.session, **attributes}, at)


def _build_ask_span(record: RequestRecord, above: SpanContext, number: int, ask: Ask, answer: Answer) -> ReadableSpan:
    """The span of a rule query that called a model. It is billed, but is no request of the conversation."""
    about = {
        names.OPERATION: "chat",
        names.PROVIDER: record.provider,
        names.MODEL: answer.model or record.plan.model,
        names.CONVERSATION: record.session,
        names.ASK: ask.kind,
        **_list_usage(answer.usage),
    }
    start = _get_times(record.request)[0]
    return _build_span(
        f"chat {about[names.MODEL]}",
        _build_context(record, f"ask {number}", record.request.n),
        parent=above,
        attributes=about,
        times=(start, start),
    )


def _get_times(request: Request) -> tuple[int, int]:
    """Start and end in nanoseconds since the epoch; without recorded times the request's number."""
    if request.sent_at is None:
        return request.n + 1, request.n + 1
    start = round(request.sent_at * SECOND)
    return start, max(start, round((request.answered_at or request.sent_at) * SECOND))


def _build_context(record: RequestRecord, what: str, number: int) -> SpanContext:
    name = f"{record.session}\0{record.policy if record.status == 'replayed' else ''}\0{record.request.turn}"
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
    *,
    kind: SpanKind = SpanKind.CLIENT,
    events: Sequence[Event] = (),
    status: Status = Status(),  # noqa: B008 - a value that nobody changes
) -> ReadableSpan:
    return ReadableSpan(
        name,
        context,
        parent,
        resource=RESOURCE,
        attributes=attributes,
        events=events,
        kind=kind,
        status=status,
        start_time=times[0],
        end_time=times[1],
        instrumentation_scope=SCOPE,
    )
