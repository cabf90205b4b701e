"""Qwen Code's compaction: once the last response filled most of the window, a summary replaces the older part."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_boundary, find_leading_summary
from turnscope.envelope.conversation import sum_characters
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original, and what was seen of it."""

    threshold: Annotated[float, "share of the budget that the last prompt and its answer fill when it compacts"] = 0.7
    keep: Annotated[float, "share of the characters that stays, at most"] = 0.3
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the log holds what this very compaction left, it is used.

    State: the request that compacted last.
    """
    last: int = -1 if ctx.state is None else ctx.state
    used, mark = recorded_compactions.count_previous_usage(ctx, last, 0), round(params.threshold * ctx.budget.limit)
    if ctx.previous is None or used < mark:
        return last
    seen = recorded_compactions.find_compactions(ctx)
    facts: dict[str, Any] = {"tokens": used, "mark": mark}
    because = f"the last response came to {used:,} tokens, the threshold is {mark:,}"
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return ctx.request.n
    begin, _, fresh = find_leading_summary(envelope, ctx)
    sums, cut = sum_characters(ctx), ctx.request.cut
    want = bisect_left(sums, sums[cut] - params.keep * (sums[cut] - sums[begin]))
    stop = find_boundary(envelope, ctx, want, fresh)
    if stop is None or ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    before = envelope
    how = SummaryOptions("hand-over", cap=params.cap, shape="pair")
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    return last if envelope is before else ctx.request.n


RULE = Rule(
    "compact_older_part",
    "Once the last response filled most of the budget, replace the older part of the conversation by a summary.",
    edits,
    Params,
    source="requests that Qwen Code 0.15.10 sent to a recording server, and the transcripts that it wrote",
    state=int,
)
