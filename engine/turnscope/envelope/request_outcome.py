"""How a request ended, as one value: what stores, traces and viewers of a chat receive."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from turnscope.envelope.plan import Plan
from turnscope.errors import TurnscopeError
from turnscope.session.model import JSON, Edit, Message, Request

Status = Literal["complete", "interrupted", "refused", "failed"]
INTERRUPTED = "[The answer was interrupted here; only this much was delivered.]"


class RequestEnded(Struct, frozen=True):
    """A request of a chat and its outcome.

    Attributes:
        session: Id of the session.
        request: The request.
        plan: The plan it was sent with, or would have been sent with.
        status: complete, interrupted, refused or failed.
        answer: The answer; None = none came.
        blocks: Content of the answer.
        lapsed_edits: Edits that restore what earlier plans changed and this plan does not.
        seconds: From sending to the end.
        usd: Cost; None where no usage was billed or the price is unknown. Asks of the plan are in `plan.asks`.
        attempts: How often the request was sent.
        error: Why it is not complete; None where it was stopped.
    """

    session: str
    request: Request
    plan: Plan
    status: Status
    answer: Message | None = None
    blocks: tuple[JSON, ...] = ()
    lapsed_edits: tuple[Edit, ...] = ()
    seconds: float = 0.0
    usd: Decimal | None = None
    attempts: int = 1
    error: TurnscopeError | None = None


def build_partial_answer(texts: Iterable[str]) -> tuple[JSON, ...]:
    """Return the blocks of an interrupted answer: the texts that arrived and a note; () where none arrived."""
    arrived = [text for text in texts if text.strip()]
    return tuple({"type": "text", "text": text} for text in ([*arrived, INTERRUPTED] if arrived else []))
