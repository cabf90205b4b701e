"""Keep the last pairs of question and answer, fewer of them until the request fits."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import find_start_after_summary
from turnscope.envelope.conversation import (
    count_conversation_tokens,
    count_static_tokens,
    find_droppable,
    find_fitting_start,
    find_start,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """How many pairs are kept, and what happens if they do not fit."""

    pairs: Annotated[
        int, "number of pairs to keep before the current question (-1 = all); CONTEXT_MESSAGE_PAIRS in the environment sets it"
    ] = 5
    tokens: Annotated[int, "maximum tokens of all but system prompt and tools (0 = what the budget leaves)"] = 0
    reduce: Annotated[bool, "keep fewer pairs, down to none, until the request fits"] = True
    keep_summary: Annotated[bool, "keep a summary in front, and reserve tokens for it"] = False
    refuse: Annotated[bool, "refuse a request whose current question alone does not fit (else warn)"] = False


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    cut, turns = ctx.request.cut, ctx.index.turns
    current = count_before(turns, cut) - 1
    if current < 0:
        return
    wanted = min(params.pairs, current) if params.pairs >= 0 else current
    pairs = wanted
    first = find_start_after_summary(envelope, ctx) if params.keep_summary else ctx.index.messages[0]
    if params.reduce or params.tokens:
        room = params.tokens or ctx.limit - count_static_tokens(envelope, ctx)
        room -= count_conversation_tokens(envelope, ctx, first)
        fits = bisect_left(turns, find_fitting_start(envelope, ctx, room))
        pairs = max(0, min(wanted, current - fits))
    start = find_start(ctx, turns[current - pairs]) if pairs < current or params.pairs >= 0 else first
    because = f"the last {pairs} of {current} earlier pairs are kept"
    if pairs < wanted:
        because += f": {wanted} would not fit the limit of {params.tokens or ctx.limit:,} tokens"
    facts = {"pairs": pairs, "wanted": params.pairs, "there": current, "limit": ctx.limit}
    for span in find_droppable(ctx, envelope, first, start):
        envelope = yield Edit("drop", because, span, facts=facts)
    if params.reduce and (size := ctx.count_envelope(envelope)) > ctx.limit:
        yield Edit(
            "refuse" if params.refuse else "warn",
            f"even with {pairs} earlier pairs the request has {size:,} tokens, the limit is {ctx.limit:,}",
            facts={"tokens": size, "limit": ctx.limit},
        )


RULE = Rule(
    "keep_last_pairs",
    "Keep the last N pairs of question and answer; N, N-1, ... 0 of them, until the request fits. A pair is a turn: "
    "a prompt with everything that follows it.",
    edits,
    Params,
    "fresh",
    "context-aware chat specification: CONTEXT_MESSAGE_PAIRS=5, reduced 5, 4, 3, 2, 1, 0",
)
