"""Put a user's message in front of a request that would begin with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pairs import build_opening_notice
from turnscope.envelope.rule import Ctx, Edits, Rule


@dataclass(frozen=True, slots=True)
class Params:
    """The text of the message."""

    notice: Annotated[str, "text of the user's message in front of a leading answer"] = "[Earlier messages are left out.]"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    if edit := build_opening_notice(envelope, ctx, params.notice):
        yield edit


RULE = Rule(
    "begin_with_question",
    "Put a user's message in front of a request that would begin with an answer.",
    edits,
    Params,
    "fresh",  # a sliding window begins elsewhere each time: earlier notices must not stay
    'Anthropic Messages API: "first message must use the user role"',
)
