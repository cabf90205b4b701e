"""What happens in a turn of a chat, one type each; a turn is an iterator of them. Frozen values, kept by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, TurnscopeError
from turnscope.session.model import JSON, Answer, Ask, Request, WishFact


class QueryAnswered(Struct, frozen=True):
    """What a rule asked was answered, now or earlier."""

    ask: Ask
    answer: Answer


class RequestPlanned(Struct, frozen=True):
    """A request is about to be sent so. A second one for the same request: the provider called the first too long."""

    plan: Plan


class TextDelta(Struct, frozen=True):
    """More of the answer's text; `block` says which of its blocks."""

    text: str
    block: int = 0


class ThinkingDelta(Struct, frozen=True):
    """More of the model's thinking."""

    text: str


class RequestDone(Struct, frozen=True):
    """The request was answered in full, and is kept. `plan`: with what the provider says it did to what it was sent."""

    request: Request
    plan: Plan | None = None


class ToolCalled(Struct, frozen=True):
    """A tool runs now: the call's block, with `id`, `name` and `input`."""

    call: Mapping[str, JSON]


class ToolResult(Struct, frozen=True):
    """What the tool gave; `failed`: an error that the model is told."""

    text: str
    failed: bool = False


class TurnStopped(Struct, frozen=True):
    """The turn ended otherwise than by an answer given in full: the provider's reason (or ours), and a sentence about it."""

    reason: str
    what: str


class WindowAssumed(Struct, frozen=True):
    """Nobody knows the window of this model; `window` tokens are assumed. Ask its server, or type it in."""

    model: str
    window: int


class WriteFailed(Struct, frozen=True):
    """What was said could not be written. It is held in memory, and tried again."""

    error: TurnscopeError


class WriteRecovered(Struct, frozen=True):
    """What was held in memory is written now."""


class LimitReached(Struct, frozen=True):
    """A limit of the person is reached: nothing was sent. `continue_turn(over_limit=True)` goes over it.

    `usd`: what sending would cost without and with the longest answer, None where no price is known.
    """

    why: str
    usd: tuple[Decimal, Decimal] | None = None


class RequestRefused(Struct, frozen=True):
    """The request does not fit its window and was not sent."""

    error: ContextWindowExceededError


class TurnFailed(Struct, frozen=True):
    """No answer came."""

    error: TurnscopeError


class AnswerInterrupted(Struct, frozen=True):
    """The answer broke off; what had come of it is kept."""

    error: TurnscopeError


class SummaryStarted(Struct, frozen=True):
    """Somebody condenses by hand: a summary is asked for. Then `QueryAnswered` and `Wished`, or `TurnFailed`."""


Event = (
    QueryAnswered
    | RequestPlanned
    | WindowAssumed
    | TextDelta
    | ThinkingDelta
    | RequestDone
    | ToolCalled
    | ToolResult
    | TurnStopped
    | WriteFailed
    | WriteRecovered
    | LimitReached
    | RequestRefused
    | TurnFailed
    | AnswerInterrupted
    | SummaryStarted
    | WishFact
)
UnfinishedTurn = LimitReached | RequestRefused | TurnFailed | AnswerInterrupted
"""How a turn ends that does not end well."""
