"""Gemini CLI sends results of tools again once a session is resumed: they are in its log twice, and it reads both copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from turnscope.envelope import recorded_compactions
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.model import Edit, Part, Span

SLOT = "resumed"
WHY = "the session was resumed, so this result is sent {} times: {}"
REASONS = {
    2: "as a message, and as a part of the answer with its call",
    3: "a second resumption puts the part of the answer in once more",
}


class Resumed(Struct, frozen=True, gc=False):
    """Addresses at which the session was resumed: for the first time, and the last time; 0 = not yet."""

    first: int = 0
    last: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request.

    At the first resumption the log is written anew without those parts of answers, so what is older stays at two copies.
    """
    done: Resumed = ctx.state or Resumed()
    if not recorded_compactions.find_recorded_edits(ctx, "repair"):
        return done
    for message in _find_messages(ctx, done.first):
        copies = 3 if message.start < done.last else 2
        sent = [at for at in range(message.start, message.stop) if envelope.find_piece(at).body is None]
        if not sent:
            continue  # masked, or part of a summary
        blocks = ctx.session.blocks
        body = tuple(Part(blocks[at].role, blocks[at].kind, ref=at) for at in sent) * (copies - 1)
        because = WHY.format(copies, REASONS[copies])
        envelope = yield Edit("insert", because, Span(message.stop, message.stop), body, slot=SLOT, facts={"copies": copies})
    return Resumed(done.first or ctx.request.cut, ctx.request.cut)


def _find_messages(ctx: Ctx, first: int) -> Iterator[Span]:
    """Yield the messages with results that came since the first resumption, and are not the newest message."""
    blocks, messages = ctx.session.blocks, ctx.session.messages
    results = (at for at in ctx.index.results if first <= at < ctx.request.cut)
    for number, _ in groupby(results, key=lambda at: blocks[at].message):
        message = messages[number]
        if message.stop < ctx.request.cut:
            yield Span(message.start, message.stop)


RULE = Rule(
    "resend_results",
    "Send the results of tools twice once a session was resumed, and three times once it was resumed again.",
    edits,
    NoParams,
    source="requests that Gemini CLI 0.61.0 sent to a recording server, and the transcripts that it wrote",
    state=Resumed,
)
