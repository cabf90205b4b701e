"""Keep messages from the newest backwards, as many as fit the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import find_start_after_summary
from turnscope.envelope.conversation import (
    count_conversation_tokens,
    count_static_tokens,
    find_droppable,
    find_fitting_start,
    find_head_end,
    find_start,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """How much is kept, and what happens if it does not fit."""

    share: Annotated[float, "part of the limit to fill (0 to 1)"] = 1.0
    whole_pairs: Annotated[bool, "begin at a prompt, so that no answer lacks its question"] = False
    pin_first: Annotated[bool, "keep the first message: the task"] = False
    keep_summary: Annotated[bool, "keep a summary in front, and reserve tokens for it"] = False
    refuse: Annotated[bool, "refuse a request whose newest message alone does not fit (else warn)"] = False


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    limit = int(ctx.limit * params.share)
    size = ctx.count_envelope(envelope)
    if size <= limit or not count_before(ctx.index.messages, ctx.request.cut):
        return
    first = ctx.index.messages[0]
    pinned = find_head_end(ctx, 1) if params.pin_first else first
    room = limit - count_static_tokens(envelope, ctx)
    if params.keep_summary and (behind := find_start_after_summary(envelope, ctx)) > first:
        pinned = max(pinned, behind)
        room -= count_conversation_tokens(envelope, ctx, behind)
    elif pinned > first:  # counted verbatim; an earlier placeholder for it is no larger
        room -= sum(ctx.own.count_by_bucket(first, pinned)[2:])
    start = max(pinned, find_start(ctx, find_fitting_start(envelope, ctx, room), params.whole_pairs))
    kept = count_before(ctx.index.messages, ctx.request.cut) - count_before(ctx.index.messages, start)
    because = f"{size:,} tokens exceed the limit of {limit:,}; counted from the newest, {kept} messages fit"
    facts = {"tokens": size, "limit": limit, "kept": kept, "pinned": pinned > first}
    for span in find_droppable(ctx, envelope, pinned, start):
        envelope = yield Edit("drop", because, span, facts=facts)
    if (left := ctx.count_envelope(envelope)) > limit:
        yield Edit(
            "refuse" if params.refuse else "warn",
            f"the part that must stay has {left:,} tokens, the limit is {limit:,}",
            facts={"tokens": left, "limit": limit},
        )


RULE = Rule(
    "keep_newest_within_budget",
    "Walk from the newest message backwards and stop at the first that no longer fits the budget.",
    edits,
    Params,
    "fresh",
    "LibreChat getMessagesWithinTokenLimit; context-aware chat specification selectContextMessages",
)
