"""The compaction of newer versions of Qwen Code: a summary replaces all but the newest call, and files come back."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.qwen_code import compression_24 as port
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Part, Session, Span

SLOT = "files read"


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original."""

    threshold: Annotated[float, "share of the window from which on it compacts, or 33,000 tokens below the window"] = 0.85
    files: Annotated[int, "files read or written last that come back"] = port.FILES
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. If the log holds what this very compaction left, it is used.

    State: the request that compacted last.
    """
    last: int = -1 if ctx.state is None else ctx.state
    if ctx.previous is None:
        return last
    mark = min(ctx.budget.limit, round(port.compute_trigger(ctx.budget.window, params.threshold)))
    used = recorded_compactions.count_previous_usage(ctx, last, 0) + _estimate_new(ctx)
    seen = recorded_compactions.find_compactions(ctx)
    requested = any(edit.facts.get("preTokens", mark) < mark for edit in seen)
    if used < mark and not requested:
        return last
    facts: dict[str, Any] = {"tokens": used, "mark": mark}
    because = f"{used:,} tokens, the threshold is {mark:,}"
    if requested:
        because = f"requested by the user: the log shows it at {used:,} tokens, below {mark:,}"
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return ctx.request.n
    begin, _, fresh = find_leading_summary(envelope, ctx)
    stop = _find_stop(ctx)
    if stop <= fresh or (not requested and ctx.count_tokens(fresh, stop) <= params.cap):
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    before = envelope
    how = SummaryOptions("hand-over", cap=params.cap, shape="pair")
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    if envelope is before:
        return last
    if parts := tuple(_build_files(ctx, last, params.files)):
        yield Edit("insert", f"{because}; the files read last come back", Span(stop, stop), parts, slot=SLOT, facts=facts)
    return ctx.request.n


@memoize
def _sum_characters(session: Session, _index: Index) -> tuple[int, ...]:
    sums = [0]
    for block in session.blocks:
        sums.append(sums[-1] + len(block.text))
    return tuple(sums)


def _estimate_new(ctx: Ctx) -> int:
    """Return the tokens of what came after the previous answer, as the original estimates them."""
    sums, start = _sum_characters(ctx), ctx.previous.request.stop if ctx.previous else 0
    return math.ceil((sums[ctx.request.cut] - sums[min(start, ctx.request.cut)]) / port.CHARS)


def _find_stop(ctx: Ctx) -> int:
    """Return where the newest calls begin, if what is new are their results; else where the new prompt does."""
    starts, blocks = ctx.index.messages, ctx.session.blocks
    number = count_before(starts, ctx.request.cut) - 1
    while number > 0 and blocks[starts[number]].role != "assistant":
        number -= 1
    if number < 0:
        return ctx.request.cut
    message = ctx.session.messages[blocks[starts[number]].message]
    called = any(block.kind == "tool_use" for block in blocks[message.start : message.stop])
    return starts[number] if called else min(message.stop, ctx.request.cut)


def _build_files(ctx: Ctx, last: int, most: int) -> Iterator[Part]:
    """Return the files touched last since the previous compaction: the names of large ones, then the others whole."""
    touches = port.list_touches(ctx)
    since = ctx.session.requests[last - 1].cut if last > 0 else 0  # the call that stayed then is part of what went since
    there = touches[: bisect_left(touches, ctx.request.cut, key=lambda touch: touch.at)]
    newest: dict[str, str | None] = {}
    for touch in reversed(there):
        if touch.at >= since and touch.path not in newest and len(newest) < most:
            newest[touch.path] = touch.text
    named, whole = port.split_files([*newest.items()])
    if named:
        yield Part("user", "files", "Read last, too large to come back:\n" + "\n".join(f"- {path}" for path in named))
    for path, text in whole:
        yield Part("user", "files", f"{path}, as it is now:\n{text}")


RULE = Rule(
    "compact_all_but_call",
    "Once a prompt nearly fills the window, replace all but the newest call by a summary; files read last come back.",
    edits,
    Params,
    source="npm @qwen-code/qwen-code 0.24.4, packages/core/src/services; requests that it sent to a recording server",
    state=int,
)
