"""OpenRouter's middle-out: messages are dropped from the middle; half of what stays is the start, half the end."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.conversation import (
    build_result,
    count_static_tokens,
    find_droppable,
    find_fitting_start,
    find_head_end,
    find_newest_message,
    find_replaceable,
    find_start,
    get_result_text,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters."""

    messages: Annotated[int, "maximum number of messages that a model's server takes (0 = any number)"] = 1_000
    models: Annotated[str, "part of the names of those models"] = "claude"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request."""
    starts, size, limit = ctx.index.messages, ctx.count_envelope(envelope), ctx.limit
    there = count_before(starts, ctx.request.cut)
    half = params.messages // 2 if params.messages and params.models in ctx.request.model else 0
    many = bool(half) and there > params.messages
    if not there or (size <= limit and not many):
        return
    room = limit - count_static_tokens(envelope, ctx)
    count = bisect_right(range(1, there + 1), room // 2, key=lambda n: _count_tokens(ctx, starts[0], _find_end(ctx, n)))
    first = find_head_end(ctx, min(count, half) if many else count)
    last = find_fitting_start(envelope, ctx, room - _count_tokens(ctx, starts[0], first))
    start = max(first, find_start(ctx, max(last, starts[there - half]) if many else last))
    what = f"{there:,} messages are more than {params.messages:,}" if many else f"{size:,} tokens exceed the limit of {limit:,}"
    kept = count_before(starts, first), there - count_before(starts, start)
    because = f"{what}: {kept[0]:,} messages from the start and {kept[1]:,} from the end stay"
    facts: dict[str, Any] = {"tokens": size, "limit": limit, "from_start": kept[0], "from_end": kept[1]}
    for span in find_droppable(ctx, envelope, first, start):
        envelope = yield Edit("drop", because, span, facts=facts)
    over = ctx.count_envelope(envelope) - limit
    if over > 0 and (edit := _shorten_newest(envelope, ctx, over)):
        yield edit


def _find_end(ctx: Ctx, count: int) -> int:
    """Return where the first `count` messages end."""
    starts = ctx.index.messages
    return starts[count] if count < len(starts) and starts[count] < ctx.request.cut else ctx.request.cut


def _count_tokens(ctx: Ctx, start: int, stop: int) -> int:
    return sum(ctx.own.count_by_bucket(start, stop)[2:]) if start < stop else 0


def _shorten_newest(envelope: Envelope, ctx: Ctx, over: int) -> Edit | None:
    """Drop the middle of the longest text of the newest message, if even that message does not fit."""
    texts = [
        block
        for block in ctx.session.blocks[find_newest_message(ctx) : ctx.request.cut]
        if find_replaceable(envelope, block.at)
    ]
    block = max(texts, key=lambda b: len(_get_text(b)), default=None)
    text = _get_text(block) if block else ""
    if block is None or not text:
        return None
    tokens = max(1, ctx.count_tokens(block.at, block.at + 1))
    keep = max(0, len(text) * (tokens - over) // tokens - 1)
    cut = f"{text[: keep // 2]}…{text[len(text) - (keep - keep // 2) :]}"
    part = build_result(block, cut) if block.kind == "tool_result" else Part(block.role, "text", cut)
    because = f"the newest message alone is {over:,} tokens too long: the middle of its longest text is cut out"
    return Edit("truncate", because, Span(block.at, block.at + 1), (part,), facts={"over": over, "characters": len(text)})


def _get_text(block: Block) -> str:
    return block.text if block.kind == "text" else get_result_text(block) or ""


RULE = Rule(
    "drop_from_middle",
    "Drop messages from the middle of a request that does not fit. As many stay at the start as at the end.",
    edits,
    Params,
    "fresh",
    "OpenRouter's documentation of message transforms (middle-out), as of November 2026",
)
