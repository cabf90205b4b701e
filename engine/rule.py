"""What a rule is, what it may look at, and what a plan of one request holds.

A rule is a generator: it yields `Edit`s and receives the envelope as changed. Only the runner (`assemble`) applies edits, so
the record of decisions is complete. One file per rule in `engine/rules/`, each defining `RULE`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from engine.envelope import Envelope
from engine.fit import Calibration
from engine.ledger import Ledger
from engine.model import Decision, Edit, Request, Session

Edits = Generator[Edit, Envelope, None]
Verdict = Literal["send", "warn", "overflow", "refuse"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One request under one policy: what would be sent (`after`), what the model sees of it (`seen`), and why.

    Tokens of envelopes are in the ledger's units; `calibration` (fitted on earlier requests only) turns them into the
    provider's. `limit` (tokens) is None where the window is unknown. `first` numbers the first of `decisions`.
    """

    request: Request
    before: Envelope
    decisions: tuple[Decision, ...]
    after: Envelope
    seen: Envelope
    server: tuple[Decision, ...]  # what the provider itself leaves out: old thinking, all that stands before a compaction
    model: str
    limit: int | None
    calibration: Calibration
    verdict: Verdict
    first: int = 0

    @property
    def projected(self) -> int:
        """Prompt tokens to expect from the provider, in its own units."""
        return self.calibration.predict(self.seen.tokens)

    def __repr__(self) -> str:
        did = ", ".join(sorted({d.action for d in self.decisions})) or "kept all"
        return (
            f"<Plan of request {self.request.n}: {self.before.tokens:,} -> {self.after.tokens:,} tokens, {did}, {self.verdict}>"
        )


@dataclass(frozen=True, slots=True)
class Ctx:
    """What a rule may read besides the envelope. Nothing in it looks past `request.cut`."""

    session: Session
    request: Request
    ledger: Ledger
    previous: Plan | None
    calibration: Calibration
    limit: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to change an envelope. `params` is a frozen dataclass type; `memory` says what is carried to the next request."""

    name: str
    doc: str
    edits: Callable[[Envelope, Ctx, Any], Edits]
    params: type
    memory: Literal["remembers", "monotone", "fresh"] = "remembers"


@dataclass(frozen=True, slots=True)
class NoParams:
    """A rule without parameters."""
