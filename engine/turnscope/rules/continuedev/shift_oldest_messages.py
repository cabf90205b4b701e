"""Continue's pruning in the IDE: the oldest messages are dropped until the rest fits. The end of the chat always stays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.chats import Chat, get_chat
from turnscope.ports.continuedev.compiling import (
    CALL,
    FRAME,
    RESULT,
    TOO_LONG,
    TOOL,
    UNMATCHED,
    adjust,
    compute_room,
    find_first_kept,
    find_tail,
    is_empty,
    select_lines,
)
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    output: Annotated[int, "tokens that an answer may have; at most 1,000 are kept free for it"] = 4_096
    cut: Annotated[bool, "cut lines from the top of the newest message if it alone does not fit; else refuse"] = False


class Sizes(NamedTuple):
    """Token counts for a model: `sums[i]` of the first i messages, without empty ones; `tools` the numbers of tool results."""

    sums: list[int]
    tools: list[int]


@memoize_by_ledger
def _memo(_session: Session, _index: Index, _own: Ledger) -> dict[float, Sizes]:
    return {}


def _get_sizes(ctx: Ctx, talk: Chat) -> Sizes:
    """Return the token counts for the model at hand, counted once per model family."""
    known, key = _memo(ctx), adjust(100_000, ctx.request.model)
    if key not in known:
        found = Sizes([0], [])
        for number, one in enumerate(talk.chat_messages):
            tokens = 0 if is_empty(one.message) or one.message["role"] == "system" else _count_message(ctx, one.start, one.stop)
            found.sums.append(found.sums[-1] + tokens)
            if one.message["role"] == "tool":
                found.tools.append(number)
        known[key] = found
    return known[key]


def _count_message(ctx: Ctx, start: int, stop: int) -> int:
    blocks = ctx.session.blocks[start:stop]
    tokens = FRAME + adjust(ctx.own.count_content(blocks), ctx.request.model)
    for block in blocks:
        tokens += CALL if block.kind == "tool_use" else 0
        if block.kind == "tool_result" and isinstance(block.raw, dict):
            name = Part("user", "text", str(block.raw.get("tool_use_id") or ""))
            tokens += RESULT + adjust(ctx.own.count_parts((name,)), ctx.request.model)
    return tokens


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    If the original would say that there is not enough context, the request is refused; but not if the window is only assumed.
    """
    talk = get_chat(ctx, TOOL)
    there = bisect_left(talk.starts, ctx.request.cut)
    end = find_tail(talk.messages, there)
    if end is None:
        yield Edit("refuse", "the answer before the last results did not call for one of them", facts={"error": UNMATCHED})
        return
    sizes, system = _get_sizes(ctx, talk), _find_system(ctx)
    window = ctx.budget.window
    fixed = (
        (_count_message(ctx, *system[0]) if system else 0)
        + ctx.own.sums[1][ctx.request.cut]
        + sizes.sums[there]
        - sizes.sums[end]
    )
    budget = compute_room(window, params.output) - fixed
    first = find_first_kept(sizes.sums, sizes.tools, end, budget)
    for span in system[1:]:
        envelope = yield Edit("drop", "only the first system message is sent", span)
    if budget < 0 and ctx.budget.known and not params.cut:
        yield Edit(
            "refuse",
            f"the end of the chat alone exceeds the window by {-budget:,.0f} tokens",
            facts={"error": TOO_LONG},
        )
        return
    used = fixed + sizes.sums[end] - sizes.sums[first]
    room = compute_room(window, params.output)
    facts = {"used": used, "room": room}
    because = f"the oldest {first:,} of {there:,} messages are dropped, so that the rest fits {room:,.0f} tokens"
    if first:
        for span in find_droppable(ctx, envelope, 0, talk.starts[first] if first < there else ctx.request.cut):
            envelope = yield Edit("drop", because, span, facts=facts)
    if budget < 0 and params.cut and there:
        yield from _shorten_last(ctx, talk, there, int(sizes.sums[there] - sizes.sums[there - 1] + budget))


def _find_system(ctx: Ctx) -> list[Span]:
    spans: list[Span] = []
    for at in ctx.index.static[: bisect_left(ctx.index.static, ctx.request.cut)]:
        block = ctx.session.blocks[at]
        message = ctx.session.messages[block.message]
        if block.role == "system" and (not spans or spans[-1].start != message.start):
            spans.append(Span(message.start, message.stop))
    return spans


def _shorten_last(ctx: Ctx, talk: Chat, there: int, most: int) -> Iterator[Edit]:
    for block in ctx.session.blocks[talk.chat_messages[there - 1].start : talk.chat_messages[there - 1].stop]:
        if block.kind == "text":
            lines = block.text.split("\n")
            sizes = [ctx.own.count_parts((Part(block.role, "text", line),)) for line in lines]
            left = select_lines(sizes, max(0, most), top=True)
            text = "\n".join(lines[left.start : left.stop]) or " "
            yield Edit(
                "truncate",
                "cut from its top, line by line",
                Span(block.at, block.at + 1),
                (Part(block.role, "text", text, text),),
            )
            return


RULE = Rule(
    "shift_oldest_messages",
    "Drop the oldest messages until the rest fits; results never come first, and the end of the chat always stays.",
    edits,
    Params,
    "fresh",
    "continuedev/continue d0a3c0b6, core/llm/countTokens.ts: compileChatMessages",
)
