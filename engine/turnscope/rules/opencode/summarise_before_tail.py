"""opencode's compaction: once the previous request filled the window, a summary replaces all but the newest turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, NamedTuple

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_condensable_start, find_next_present, find_summary
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.opencode.history import count_message_units, estimate_from_characters
from turnscope.ports.opencode.limits import compute_keep, count_fitting
from turnscope.session.index import Index, count_before
from turnscope.session.model import Bucket, Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original."""

    tail_turns: Annotated[int, "newest turns that may stay (-1 = any number)"] = -1
    preserve_recent_tokens: Annotated[
        int, "tokens of those turns that may stay (-1 = a quarter of the budget, 2,000 to 15,000)"
    ] = -1
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


class _Sizes(NamedTuple):
    sums: tuple[int, ...]  # characters of all messages before each
    begins: tuple[int, ...]  # addresses of messages that are not results
    turns: tuple[int, ...]  # addresses at which turns begin, also with the request to go on behind a summary of the log


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. What was billed for the previous request, with its answer, is compared with the limit.

    What a person requested is compacted where the log shows it. State: the request that compacted last.
    """
    last: int = -1 if ctx.state is None else ctx.state
    used = recorded_compactions.count_previous_usage(ctx, last, 0)
    seen = recorded_compactions.find_compactions(ctx)
    manual = [edit.span for edit in seen if edit.span and edit.facts.get("trigger") == "manual"]
    if ctx.previous is None or not (manual or used >= ctx.budget.limit):
        return last
    starts = ctx.index.messages
    begin = find_condensable_start(envelope, ctx, False) if starts and starts[0] < ctx.request.cut else ctx.request.cut
    old = find_summary(envelope, begin) if begin < ctx.request.cut else None
    fresh = find_next_present(envelope, ctx, old.stop) if old else begin
    over = f"the previous request had {used:,} tokens, the threshold is {ctx.budget.limit:,}"
    because = f"requested by the user, at {used:,} tokens" if manual else over
    facts = {"reported": used, "limit": ctx.budget.limit}
    if fresh >= ctx.request.cut:
        return last
    stop = max(span.stop for span in manual) if manual else _find_tail(ctx, params, fresh)
    recorded, text = recorded_compactions.find_recorded_summary(ctx, seen)
    if not text and ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    if text:
        yield from _follow_log(ctx, Span(begin, stop), recorded, text, because, facts)
        return ctx.request.n
    how = SummaryOptions("hand-over", cap=params.cap, shape="user" if stop == ctx.request.cut else "pair")
    before = envelope
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    return last if envelope is before else ctx.request.n


def _follow_log(ctx: Ctx, span: Span, recorded: int, text: str, because: str, facts: dict[str, int]) -> Iterator[Edit]:
    """Put the log's own summary, with the question that it answers, where the original puts them: before the tail."""
    question = ctx.session.messages[ctx.session.blocks[recorded].message - 1]
    stop = min(span.stop, question.start)
    body = (Part("user", "text", ctx.session.blocks[question.start].text), Part("assistant", "summary", text))
    why = f"{because}: the summary in the log now replaces what came before"
    yield Edit("condense", why, Span(span.start, stop), body, facts=facts)
    yield Edit("drop", f"{because}: the question stands before the summary", Span(question.start, question.stop), facts=facts)


def _find_tail(ctx: Ctx, params: Params, fresh: int) -> int:
    """Return where the part begins that stays; the end of the request if nothing stays."""
    cut, sizes = ctx.request.cut, _measure(ctx)
    most = compute_keep(ctx.budget.limit, None if params.preserve_recent_tokens < 0 else params.preserve_recent_tokens)
    starts = list(sizes.turns[bisect_left(sizes.turns, fresh) : count_before(sizes.turns, cut)])
    recent = starts if params.tail_turns < 0 else starts[max(0, len(starts) - params.tail_turns) :]
    spans = list(zip(recent, [*recent[1:], cut], strict=True)) if recent else []
    kept, left = count_fitting([_estimate_stretch(ctx, *span) for span in spans], most)
    start = spans[len(spans) - kept][0] if kept else cut
    if kept < len(spans):
        a, b = spans[len(spans) - kept - 1]
        inside = sizes.begins[bisect_left(sizes.begins, a + 1) : bisect_left(sizes.begins, b)]
        place = bisect_left(inside, -left, key=lambda at: -_estimate_stretch(ctx, at, b))
        start = inside[place] if place < len(inside) else start
    return start if fresh < start else cut


def _estimate_stretch(ctx: Ctx, start: int, stop: int) -> int:
    starts, sums = ctx.index.messages, _measure(ctx).sums
    a, b = bisect_left(starts, start), bisect_left(starts, stop)
    return estimate_from_characters(sums[b] - sums[a], b - a)


@memoize
def _measure(session: Session, index: Index) -> _Sizes:
    lengths, begins, more = [], [], []
    for at in index.messages:
        message = session.messages[session.blocks[at].message]
        if message.origin == "meta" and session.messages[session.blocks[at].message - 1].origin == "summary":
            more.append(at)
        lengths.append(count_message_units(message.role, session.blocks[message.start : message.stop]))
        if session.blocks[at].bucket is not Bucket.TOOL_RESULTS:
            begins.append(at)
    return _Sizes(tuple(accumulate(lengths, initial=0)), tuple(begins), tuple(sorted({*index.turns, *more})))


RULE = Rule(
    "summarise_before_tail",
    "Once the previous request filled the budget, replace all but the newest turns by a summary.",
    edits,
    Params,
    source="npm opencode-ai 1.18.33, packages/opencode/src/session/{overflow,compaction}.ts",
    state=int,
)
