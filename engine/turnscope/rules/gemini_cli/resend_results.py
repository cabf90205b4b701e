"""Gemini CLI sends results of tools again once a session is resumed: they are in its log twice, and it reads both copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from turnscope.envelope import recorded_compactions
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.session.model import Edit, Part, Span

SLOT = "resumed"
WHY = "the session was resumed, so this result is sent {} times: as a message, and with its call, as often as the log has it"


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request.

    How often a result is sent hangs on when the tool wrote its log anew, so the log of the resumption itself tells.
    """
    seen = recorded_compactions.find_recorded_edits(ctx, "repair")
    if not seen:
        return
    copies = _count_copies(ctx, seen)
    blocks = ctx.session.blocks
    for message in _find_messages(ctx):
        sent = [at for at in range(message.start, message.stop) if envelope.find_piece(at).body is None]
        more = max((copies.get(blocks[at].text, 1) for at in sent if blocks[at].kind == "tool_result"), default=1) - 1
        if more < 1:
            continue  # masked, part of a summary, or sent once
        body = tuple(Part(blocks[at].role, blocks[at].kind, ref=at) for at in sent) * more
        where = Span(message.stop, message.stop)
        envelope = yield Edit("insert", WHY.format(more + 1), where, body, slot=SLOT, facts={"copies": more + 1})


def _count_copies(ctx: Ctx, seen: list[Edit]) -> dict[str, int]:
    """Return how often the text of each result is sent from here on, by the log; of equal texts, the mean."""
    blocks = ctx.session.blocks
    spans = [edit.span for edit in seen if edit.span]
    results = [at for at in ctx.index.results if at < ctx.request.cut]
    kept = Counter(blocks[at].text for at in results if not any(span.start <= at < span.stop for span in spans))
    placed = Counter(part.text for edit in seen for part in edit.body or () if part.kind == "tool_result")
    whole = Counter(blocks[at].text for at in results)
    return {text: round((kept[text] + placed[text]) / number) for text, number in whole.items()}


def _find_messages(ctx: Ctx) -> Iterator[Span]:
    """Yield the messages with results that are not the newest message."""
    blocks, messages = ctx.session.blocks, ctx.session.messages
    results = (at for at in ctx.index.results if at < ctx.request.cut)
    for number, _ in groupby(results, key=lambda at: blocks[at].message):
        message = messages[number]
        if message.stop < ctx.request.cut:
            yield Span(message.start, message.stop)


RULE = Rule(
    "resend_results",
    "Send the results of tools again once a session was resumed, as often as the log has them.",
    edits,
    NoParams,
    source="requests that Gemini CLI 0.61.0 sent to a recording server, and the transcripts that it wrote",
)
