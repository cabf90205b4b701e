"""Begin a request with a message of the user's where what is left of the conversation would begin with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from engine.envelope.envelope import Envelope
from engine.envelope.pairs import opens_with_answer, verbatim
from engine.envelope.rule import Ctx, Edits, Rule
from engine.session.model import Edit, Part, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The words that stand for what is missing."""

    notice: Annotated[str, "a user's message where the request would begin with an answer"] = "[Earlier messages are left out.]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    at = opens_with_answer(envelope, ctx)
    if at is not None:
        piece, parts = verbatim(envelope, ctx, at)
        body = (Part("user", "text", params.notice), *parts)
        because = "the conversation would begin with an answer"
        yield Edit("repair", because, Span(piece.start, piece.stop), body, facts={"block": at})


RULE = Rule(
    "begin_with_question",
    "Say that earlier messages are left out where a request would begin with an answer.",
    edits,
    Params,
    "fresh",  # a window that slides begins elsewhere each time: what stood at its earlier fronts is not carried along
    'Anthropic Messages API: "first message must use the user role"',
)
