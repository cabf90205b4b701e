"""A replay, or the record itself, as spans, request by request and turn by turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct, structs
from opentelemetry.sdk.trace import ReadableSpan

from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.model import Block, Request, Session, Usage, select_model_output
from turnscope.session.thread import iter_descendants
from turnscope.telemetry import names, spans
from turnscope.telemetry.expected import ExpectedCost, expect_costs
from turnscope.telemetry.prompts import WrittenPrompts
from turnscope.telemetry.spans import DecisionRecord, RequestRecord
from turnscope.telemetry.tool_runs import iter_tool_runs
from turnscope.views import decision_log
from turnscope.views.bill import charge

STEP = 1_000_000  # nanoseconds between two requests of which no time is recorded


class Wanted(Struct, frozen=True):
    """What spans hold beside sizes and decisions.

    Attributes:
        content: messages, each once in a conversation.
        whole: the whole prompt in each span instead.
        expected: usage and cost as expected, of requests that were not billed.
    """

    content: bool = False
    whole: bool = False
    expected: bool = False


def iter_spans(
    trace: Trace,
    wanted: Wanted = Wanted(),  # noqa: B008 - a value that nobody changes
    *,
    start: int = 0,
    belongs: Mapping[str, str] | None = None,
    root: str = "",
    record: Trace | None = None,
) -> Iterator[ReadableSpan]:
    """Yield the spans of all requests; those of a turn's tools and of the turn itself follow those of its requests.

    Under the record they hold what was billed, under any other policy what is expected.

    Args:
        trace: the replay.
        wanted: what else spans hold.
        start: number of the first request.
        belongs, root: see `RequestRecord`.
        record: the record of the session, which says how its bill differs from list prices; None = it is not known.
    """
    times, prompts = find_times(trace.session), WrittenPrompts(whole=wanted.whole)
    expected = expect_costs(trace, record) if wanted.expected else ()
    own = (plan for plan in trace.plans if plan.request.n >= start)
    for _, several in groupby(own, key=lambda plan: plan.request.turn):
        turn: list[RequestRecord] = []
        for plan in several:
            made = _build_record(trace, plan, expected[plan.request.n] if expected else None)
            first = turn[0].request.n if turn else plan.request.n
            made = structs.replace(made, first=first, times=times[plan.request.n], belongs=belongs or {}, root=root)
            turn.append(_add_content(made, trace, prompts) if wanted.content else made)
            yield from spans.build_request_spans(turn[-1])
        if trace.policy.name == AS_RECORDED:
            yield from _iter_tool_spans(trace.session, turn, times, content=wanted.content)
        yield spans.build_turn_span(turn)


def iter_spans_below(
    session: Session,
    replay: Callable[[Session], Trace],
    wanted: Wanted = Wanted(),  # noqa: B008 - a value that nobody changes
) -> Iterator[ReadableSpan]:
    """Yield the spans of what a session's branches add, and of its subagents: conversations that say what they belong to.

    Args:
        session: the session.
        replay: replays a branch or a subagent as recorded.
        wanted: what else spans hold.
    """
    for _, of, fork, own in iter_descendants(session):
        if own.requests:
            belongs = {names.BRANCH_OF if fork >= 0 else names.SUBAGENT_OF: session.id}
            trace = replay(of.branches[fork] if fork >= 0 else own)
            yield from iter_spans(trace, wanted, start=own.requests[0].n, belongs=belongs, root=session.id)


def find_times(session: Session) -> list[tuple[int, int]]:
    """Start and end of each request in nanoseconds since the epoch.

    Where a log has no time of a request, it follows the one before by a millisecond; where it has none at all, they lie at the
    present.
    """
    known = next((request.sent_at for request in session.requests if request.sent_at is not None), None)
    at = round((time.time() if known is None else known) * spans.SECOND)
    found: list[tuple[int, int]] = []
    for request in session.requests:
        start = at + STEP if request.sent_at is None else round(request.sent_at * spans.SECOND)
        answered = request.answered_at if request.sent_at is not None else None
        at = start if answered is None else max(start, round(answered * spans.SECOND))
        found.append((start, at))
    return found


def _iter_tool_spans(
    session: Session, turn: Sequence[RequestRecord], times: Sequence[tuple[int, int]], *, content: bool
) -> Iterator[ReadableSpan]:
    for each in turn:
        n = each.request.n
        until = times[n + 1][0] if n + 1 < len(times) else times[n][1]
        for run in iter_tool_runs(session, each.request, content=content):
            yield spans.build_tool_span(each, run, until)


def _build_record(trace: Trace, plan: Plan, expected: ExpectedCost | None) -> RequestRecord:
    request, recorded, session = plan.request, trace.policy.name == AS_RECORDED, trace.session
    total = trace.count_tokens(request.n)
    answer = session.blocks[request.cut : request.stop]
    billed = recorded and request.usage not in (None, Usage())
    count = trace.ledger.count_content
    cost = charge(request, trace.prices, select_model_output(answer), count).cost if billed else None
    expects = expected is not None and not billed
    facts = trace.prices.find_facts(plan.model)
    return RequestRecord(
        session=session.id,
        provider=facts.provider or "unknown",
        policy=trace.policy.name,
        request=request,
        plan=plan,
        status="complete" if recorded else "replayed",
        made=tuple(
            DecisionRecord(by, one, *decision_log.count_tokens(trace, one)) for by, one in decision_log.iter_decisions(plan)
        ),
        expected=total,
        buckets=spans.split_tokens(plan.seen.buckets, trace.get_terms(request.n), total),
        usd=expected.usd if expected and expects else cost.total if cost else None,
        answer_usd=cost.answer if cost else None,
        expected_usage=expected.usage if expected and expects else None,
        attempts=request.attempts,
        agent=session.source or "turnscope",
        estimated_output=count(select_model_output(answer)) if recorded and request.output_stub else 0,
    )


def _add_content(record: RequestRecord, trace: Trace, prompts: WrittenPrompts) -> RequestRecord:
    """The record with what was said."""
    session, request = trace.session, record.request
    answer = session.blocks[request.cut : request.stop]
    raw = tuple(block.raw for block in answer)
    reason = spans.name_reason(request.stop_reason)
    return structs.replace(
        record,
        content=prompts.write(request.n, build_body(record.plan, session), raw, reason),
        question=_join_texts(_find_question(session, request)) if request.n == record.first else "",
        answered=_join_texts(answer),
    )


def _find_question(session: Session, request: Request) -> list[Block]:
    """The blocks with which the turn of a request began."""
    start = request.cut
    while start and session.blocks[start - 1].turn == request.turn:
        start -= 1
    return [block for block in session.blocks[start : request.cut] if block.role == "user"]


def _join_texts(blocks: Sequence[Block]) -> str:
    """What was said in plain text."""
    return "\n\n".join(block.text for block in blocks if block.kind == "text")
