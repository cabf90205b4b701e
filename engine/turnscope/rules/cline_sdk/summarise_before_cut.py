"""Cline SDK's agentic compaction: at the trigger a summary replaces all but the newest messages."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, NamedTuple

from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.rows import build_raws
from turnscope.session.index import Index, count_before
from turnscope.session.model import Bucket, Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    preserve_recent_tokens: Annotated[int, "tokens of the newest messages that stay"] = port.PRESERVE_RECENT
    cap: Annotated[int, "maximum tokens of the summary"] = port.SUMMARY_OUTPUT


class _Sizes(NamedTuple):
    sums: tuple[int, ...]  # estimated tokens of all messages before each
    static: tuple[int, ...]  # estimated tokens of system prompt and tools, by address
    prompts: tuple[int, ...]  # numbers of the messages that the user typed
    begins: tuple[int, ...]  # numbers of those messages, and of answers


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Every request is counted with the SDK's estimate: a third of the characters of its JSON."""
    starts, sizes = ctx.index.messages, _measure(ctx)
    there = count_before(starts, ctx.request.cut)
    if not there:
        return
    begin, old, fresh = find_leading_summary(envelope, ctx)
    first = count_before(starts, fresh)
    summary_tokens = port.estimate_tokens(port.count_units(get_summary(old))) if old else 0
    overhead = sizes.static[count_before(ctx.index.static, ctx.request.cut)]
    total, trigger = overhead + summary_tokens + sizes.sums[there] - sizes.sums[first], ctx.budget.limit
    if total < trigger:
        return
    because = f"the request is estimated at {total:,} tokens, the trigger is {trigger:,}"
    pairs = bisect_left(sizes.prompts, there) - bisect_left(sizes.prompts, first)
    share = port.LARGE_TARGET_SHARE / port.TRIGGER_SHARE if pairs >= port.LARGE_PAIRS else port.TARGET_SHARE
    most = max(1, min(params.preserve_recent_tokens, int(trigger * share) - overhead))
    at = min(bisect_left(sizes.sums, sizes.sums[there] - most + 1, hi=there + 1) - 1, there - 1)
    newest = bisect_left(sizes.prompts, there) - 1
    if newest >= 0 and sizes.prompts[newest] > first:
        at = min(at, sizes.prompts[newest])
    place = bisect_left(sizes.begins, at + 1) - 1
    at = sizes.begins[place] if place >= 0 else 0
    facts = {"tokens": total, "trigger": trigger, "preserve": most}
    if at <= first or ctx.count_tokens(starts[first], starts[at]) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return
    how = SummaryOptions("summarise", cap=params.cap)
    yield from condense(envelope, ctx, Span(begin, starts[at]), how, because, facts)


@memoize
def _measure(session: Session, index: Index) -> _Sizes:
    messages = [session.messages[session.blocks[at].message] for at in index.messages]
    counts, prompts, begins = [], [], []
    for number, message in enumerate(messages):
        blocks = session.blocks[message.start : message.stop]
        counts.append(port.count_tokens({"role": message.role, "content": build_raws(blocks)}))
        typed = message.role == "user" and any(block.bucket is not Bucket.TOOL_RESULTS for block in blocks)
        if typed:
            prompts.append(number)
        if typed or message.role == "assistant":
            begins.append(number)
    static = accumulate((port.estimate_tokens(port.measure(session.blocks[at].raw)) for at in index.static), initial=0)
    return _Sizes(tuple(accumulate(counts, initial=0)), tuple(static), tuple(prompts), tuple(begins))


RULE = Rule(
    "summarise_before_cut",
    "Once the request is estimated at the trigger, replace all but the newest messages by a summary.",
    edits,
    Params,
    source="cline/cline 21cb8d2525, sdk/packages/core/src/extensions/context/{compaction,agentic-compaction}.ts",
)
