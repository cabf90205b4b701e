"""A replay, or the record itself, as spans, request by request and turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from opentelemetry.sdk.trace import ReadableSpan

from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.model import select_model_output
from turnscope.telemetry import spans
from turnscope.telemetry.spans import DecisionRecord, RequestRecord
from turnscope.views import decision_log


def iter_spans(trace: Trace, *, content: bool = False) -> Iterator[ReadableSpan]:
    """Yield the spans of all requests; the span of a turn follows those of its requests.

    Under the record they hold what was billed, under any other policy what is expected.

    Args:
        trace: the replay.
        content: whether spans hold messages.
    """
    for _, several in groupby(trace.plans, key=lambda plan: plan.request.turn):
        turn: list[RequestRecord] = []
        for plan in several:
            turn.append(_build_record(trace, plan.request.n, turn[0].request.n if turn else plan.request.n, content))
            yield from spans.build_request_spans(turn[-1])
        yield spans.build_turn_span(turn)


def _build_record(trace: Trace, n: int, first: int, content: bool) -> RequestRecord:
    plan, session = trace.plans[n], trace.session
    request, recorded = plan.request, trace.policy.name == AS_RECORDED
    total = trace.count_tokens(n)
    answer = session.blocks[request.cut : request.stop]
    facts = trace.prices.find_facts(plan.model)
    cost = trace.prices.compute_cost(request.usage, plan.model, request.sent_at) if recorded and request.usage else None
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
        buckets=spans.split_tokens(plan.seen.buckets, trace.get_terms(n).scale, total),
        usd=cost.total if cost else None,
        attempts=request.attempts,
        body=build_body(plan, session) if content else None,
        answer=tuple(block.raw for block in answer) if content else (),
        agent=session.source or "turnscope",
        first=first,
        estimated_output=trace.ledger.count_content(select_model_output(answer)) if recorded and request.output_stub else 0,
    )
