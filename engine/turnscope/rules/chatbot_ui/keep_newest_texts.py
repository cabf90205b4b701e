"""Chatbot UI's window: the newest messages whose texts fit after the chat's prompt, with the passages retrieved for them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from turnscope.envelope.conversation import find_droppable, find_replaceable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.chatbot_ui.messages import OBJECT, build_retrieval_text, count_weights, find_text_block, get_passages
from turnscope.session.index import count_before
from turnscope.session.model import Block, Edit, Part, Span


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request.

    Only the system prompt that the log holds is counted. The newest message is always sent, even if it does not fit.
    """
    starts, there, weight = ctx.index.messages, count_before(ctx.index.messages, ctx.request.cut), count_weights(ctx)
    room = ctx.limit - ctx.own.sums[0][ctx.request.cut]
    newest = weight.plain[there - 1] if there else 0  # passages come with the message that follows; there is none yet

    def size(i: int) -> int:
        return weight.sums[there - 1] - weight.sums[i] + newest

    first = bisect_left(range(there), -room, key=lambda i: -size(i)) if room >= 0 else there
    kept = there - first
    facts = {"limit": ctx.limit, "room": room, "kept": kept, "of": there}
    if first:
        because = f"counted from the newest, {kept:,} of {there:,} messages fit the {room:,} tokens after the system prompt"
        stop = starts[first] if kept else ctx.request.cut
        for span in find_droppable(ctx, envelope, starts[0], stop):
            envelope = yield Edit("drop", because, span, facts=facts)
    for number, (block, text) in _iter_passages(ctx, first, there - 1):
        if find_replaceable(envelope, block.at):
            because = "passages stored with the next message follow the prompt that they were found for"
            envelope = yield Edit("retrieve", because, *_add_passage(ctx, block, text), facts={"message": number})
    found = get_passages(ctx.session, "retrieved", ctx.session.blocks[starts[there - 1]].message) if there else None
    if found:
        yield from _add_question_passages(envelope, ctx, found, starts[there - 1] if kept else None)


def _iter_passages(ctx: Ctx, first: int, stop: int) -> Iterator[tuple[int, tuple[Block, str]]]:
    brought = count_weights(ctx).passages_by_message
    return ((number, brought[number]) for number in sorted(brought) if first <= number < stop)


def _add_passage(ctx: Ctx, block: Block, text: str) -> tuple[Span, tuple[Part, ...]]:
    raw = {"type": "text", "text": text} if isinstance(block.raw, dict) else None
    sole = ctx.session.messages[block.message].stop - ctx.session.messages[block.message].start == 1
    fence = sole and ctx.session.messages[block.message].fence
    return Span(block.at, block.at + 1), (Part(block.role, "text", text, raw, fence=fence),)


def _add_question_passages(envelope: Envelope, ctx: Ctx, found: Any, newest: int | None) -> Iterator[Edit]:
    """Add the passages for the new question to the last message, or to the system prompt if no message is left.

    They are not counted.
    """
    because, text = (
        "passages found for the new prompt are added to the last message, and not counted",
        build_retrieval_text(found),
    )
    facts: dict[str, Any] = {"passages": len(found)}
    if newest is None:
        passages = [
            at
            for at in ctx.index.static[: count_before(ctx.index.static, ctx.request.cut)]
            if ctx.session.blocks[at].role == "system"
        ]
        if passages and find_replaceable(envelope, passages[-1]):
            block = ctx.session.blocks[passages[-1]]
            part = Part("system", "system", block.text + text, place="system")
            yield Edit("retrieve", because, Span(block.at, block.at + 1), (part,), facts=facts)
        else:
            yield Edit(
                "retrieve", because, Span(0, 0), (Part("system", "system", text, place="system"),), slot="passages", facts=facts
            )
        return
    message = ctx.session.messages[ctx.session.blocks[newest].message]
    blocks = ctx.session.blocks[message.start : min(message.stop, ctx.request.cut)]
    pictures = sum(b.kind == "image" for b in blocks)
    if pictures:  # a defect of the original: a list of parts becomes one string
        objects = ",".join([OBJECT] * (pictures + 1))
        part = Part(message.role, "text", objects + text, fence=message.fence)
        yield Edit(
            "retrieve",
            f"{because}; its content is a list, which is lost",
            Span(blocks[0].at, blocks[-1].at + 1),
            (part,),
            facts=facts,
        )
    elif (last := find_text_block(blocks)) and find_replaceable(envelope, last.at):
        yield Edit("retrieve", because, *_add_passage(ctx, last, last.text + text), facts=facts)


RULE = Rule(
    "keep_newest_texts",
    "Keep the newest messages whose texts fit after the system prompt, with the passages found for them.",
    edits,
    NoParams,
    "fresh",
    "Chatbot UI 81328b61, lib/build-prompt.ts: buildFinalMessages",
)
