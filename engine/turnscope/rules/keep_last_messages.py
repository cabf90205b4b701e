"""Keep a fixed number of messages, whatever their size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import find_droppable, find_start
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """How many messages are kept."""

    keep: Annotated[int, "number of newest messages to keep"] = 20
    whole_pairs: Annotated[bool, "begin at a prompt, so that no answer lacks its question"] = False


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    messages, cut = ctx.index.messages, ctx.request.cut
    there = count_before(messages, cut)
    if there <= params.keep:
        return
    start = find_start(ctx, messages[there - max(1, params.keep)], params.whole_pairs)
    left = there - count_before(messages, start)
    because = f"only the last {params.keep} of {there} messages are kept"
    if left < params.keep:
        because += f"; {left} of them, so that no call loses its result"
    facts = {"messages": there, "kept": left, "keep": params.keep}
    for span in find_droppable(ctx, envelope, messages[0], start):
        yield Edit("drop", because, span, facts=facts)


RULE = Rule(
    "keep_last_messages",
    "Keep the last N messages. No tool result is kept without its call.",
    edits,
    Params,
    "fresh",
    "chat apps with a message cap (ChainReview: the last 20)",
)
