"""A request, what was decided of it and what that asked of models, as spans; a turn of them as one trace.

Identifiers follow from the conversation, the turn and the request: the same request is the same span, whenever it is told.
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
    """A decision, who made it (policy | server), and the request's expected tokens before and after it."""

    by: str
    decision: Decision
    before: int
    after: int


class RequestRecord(Struct, frozen=True):
    """A request of conversation `session` as telemetry tells of it.

    `expected`: prompt tokens; `buckets`: how they split over the five buckets and `hidden` (see `split_tokens`). `status`:
    complete, interrupted, refused, failed, or replayed (it was never sent so, and nothing was billed). `body` and `answer` are
    told only where they are given. `usd`: what was billed, None where nobody knows.
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
    estimated_output: int = 0  # tokens of the answer as counted, where the recorded output cannot be true
    first: int = 0  # the first request of its turn, as far as that is told together


def split_tokens(buckets: Mapping[Any, int], scale: float, total: int) -> dict[str, int]:
    """The tokens of a prompt by bucket, and `hidden`: what the log does not hold, or does not explain. They add up to `total`.

    Args:
        buckets: counted tokens by bucket.
        scale: provider tokens per counted token.
        total: provider tokens of the whole prompt.
    """
    split = {str(bucket): round(scale * tokens) for bucket, tokens in buckets.items()}
    hidden = total - sum(split.values())
    if hidden < 0:  # rounded up in several buckets: the largest gives way
        largest = max(split, key=lambda bucket: split[bucket])
        split[largest] += hidden
        hidden = 0
    return split | {"hidden": hidden}


def build_request_spans(told: RequestRecord) -> Iterator[ReadableSpan]:
    """The span of a request, then one for each thing that its policy asked of a model."""
    start, end = _get_times(told.request)
    own = _build_context(told, "request", told.request.n)
    yield _build_span(
        f"chat {told.plan.model}",
        own,
        _build_context(told, "turn", told.first),
        {
            **_build_attributes(told),
            **_list_usage(None if told.status == "replayed" else told.request.usage),
            **_list_content(told),
        },
        (start, end),
        events=tuple(_iter_events(told, start)),
        status=Status(StatusCode.ERROR, type(told.error).__name__) if told.error else Status(),
    )
    for number, (ask, answer) in enumerate(told.plan.asks):
        if answer.usage is not None:
            yield _build_ask_span(told, own, number, ask, answer)


def build_turn_span(several: Sequence[RequestRecord]) -> ReadableSpan:
    """The span that holds the requests of a turn, told in order. ValueError where there are none."""
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
    return _build_span(name, context, None, about, times, kind=SpanKind.INTERNAL)


def _build_attributes(told: RequestRecord) -> dict[str, Any]:
    request, settings = told.request, told.request.settings
    about: dict[str, Any] = {
        names.OPERATION: "chat",
        names.PROVIDER: told.provider,
        names.MODEL: told.plan.model,
        names.CONVERSATION: told.session,
        names.TURN: request.turn,
        names.REQUEST: request.n,
        names.POLICY: told.policy,
        names.STATUS: told.status,
        names.VERDICT: told.plan.verdict,
        names.EXPECTED: told.expected,
        **{names.BUCKETS + bucket: tokens for bucket, tokens in told.buckets.items()},
    }
    reason = request.stop_reason if told.status != "replayed" else None
    asked = {names.MAX_TOKENS: settings.get("max_tokens"), names.TEMPERATURE: settings.get("temperature")}
    told_of: dict[str, Any] = {
        **asked,
        names.WINDOW: told.plan.limit,
        names.ANSWER_ID: request.id,
        names.ANSWER_MODEL: told.plan.model if request.id else "",
        names.REASONS: [FINISH_REASONS.get(reason, reason)] if reason else None,
        names.STOP_REASON: reason,
        names.COMPACTED: any(one.decision.action == "condense" for one in told.made) or None,
        names.USD: float(told.usd) if told.usd is not None else None,
        names.ATTEMPTS: told.attempts if told.attempts != 1 else None,
        names.ERROR: type(told.error).__name__ if told.error else "",
        names.UNTIMED: True if request.sent_at is None else None,
        names.ESTIMATED_OUTPUT: told.estimated_output or None,
    }
    return about | {key: value for key, value in told_of.items() if value not in (None, "")}


def _list_usage(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    found = {names.INPUT_TOKENS: usage.prompt_tokens, names.OUTPUT_TOKENS: usage.output_tokens}
    found |= {names.CACHE_READ: usage.cache_read_input_tokens, names.CACHE_WRITE: usage.cache_creation_input_tokens}
    if usage.cache_creation_1h_input_tokens:
        found[names.CACHE_WRITE_1H] = usage.cache_creation_1h_input_tokens
    passes = [one for one in usage.iterations if one.kind == "compaction"]
    if passes:
        found[names.COMPACTION_READ] = sum(one.prompt_tokens for one in passes)
        found[names.COMPACTION_WRITTEN] = sum(one.output_tokens for one in passes)
    return found


def _list_content(told: RequestRecord) -> dict[str, Any]:
    if told.body is None:
        return {}
    found = {
        names.SYSTEM: genai_messages.to_parts(told.body.get("system")),
        names.TOOLS: genai_messages.to_tools(told.body),
        names.INPUT: genai_messages.to_messages(told.body),
        names.OUTPUT: genai_messages.to_answer(
            told.answer, FINISH_REASONS.get(told.request.stop_reason or "", told.request.stop_reason or "")
        ),
    }
    return {key: value for key, value in found.items() if value}


def _iter_events(told: RequestRecord, at: int) -> Iterator[Event]:
    for one in told.made:
        decision = one.decision
        about: dict[str, Any] = {
            names.CONVERSATION: told.session,
            names.DECISION: decision.seq,
            names.BY: one.by,
            names.RULE: decision.rule,
            names.ACTION: decision.action,
            names.BECAUSE: decision.edit.because,
            names.BEFORE: one.before,
            names.AFTER: one.after,
        }
        if decision.action in ("refuse", "condense"):
            about |= _list_usage(told.request.usage if one.by == "server" else None)
        yield Event(EVENT_NAMES.get(decision.action, names.EDIT), about, at, limit=None)
    if isinstance(told.error, ContextWindowExceededError):
        over: dict[str, Any] = {
            names.BEFORE: told.error.projected,
            names.WINDOW: told.error.window,
            names.ERROR: type(told.error).__name__,
        }
        yield Event(names.REFUSAL, {names.CONVERSATION: told.session, **over, **told.error.counters}, at)
    for edit in told.request.applied:
        said: dict[str, Any] = {"edit": edit.edit, "cleared": edit.cleared, "tokens": edit.tokens}
        yield Event(names.APPLIED, {names.CONVERSATION: told.session, **said}, at)


def _build_ask_span(told: RequestRecord, above: SpanContext, number: int, ask: Ask, answer: Answer) -> ReadableSpan:
    """What a policy asked of a model: a summary. It is billed, and no request of the conversation."""
    about = {
        names.OPERATION: "chat",
        names.PROVIDER: told.provider,
        names.MODEL: answer.model or told.plan.model,
        names.CONVERSATION: told.session,
        names.ASK: ask.kind,
        **_list_usage(answer.usage),
    }
    start = _get_times(told.request)[0]
    return _build_span(
        f"chat {about[names.MODEL]}", _build_context(told, f"ask {number}", told.request.n), above, about, (start, start)
    )


def _get_times(request: Request) -> tuple[int, int]:
    """Start and end in nanoseconds since the epoch; without recorded times the request's number."""
    if request.sent_at is None:
        return request.n + 1, request.n + 1
    start = round(request.sent_at * SECOND)
    return start, max(start, round((request.answered_at or request.sent_at) * SECOND))


def _build_context(told: RequestRecord, what: str, number: int) -> SpanContext:
    name = f"{told.session}\0{told.policy if told.status == 'replayed' else ''}\0{told.request.turn}"
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
    return ReadableSpan(name, context, parent, RESOURCE, attributes, events, (), kind, None, status, *times, SCOPE)
