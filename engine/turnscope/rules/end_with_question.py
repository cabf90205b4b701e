"""End a request with a user's message where it would end with an answer that the model does not continue."""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.pricing.abilities import takes_prefill
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span

QUESTION = "continue"


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    if because := _explain_end(envelope, ctx):
        place = ctx.request.cut
        yield Edit("insert", because, Span(place, place), (Part("user", "text", QUESTION),), slot="go on")


def _explain_end(envelope: Envelope, ctx: Ctx) -> str:
    """Why a request cannot end as it does; "" = it can."""
    if not count_before(ctx.index.messages, ctx.request.cut):
        return "" if len(envelope) and next(_iter_backwards(envelope)).slot else "the request contains no message"
    last = next((piece for piece in _iter_backwards(envelope) if piece.body != () and _holds_conversation(piece, ctx)), None)
    if last is None:
        return ""
    if last.body:
        reason = "the placeholder of the newest messages is an answer, and models do not continue an answer"
        return reason if last.body[-1].role == "assistant" else ""
    block = ctx.session.blocks[max(span.stop for span in ctx.index.find_conversation_spans(last.start, last.stop)) - 1]
    if block.role != "assistant" or block.kind == "compaction":  # a server continues behind its own summary
        return ""
    if not takes_prefill(ctx.request.model, ctx.prices):
        return f"the newest message is an answer, and {ctx.request.model} does not continue an answer"
    trimmed = not isinstance(block.raw, str) or block.raw == block.raw.rstrip()
    return "" if trimmed else "the newest message is an answer that ends with white space, which no model continues"


def _find_idle_start(ctx: Ctx, span: Span, params: NoParams) -> int:
    came = [*ctx.index.find_conversation_spans(*span)]
    return span.start if came and ctx.session.blocks[came[-1].stop - 1].role != "assistant" else -1


def _holds_conversation(piece: Piece, ctx: Ctx) -> bool:
    return piece.body is not None or any(True for _ in ctx.index.find_conversation_spans(piece.start, piece.stop))


def _iter_backwards(envelope: Envelope) -> Iterator[Piece]:
    for chunk in reversed(envelope.chunks):
        yield from reversed(chunk.pieces)


RULE = Rule(
    "end_with_question",
    "Add a user's message `continue` where a request would end with an answer that the model does not continue, or is empty.",
    edits,
    NoParams,
    "remembers",
    "Anthropic Messages API: newer models refuse a prefilled answer; Continue's CLI says `continue` as well",
    idle_from=_find_idle_start,
)
