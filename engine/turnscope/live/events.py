"""The events of a chat's turn, one type each. A turn is an iterator of them. They are values; nothing stores them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, TurnscopeError
from turnscope.session.model import JSON, Answer, Ask, Request, WishFact


class QueryAnswered(Struct, frozen=True):
    """A rule query was answered, now or in an earlier run."""

    ask: Ask
    answer: Answer


class RequestPlanned(Struct, frozen=True):
    """A request is about to be sent. A second one for the same request means that the provider called the first too long."""

    plan: Plan


class TextDelta(Struct, frozen=True):
    """More text of the answer. `block` is the number of its content block."""

    text: str
    block: int = 0


class ThinkingDelta(Struct, frozen=True):
    """More of the model's thinking."""

    text: str


class RequestDone(Struct, frozen=True):
    """The request was answered in full, and stored. `plan` includes what the provider says it edited in the prompt."""

    request: Request
    plan: Plan | None = None


class ToolCalled(Struct, frozen=True):
    """A tool runs now. `call` is the block of the call, with `id`, `name` and `input`."""

    call: Mapping[str, JSON]


class ToolResult(Struct, frozen=True):
    """The result of a tool. If `failed`, the text is an error message that the model is sent."""

    text: str
    failed: bool = False


class TurnStopped(Struct, frozen=True):
    """The turn ended without a full answer. `reason` is the provider's stop reason or ours, `what` a sentence about it."""

    reason: str
    what: str


class WindowAssumed(Struct, frozen=True):
    """The window of this model is unknown, so `window` tokens are assumed. Its server or the user can give the right one."""

    model: str
    window: int


class FellBack(Struct, frozen=True):
    """The policy left nothing that can be sent, so the newest turns are sent without it. `what` says why, and what is left."""

    what: str


class UsageIgnored(Struct, frozen=True):
    """The usage that the provider reported cannot be right. `what` says so; the tokens of the request are estimated."""

    what: str


class WriteFailed(Struct, frozen=True):
    """A message or request could not be stored. It waits in memory, and the write is tried again."""

    error: TurnscopeError


class WriteRecovered(Struct, frozen=True):
    """Everything that waited is stored now."""


class LimitReached(Struct, frozen=True):
    """A limit of the user is reached, and nothing was sent. `continue_turn(over_limit=True)` sends anyway.

    `usd`: the cost of the next request without an answer and with the longest one; None = no price is known.
    """

    why: str
    usd: tuple[Decimal, Decimal] | None = None


class RequestRefused(Struct, frozen=True):
    """The request does not fit the window and was not sent."""

    error: ContextWindowExceededError


class TurnFailed(Struct, frozen=True):
    """No answer came."""

    error: TurnscopeError


class AnswerInterrupted(Struct, frozen=True):
    """The answer broke off. What had arrived is stored."""

    error: TurnscopeError


class SummaryStarted(Struct, frozen=True):
    """The user requested a summary. `QueryAnswered` and `WishFact` follow, or `TurnFailed`."""


Event = (
    QueryAnswered
    | RequestPlanned
    | WindowAssumed
    | FellBack
    | UsageIgnored
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
"""The events that end a turn without a full answer."""
