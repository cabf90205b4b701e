"""Begin a request with a message of the user's where what is left of the conversation would begin with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pairs import build_opening_notice
from turnscope.envelope.rule import Ctx, Edits, Rule


@dataclass(frozen=True, slots=True)
class Params:
    """The words that stand for what is missing."""

    notice: Annotated[str, "a user's message where the request would begin with an answer"] = "[Earlier messages are left out.]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    if edit := build_opening_notice(envelope, ctx, params.notice):
        yield edit


RULE = Rule(
    "begin_with_question",
    "Say that earlier messages are left out where a request would begin with an answer.",
    edits,
    Params,
    "fresh",  # a window that slides begins elsewhere each time: what stood at its earlier fronts is not carried along
    'Anthropic Messages API: "first message must use the user role"',
)
