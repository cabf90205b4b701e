"""A replay, or the record itself, as spans, request by request and turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from msgspec import structs
from opentelemetry.sdk.trace import ReadableSpan

from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.model import Session, Usage, select_model_output
from turnscope.session.thread import iter_descendants
from turnscope.telemetry import names, spans
from turnscope.telemetry.spans import DecisionRecord, RequestRecord
from turnscope.views import decision_log


def iter_spans(
    trace: Trace, *, content: bool = False, start: int = 0, belongs: Mapping[str, str] | None = None
) -> Iterator[ReadableSpan]:
    """Yield the spans of all requests; the span of a turn follows those of its requests.

    Under the record they hold what was billed, under any other policy what is expected.

    Args:
        trace: the replay.
        content: whether spans hold messages.
        start: number of the first request.
        belongs: see `RequestRecord`.
    """
    own = (plan for plan in trace.plans if plan.request.n >= start)
    for _, several in groupby(own, key=lambda plan: plan.request.turn):
        turn: list[RequestRecord] = []
        for plan in several:
            made = _build_record(trace, plan.request.n, turn[0].request.n if turn else plan.request.n, content)
            turn.append(structs.replace(made, belongs=belongs or {}))
            yield from spans.build_request_spans(turn[-1])
        yield spans.build_turn_span(turn)


def iter_spans_below(session: Session, replay: Callable[[Session], Trace], *, content: bool = False) -> Iterator[ReadableSpan]:
    """Yield the spans of what a session's branches add, and of its subagents: conversations that say what they belong to.

    Args:
        session: the session.
        replay: replays a branch or a subagent as recorded.
        content: whether spans hold messages.
    """
    for _, of, fork, own in iter_descendants(session):
        if own.requests:
            belongs = {names.BRANCH_OF if fork >= 0 else names.SUBAGENT_OF: session.id}
            trace = replay(of.branches[fork] if fork >= 0 else own)
            yield from iter_spans(trace, content=content, start=own.requests[0].n, belongs=belongs)


def _build_record(trace: Trace, n: int, first: int, content: bool) -> RequestRecord:
    plan, session = trace.plans[n], trace.session
    request, recorded = plan.request, trace.policy.name == AS_RECORDED
    total = trace.count_tokens(n)
    answer = session.blocks[request.cut : request.stop]
    facts = trace.prices.find_facts(plan.model)
    billed = request.usage if recorded and request.usage != Usage() else None
    cost = trace.prices.compute_cost(billed, plan.model, request.sent_at) if billed else None
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
        buckets=spans.split_tokens(plan.seen.buckets, trace.get_terms(n), total),
        usd=cost.total if cost else None,
        attempts=request.attempts,
        body=build_body(plan, session) if content else None,
        answer=tuple(block.raw for block in answer) if content else (),
        agent=session.source or "turnscope",
        first=first,
        estimated_output=trace.ledger.count_content(select_model_output(answer)) if recorded and request.output_stub else 0,
    )
