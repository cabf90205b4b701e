"""A trace: all plans of a session under one policy.

Holds the value and its reading; `assemble` makes the plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine import policy as policies
from engine.assemble import replay
from engine.ledger import Ledger
from engine.model import Piece, Session
from engine.policy import Policy
from engine.rule import Plan


@dataclass(frozen=True, slots=True)
class Trace:
    """Plans of every request, in order."""

    session: Session
    policy: Policy
    ledger: Ledger
    plans: tuple[Plan, ...]

    def __repr__(self) -> str:
        cuts = sum(any(d.splice for d in plan.decisions) for plan in self.plans)
        peak = max((plan.after.tokens for plan in self.plans), default=0)
        return f"<Trace of {len(self.plans)} requests under {self.policy.name!r}: {cuts} changed, peak {peak:,} counted tokens>"

    def why(self, at: int, request: int) -> str:
        """One sentence: how block `at` stands in `request`, and by which decision. IndexError outside the envelope."""
        plan = self.plans[request]
        piece: Piece = plan.after.at(at)
        if piece.by < 0:
            return "It stands as it is; no decision has touched it."
        for earlier in reversed(self.plans[: request + 1]):
            if piece.by >= earlier.first:
                decision = earlier.decisions[piece.by - earlier.first]
                return f"{decision.action} by {decision.rule} at request {decision.request}: {decision.edit.because}."
        raise IndexError(piece.by)


def trace(session: Session, policy: Policy | str, ledger: Ledger) -> Trace:
    """Replay a session under a policy, given by value or by name."""
    chosen = policies.load(policy) if isinstance(policy, str) else policy
    return Trace(session, chosen, ledger, tuple(replay(session, chosen, ledger)))
