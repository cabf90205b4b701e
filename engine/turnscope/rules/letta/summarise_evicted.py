"""Letta's compaction: once a step was too large, a summary replaces the oldest messages, as many as necessary."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.letta import summarizer as port
from turnscope.ports.rows import build_raws
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original (CompactionSettings)."""

    trigger: Annotated[
        Literal["default", "observed"], "observed: where the log shows that messages left the context, at whatever size"
    ] = "default"
    mode: Annotated[
        Literal["sliding_window", "all", "self_compact_sliding_window", "self_compact_all", "partial_evict"],
        "which messages go; self_compact: the agent's own model sums up; partial_evict: the older summarizer",
    ] = "sliding_window"
    sliding_window_percentage: Annotated[float, "share of the messages that is evicted; each try adds 10 %"] = port.SHARE
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000


class _Read(NamedTuple):
    sums: tuple[int, ...]  # estimated tokens of all messages before each
    static: tuple[int, ...]  # estimated tokens of system prompt and tools, by address
    answers: tuple[bool, ...]


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    The tokens of the last step, prompt and answer, are compared with the limit. State: the request that compacted last.
    """
    last: int = -1 if ctx.state is None else ctx.state
    seen, starts = recorded_compactions.find_compactions(ctx), ctx.index.messages
    used = recorded_compactions.count_previous_usage(ctx, last, 0) if ctx.previous else 0
    if not (seen if params.trigger == "observed" else used > ctx.budget.limit) or not count_before(starts, ctx.request.cut):
        return last
    because = f"the last step had {used:,} tokens, more than {ctx.budget.limit:,}"
    because = because if params.trigger == "default" else "messages left the context here"
    begin, old, fresh = find_leading_summary(envelope, ctx)
    first, there = count_before(starts, fresh), count_before(starts, ctx.request.cut)
    place = _find_cut(ctx, params, first, there, get_summary(old) if old else "") if "all" not in params.mode else None
    stop = ctx.request.cut if place is None else starts[place]
    facts: dict[str, Any] = {"tokens": used, "limit": ctx.budget.limit, "messages": there - first}
    if stop <= fresh or (not seen and ctx.count_tokens(fresh, stop) <= params.cap):
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    model = ctx.request.model if params.mode.startswith("self") else ""
    how = SummaryOptions("summarise", model, params.cap)
    before, why = envelope, because + ("" if place is not None else "; no cut is enough, so everything is summarised")
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, why, facts)
    if place is not None and envelope is not before and _count_left(envelope, ctx) > ctx.budget.limit:
        envelope = yield from condense(envelope, ctx, Span(begin, ctx.request.cut), how, f"{because}, and still is", facts)
    return last if envelope is before else ctx.request.n


def _find_cut(ctx: Ctx, params: Params, first: int, there: int, summary: str) -> int | None:
    """Return the number of the first message that stays. The system prompt and a summary count as one message each."""
    read = _read_session(ctx)
    ahead = 2 if summary else 1
    answers = [False] * ahead + [*read.answers[first:there]]
    if params.mode == "partial_evict":
        cut = port.find_partial_cut(answers)
    else:
        static = read.static[bisect_left(ctx.index.static, ctx.request.cut)]
        cut = port.find_sliding_cut(
            answers,
            lambda i: static + read.sums[there] - read.sums[first + i - ahead],
            ctx.budget.window,
            params.sliding_window_percentage,
        )
    return None if cut is None else first + cut - ahead


def _count_left(envelope: Envelope, ctx: Ctx) -> int:
    return ctx.calibration.predict(envelope.tokens)


@memoize
def _read_session(session: Session, index: Index) -> _Read:
    messages = [session.messages[session.blocks[at].message] for at in index.messages]
    written = ({"role": m.role, "content": build_raws(session.blocks[m.start : m.stop])} for m in messages)
    static = accumulate((port.estimate_tokens(session.blocks[at].raw) for at in index.static), initial=0)
    answers = tuple(m.role == "assistant" for m in messages)
    return _Read(tuple(accumulate(map(port.estimate_tokens, written), initial=0)), tuple(static), answers)


RULE = Rule(
    "summarise_evicted",
    "Once the last step was above the threshold, replace the oldest messages by a summary, 40 % of them or more.",
    edits,
    Params,
    source="letta server 0.16.7 (f33324768), letta/services/summarizer/{compact,summarizer_sliding_window,thresholds}.py",
    state=int,
)
