"""Send the oldest messages and the newest prompt, as a query does that sorts by time and takes the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import find_droppable, find_head_end
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import find_current_prompt
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span

SLOT = "again"


@dataclass(frozen=True, slots=True)
class Params:
    """How many messages are sent."""

    keep: Annotated[int, "number of oldest messages to send (`ORDER BY created_at ASC LIMIT`)"] = 20
    again: Annotated[
        bool, "send the newest prompt a second time while it is among them: it was stored before they were read"
    ] = True


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    messages, prompt = ctx.index.messages, find_current_prompt(ctx)
    if prompt.start >= prompt.stop:
        return
    before = count_before(messages, prompt.start)
    if before < params.keep:
        if params.again:
            body = tuple(Part(block.role, block.kind, ref=block.at) for block in ctx.session.blocks[prompt.start : prompt.stop])
            because = (
                f"the newest prompt is stored as message {before + 1}, is read with the first {params.keep}, and is appended"
            )
            yield Edit("insert", because, Span(prompt.start, prompt.start), body, slot=SLOT, facts={"keep": params.keep})
        return
    head = find_head_end(ctx, params.keep)
    lost = before - count_before(messages, head)
    because = f"of {before} messages before the prompt the first {params.keep} are read, so the newest {lost} are not sent"
    for span in find_droppable(ctx, envelope, head, prompt.start):
        yield Edit("drop", because, span, facts={"messages": before, "keep": params.keep, "lost": lost})


RULE = Rule(
    "keep_first_messages",
    "Send the first N messages and the newest prompt: the newest exchanges are lost.",
    edits,
    Params,
    "fresh",
    "an architecture of multi-turn chat (BEE-30031): ConversationStore.load, `ORDER BY created_at ASC LIMIT`",
)
