"""End a request with a message of the user's where what stands for the newest messages is an answer."""

from __future__ import annotations

from collections.abc import Iterator

from engine.envelope.envelope import Envelope
from engine.envelope.pieces import Piece
from engine.envelope.rule import Ctx, Edits, NoParams, Rule
from engine.session.model import Edit, Part, Span

SAID = "continue"


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    last = next((piece for piece in _backwards(envelope) if piece.body != ()), None)
    if last is not None and last.body and last.body[-1].role == "assistant":
        because = "what stands for the newest messages is an answer, and models no longer go on from one: they are asked to"
        place = ctx.request.cut
        yield Edit("insert", because, Span(place, place), (Part("user", "text", SAID),), slot="go on")


def _backwards(envelope: Envelope) -> Iterator[Piece]:
    for chunk in reversed(envelope.chunks):
        yield from reversed(chunk.pieces)


RULE = Rule(
    "end_with_question",
    "Say `continue` where a summary at the end of a request stands for an answer.",
    edits,
    NoParams,
    "remembers",
    "Anthropic Messages API: newer models refuse a prefilled answer; Continue's CLI says `continue` as well",
)
