"""A request that has ended, as one value: what everybody is told who keeps, traces or watches a chat."""

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
    """A request of session `session` with what came of it; `plan` is the one that it was sent with, or would have been.

    `answer` and its `blocks`: None and () where there is none. `gone`: edits that put back what earlier plans had changed and
    this one does not. `usd`: what it cost, None where no usage was billed or no price is known; what asks of the plan cost is
    in `plan.asks`. `attempts`: how often it was sent. `error`: why it is not complete, None where it was
    stopped. Times in seconds.
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
    """The blocks of an answer that broke off: its texts as far as they came, and that it did; none where nothing came."""
    said = [text for text in texts if text.strip()]
    return tuple({"type": "text", "text": text} for text in ([*said, INTERRUPTED] if said else []))
