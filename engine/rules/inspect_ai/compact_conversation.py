"""Inspect's compaction: above the threshold what was said is edited, trimmed or summed up, until it fits or no longer helps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from engine.envelope.condensing import How, condense
from engine.envelope.conversation import alone, droppable, result
from engine.envelope.envelope import Envelope
from engine.envelope.rule import Ctx, Edits, Rule
from engine.ports.inspect_ai.handler import MORE_PASSES, PRESERVED
from engine.ports.inspect_ai.strategies import REMOVED, SEARCH, first_kept
from engine.ports.rows import rows
from engine.session.index import upto
from engine.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    strategy: Annotated[Literal["edit", "trim", "summary"], "what is done above the threshold"] = "edit"
    preserve: Annotated[float, "trim: share of what was said that stays, the newest"] = PRESERVED
    keep_uses: Annotated[int, "edit: newest results that stay"] = 3
    keep_thinking: Annotated[int, "edit: newest answers that keep their thinking"] = 1
    exclude_tools: Annotated[tuple[str, ...], "edit: tools whose results stay"] = ()
    cap: Annotated[int, "summary: tokens that it may have"] = 2_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Refuses where it stays too much. State: the number of the first row of what was said that stands."""
    total, passes, first = ctx.size(envelope), 0, ctx.state or 0
    facts: dict[str, Any] = {"tokens": total, "threshold": ctx.limit, "strategy": params.strategy}
    because = f"{total:,} tokens are above the threshold of {ctx.limit:,}"
    size = total
    while size > ctx.limit and passes <= MORE_PASSES:
        before, passes = size, passes + 1
        if params.strategy == "edit":
            for edit in _edited(envelope, ctx, params, because, facts):
                envelope = yield edit
        elif params.strategy == "trim":
            begin, stop = _trimmed(ctx, params, first)
            for span in droppable(ctx, envelope, *begin):
                envelope = yield Edit("drop", because, span, facts=facts)
            first = stop
        else:
            begin = _said(ctx)
            if ctx.tokens(*begin) > params.cap:
                envelope = yield from condense(envelope, ctx, begin, How("summarise", cap=params.cap), because, facts)
        size = ctx.size(envelope)
        if size >= before:
            break
    if size > ctx.limit and passes:
        yield Edit("refuse", f"{because}; after {passes} passes {size:,} are left", facts={**facts, "left": size})
    return first


def _said(ctx: Ctx) -> Span:
    """What was said after the first message of the user."""
    starts, there = ctx.index.messages, upto(ctx.index.messages, ctx.request.cut)
    prompt = next((i for i in range(there) if ctx.session.blocks[starts[i]].role == "user"), there)
    return Span(starts[prompt + 1] if prompt + 1 < there else ctx.request.cut, ctx.request.cut)


def _trimmed(ctx: Ctx, params: Params, first: int) -> tuple[Span, int]:
    """What goes of the rows from `first` on, and the first row that stays: no result whose call went."""
    found, begin = rows(ctx), _said(ctx).start
    there = upto(found.starts, ctx.request.cut)
    first = max(first, bisect_left(found.starts, begin, hi=there))
    stop = first + first_kept(there - first, params.preserve)
    while stop < there and found.rows[stop].role == "tool":
        stop += 1
    return Span(begin, found.starts[stop] if stop < there else ctx.request.cut), stop


def _edited(envelope: Envelope, ctx: Ctx, params: Params, because: str, facts: dict[str, Any]) -> Iterator[Edit]:
    """Older thinking goes, and a fixed text stands for older results."""
    thinking, answers = ctx.index.thinking, [m for m in rows(ctx).rows if m.role == "assistant" and m.start < ctx.request.cut]
    newest = answers[-params.keep_thinking].start if 0 < params.keep_thinking <= len(answers) else ctx.request.cut
    for at in thinking[: upto(thinking, newest if len(answers) >= params.keep_thinking else 0)]:
        if envelope.at(at).body is None:
            yield Edit("strip", because, Span(at, at + 1), (), facts=facts)
    blocks, results = ctx.session.blocks, ctx.index.results
    named = [at for at in results[: upto(results, ctx.request.cut)] if blocks[at].name not in (SEARCH, *params.exclude_tools)]
    for at in named[: max(0, len(named) - params.keep_uses)]:
        if envelope.at(at).body is None and alone(envelope, at):
            yield Edit("clear", because, Span(at, at + 1), (result(blocks[at], REMOVED),), facts=facts)


RULE = Rule(
    "compact_conversation",
    "Above the threshold clear older results and thinking, trim the oldest share, or sum up all that was said.",
    edits,
    Params,
    source="PyPI inspect-ai 0.3.285, inspect_ai/model/_compaction, inspect_ai/model/_trim.py",
    state=int,
)
