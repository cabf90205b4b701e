"""Layer 1: the newest conversations stand in full, fewer of them where the request would not fit; all older ones leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, current, name_of, span_of
from turnscope.envelope.layers.places import front, standing, standing_tokens, yielding
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    keep: Annotated[int, "conversations before the one under way that stand in full (published: 5 to 10)"] = 5


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    here, was = current(ctx, params), ctx.state or 0
    wanted = max(was, here - max(0, params.keep))
    size = ctx.size(envelope)
    if here <= 0 or (wanted == was and size <= ctx.limit):
        return ctx.state
    begin, first = front(ctx), wanted
    size -= standing_tokens(envelope, ctx, Span(begin, span_of(ctx, params, first).start)) + yielding(envelope, ctx, params)
    while first < here and size > ctx.limit:
        size -= standing_tokens(envelope, ctx, span_of(ctx, params, first))
        first += 1
    if first == was:
        return ctx.state
    because = f"the newest {here - first} of {here} conversations stand in full, from {name_of(ctx, params, first)} on"
    if first > wanted:
        because += f": {here - wanted} would not fit the limit of {ctx.limit:,} tokens"
    facts = {"full": here - first, "wanted": params.keep, "conversations": here, "limit": ctx.limit}
    for span in [*standing(envelope, ctx, Span(begin, span_of(ctx, params, first).start))]:
        envelope = yield Edit("drop", because, span, facts=facts)
    return first


RULE = Rule(
    "keep_recent_conversations",
    "Keep the newest conversations in full, fewer of them where they do not fit; of older ones header and summary tell.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 1, active working memory, the 5 to 10 newest",
    state=int,
)
