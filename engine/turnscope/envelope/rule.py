"""What a rule is, and what it may look at.

A rule is a generator: it yields `Edit`s and receives the envelope as changed, or yields an `Ask` and receives its `Answer`.
What it returns is its state, which it finds as `Ctx.state` at the next request. Only the runner (`assemble`) applies edits, so
the record of decisions is complete. One file per rule in `engine/turnscope/rules/`, each defining `RULE`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from turnscope.counting.calibration import Calibration
from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import Budget
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.index import Index
from turnscope.session.model import JSON, Ask, Counts, Edit, Request, Session

Edits = Generator[Edit | Ask, Any, Any]
"""Yields an edit and is sent the envelope after it; yields an ask and is sent its answer. Returns the rule's next state."""

COUNTED = 4_096  # chunks whose counts in a policy's own units are kept; an envelope of 8,000 requests has some 250
_COUNTED: dict[tuple[int, int], tuple[Ledger, Chunk, Counts]] = {}  # by identity; both are held, so that an id stays its own

Memory = Literal["remembers", "monotone", "fresh"]


class Ctx(Struct, frozen=True):
    """What a rule may read besides the envelope. Nothing in it looks past `request.cut`.

    `ledger` counts for display and cost, `own` for this policy's decisions (the same where it names no counter).
    `limit` is the budget's limit in `own`'s units, without what the log does not hold: compare it with `size(envelope)`.
    `reported`: prompt + answer tokens of the previous request as the provider billed them, if that very envelope was sent;
    else its calibrated count. 0 before the first request.
    `done`: the decisions of this request so far, where they alone (and growth) lead from the previous plan's `after` to the
    envelope at hand; None where some of that plan's edits did not last. `prices`: what models are (windows, limits) and cost.
    `state`: what this rule returned at the previous request, under the same parameters; None where it did not run then.
    `carried`: of a rule that the server follows, whether the envelope at hand goes on from the one that it left at the previous
    request; else it is what is sent, without any edit of the server's. `body`: an envelope as it would be sent.
    """

    session: Session
    request: Request
    index: Index
    ledger: Ledger
    own: Ledger
    previous: Plan | None
    calibration: Calibration
    budget: Budget
    limit: int
    previous_usage: int
    earlier_decisions: Sequence[Decision] | None = None
    prices: Prices = PRICES
    state: Any = None
    continues_previous: bool = False
    body: Callable[[Envelope], Mapping[str, JSON]] | None = None

    def count_envelope(self, envelope: Envelope) -> int:
        """Tokens of an envelope in `own`'s units."""
        return envelope.tokens if self.own is self.ledger else sum(sum(self.count_chunk(chunk)) for chunk in envelope.chunks)

    def count_chunk(self, chunk: Chunk) -> Counts:
        """Tokens per bucket of a chunk of an envelope in `own`'s units; counted once, for envelopes share their chunks."""
        own = self.own
        if own is self.ledger:
            return chunk.counts
        found = _COUNTED.get((id(own), id(chunk)))
        if found is None or found[0] is not own or found[1] is not chunk:
            rows = [
                own.count_by_bucket(p.start, p.stop) if p.body is None else own.count_placeholder(p.body) for p in chunk.pieces
            ]
            a, b, c, d, e = (sum(column) for column in zip(*rows, strict=True))
            if len(_COUNTED) >= COUNTED:
                _COUNTED.clear()
            found = _COUNTED[id(own), id(chunk)] = (own, chunk, (a, b, c, d, e))
        return found[2]

    def count_tokens(self, start: int, stop: int) -> int:
        """Tokens of blocks `[start, stop)` in `own`'s units."""
        return self.own.count_tokens(start, stop)


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to change an envelope. `params` is a frozen dataclass type whose fields are `Annotated[type, "help"]`.

    `memory`: `remembers` - the edits stand until something replaces them; `monotone` - they stand while model and parameters
    stay and the limit does not rise; `fresh` - they are decided anew for each request.
    `state`: type of what `edits` returns, a frozen msgspec Struct or builtins, which msgspec encodes and decodes to an equal
    value; None = the rule has no state. A state holds what cannot be read off the session and the envelope again.
    `sends`: of a rule that the server follows: what of the request asks it to (parameters and settings of the request -> a
    context edit of the body; None = nothing). Its edits tell what the model then sees; what is sent stays as it is.
    """

    name: str
    doc: str
    edits: Callable[[Envelope, Ctx, Any], Edits]
    params: type
    memory: Memory = "remembers"
    source: str = "Turnscope"
    state: Any = None
    sends: Callable[[Any, Mapping[str, JSON]], JSON] | None = None


@dataclass(frozen=True, slots=True)
class NoParams:
    """A rule without parameters."""
