"""What a rule is, and what it may read.

A rule is a generator. It yields an `Edit` and receives the envelope after it, or yields an `Ask` and receives its `Answer`. It
returns its state, which it finds as `Ctx.state` at the next request. Only the runner (`planning.assemble`) applies edits, so
the record of decisions is complete. Each file in `engine/turnscope/rules/` holds one rule and defines `RULE`.
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
from turnscope.session.model import JSON, Ask, Counts, Edit, Request, Session, Span

Edits = Generator[Edit | tuple[Edit, ...] | Ask, Any, Any]
"""Yields an edit and receives the envelope after it, or an ask and receives its answer. Returns the rule's next state.

A tuple of edits in address order is applied in one pass, and nothing is received for it: where a `fresh` rule only repeats what
the previous request was sent with, nothing is applied.
"""

COUNTED = 4_096  # chunks whose counts in a policy's own units are cached; an envelope of 8,000 requests has about 250
_COUNTED: dict[tuple[int, int], tuple[Ledger, Chunk, Counts]] = {}  # by id; the objects are held, so no id is reused

Memory = Literal["remembers", "monotone", "fresh"]


class Ctx(Struct, frozen=True):
    """What a rule may read besides the envelope. Nothing in it is later than `request.cut`.

    Attributes:
        session: The session.
        request: The request being planned.
        index: The session's index.
        ledger: Token counts for display and cost.
        own: Token counts for this policy's decisions; the same as `ledger` where the policy names no counter.
        previous: The plan of the previous request; None for the first.
        calibration: Converts counted tokens to billed tokens.
        budget: The budget of the request, in the provider's tokens.
        limit: The budget's limit in `own`'s units, without what the log does not contain. Compare it with `size(envelope)`.
        previous_usage: Tokens of the previous request, prompt and answer: as billed if that very envelope was sent, else its
            calibrated count. 0 before the first request.
        earlier_decisions: The decisions of this request so far, if they alone (and new blocks) lead from the previous plan's
            `after` to the envelope at hand. None where some of that plan's edits did not last.
        prices: Facts of models: windows, limits, prices.
        state: What this rule returned at the previous request with the same parameters; None where it did not run then.
        continues_previous: For a rule that runs on the server: True where the envelope continues the one that the rule left at
            the previous request; False where it is what is sent, without any edit of the server.
        body: Renders an envelope as the request body.
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
        """Return the tokens of an envelope in `own`'s units."""
        return envelope.tokens if self.own is self.ledger else sum(sum(self.count_chunk(chunk)) for chunk in envelope.chunks)

    def count_chunk(self, chunk: Chunk) -> Counts:
        """Return the tokens per bucket of a chunk in `own`'s units. Counted once, because envelopes share their chunks."""
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
        """Return the tokens of blocks `[start, stop)` in `own`'s units.

        Args:
            start: The first block.
            stop: The block after the last one.
        """
        return self.own.count_tokens(start, stop)


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to change an envelope.

    Attributes:
        name: The rule's name in policies.
        doc: One sentence for people.
        edits: The generator: `(envelope, ctx, params)`. It gets the envelope as earlier rules left it, what it may read
            besides, and an instance of `params`.
        params: A frozen dataclass type whose fields are `Annotated[type, "help"]`.
        memory: `remembers`: edits hold until something replaces them. `monotone`: they hold while model and parameters stay and
            the limit does not rise. `fresh`: they are decided anew for each request.
        source: Where the rule comes from.
        state: The type of what `edits` returns: a frozen msgspec Struct or builtins that msgspec encodes and decodes to an
            equal value. None = no state. A state holds only what cannot be computed again from the session and the envelope.
        sends: For a rule that runs on the provider's server: what it adds to the request, `(params, settings of the request) ->
            context edit of the body`; None = nothing. Its edits say what the model then sees; what is sent does not change.
        idle_from: Of a request that only grew, by blocks that are sent as they came, `(ctx, span of these blocks, params)`: the
            first address from which on it must be sent as it came so that the rule does nothing; -1 = it may do something.
            Reads the session alone, so that the answer is the same under every policy. None = the rule always runs.
    """

    name: str
    doc: str
    edits: Callable[[Envelope, Ctx, Any], Edits]
    params: type
    memory: Memory = "remembers"
    source: str = "Turnscope"
    state: Any = None
    sends: Callable[[Any, Mapping[str, JSON]], JSON] | None = None
    idle_from: Callable[[Ctx, Span, Any], int] | None = None


@dataclass(frozen=True, slots=True)
class NoParams:
    """A rule without parameters."""
