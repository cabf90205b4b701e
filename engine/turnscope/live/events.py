"""What happens in a turn of a chat, one type each; a turn is an iterator of them. Frozen values, kept by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, TurnscopeError
from turnscope.session.model import JSON, Answer, Ask, Request, WishFact


class Asked(Struct, frozen=True):
    """What a rule asked was answered, now or earlier."""

    ask: Ask
    answer: Answer


class Planned(Struct, frozen=True):
    """A request is about to be sent so. A second one for the same request: the provider called the first too long."""

    plan: Plan


class Text(Struct, frozen=True):
    """More of the answer's text; `block` says which of its blocks."""

    text: str
    block: int = 0


class Thinking(Struct, frozen=True):
    """More of the model's thinking."""

    text: str


class Done(Struct, frozen=True):
    """The request was answered in full, and is kept. `plan`: with what the provider says it did to what it was sent."""

    request: Request
    plan: Plan | None = None


class Called(Struct, frozen=True):
    """A tool runs now: the call's block, with `id`, `name` and `input`."""

    call: Mapping[str, JSON]


class Result(Struct, frozen=True):
    """What the tool gave; `failed`: an error that the model is told."""

    text: str
    failed: bool = False


class Stopped(Struct, frozen=True):
    """The turn ended otherwise than by an answer given in full: the provider's reason (or ours), and a sentence about it."""

    reason: str
    what: str


class Assumed(Struct, frozen=True):
    """Nobody knows the window of this model; `window` tokens are assumed. Ask its server, or type it in."""

    model: str
    window: int


class Unkept(Struct, frozen=True):
    """What was said could not be written. It is held in memory, and tried again."""

    error: TurnscopeError


class Kept(Struct, frozen=True):
    """What was held in memory is written now."""


class Held(Struct, frozen=True):
    """A limit of the person is reached: nothing was sent. `go_on(asked=True)` goes over it.

    `usd`: what sending would cost without and with the longest answer, None where no price is known.
    """

    why: str
    usd: tuple[Decimal, Decimal] | None = None


class Refused(Struct, frozen=True):
    """The request does not fit its window and was not sent."""

    error: ContextWindowExceededError


class Failed(Struct, frozen=True):
    """No answer came."""

    error: TurnscopeError


class Interrupted(Struct, frozen=True):
    """The answer broke off; what had come of it is kept."""

    error: TurnscopeError


class Condensing(Struct, frozen=True):
    """Somebody condenses by hand: a summary is asked for. Then `Asked` and `Wished`, or `Failed`."""


Event = (
    Asked | Planned | Assumed | Text | Thinking | Done | Called | Result | Stopped | Unkept | Kept
    | Held | Refused | Failed | Interrupted | Condensing | WishFact
)  # fmt: skip
Ending = Held | Refused | Failed | Interrupted
"""How a turn ends that does not end well."""
