"""LibreChat's legacy discard strategy: the newest messages that fit after the instructions and the primer of the reply."""

from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.librechat.legacy import PRIMER, count_conversation_tokens, count_instructions, find_begin
from turnscope.session.index import count_before
from turnscope.session.model import Edit


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request. It is refused where the original raises INPUT_LENGTH; `info` is its error text."""
    instructions, starts, there = count_instructions(ctx), ctx.index.messages, count_before(ctx.index.messages, ctx.request.cut)
    if instructions and instructions > ctx.limit:
        why = f"the instructions have {instructions:,} tokens, the limit is {ctx.limit:,}"
        yield Edit("refuse", why, facts={"info": f"{instructions} / {ctx.limit}"})
        return
    first = find_begin(ctx, 0, ctx.limit - (instructions or 0) - PRIMER)
    facts = {"limit": ctx.limit, "instructions": instructions, "kept": there - first, "of": there}
    if first:
        stop = starts[first] if first < there else ctx.request.cut
        because = f"counted from the newest, {there - first:,} of {there:,} messages fit the limit of {ctx.limit:,} tokens"
        for span in find_droppable(ctx, envelope, starts[0], stop):
            envelope = yield Edit("drop", because, span, facts=facts)
    if first == there and instructions is not None:
        why = f"no message fits the limit of {ctx.limit:,} tokens after the instructions"
        yield Edit("refuse", why, facts={**facts, "info": f"{instructions + PRIMER} / {ctx.limit}"})
    elif first == there and there:
        newest = count_conversation_tokens(ctx, starts[there - 1])
        why = f"the newest message has {newest:,} tokens and does not fit the limit of {ctx.limit:,}"
        yield Edit("refuse", why, facts={**facts, "info": f"{newest} / {ctx.limit}"})


RULE = Rule(
    "discard_what_does_not_fit",
    "Keep the newest messages that fit after the instructions; refuse the request if none fits.",
    edits,
    NoParams,
    "fresh",
    "LibreChat, api/app/clients/BaseClient.js: getMessagesWithinTokenLimit, handleContextStrategy",
)
