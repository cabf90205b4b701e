"""Layer 1: the newest conversations stand in full, fewer of them where the request would not fit; all older ones leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, find_current, format_id, get_span
from turnscope.envelope.layers.places import count_present_tokens, count_shrinkable_tokens, find_front, find_present
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    keep: Annotated[int, "conversations before the one under way that stand in full (published: 5 to 10)"] = 5


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    here, was = find_current(ctx, params), ctx.state or 0
    wanted = max(was, here - max(0, params.keep))
    size = ctx.count_envelope(envelope)
    if here <= 0 or (wanted == was and size <= ctx.limit):
        return ctx.state
    begin, first = find_front(ctx), wanted
    size -= count_present_tokens(envelope, ctx, Span(begin, get_span(ctx, params, first).start)) + count_shrinkable_tokens(
        envelope, ctx, params
    )
    while first < here and size > ctx.limit:
        size -= count_present_tokens(envelope, ctx, get_span(ctx, params, first))
        first += 1
    if first == was:
        return ctx.state
    because = f"the newest {here - first} of {here} conversations stand in full, from {format_id(ctx, params, first)} on"
    if first > wanted:
        because += f": {here - wanted} would not fit the limit of {ctx.limit:,} tokens"
    facts = {"full": here - first, "wanted": params.keep, "conversations": here, "limit": ctx.limit}
    for span in [*find_present(envelope, ctx, Span(begin, get_span(ctx, params, first).start))]:
        envelope = yield Edit("drop", because, span, facts=facts)
    return first


RULE = Rule(
    "keep_recent_conversations",
    "Keep the newest conversations in full, fewer of them where they do not fit; header and summary represent older ones.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 1, active working memory, the 5 to 10 newest",
    state=int,
)
