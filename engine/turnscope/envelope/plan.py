"""One request under one policy: what would be sent, what the model sees of it, and why. `planning.assemble` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from turnscope import notebook
from turnscope.counting.calibration import Calibration
from turnscope.envelope.budget import Budget
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision
from turnscope.session.model import Answer, Ask, Placeholder, Request, Span

SHOWN = 12  # decisions listed in a notebook
Verdict = Literal["send", "warn", "overflow", "refuse"]


FreshEdits = tuple[tuple[Span, Placeholder, str], ...]
"""What rules that decide anew did to a request: where, what stands there, and in which slot; in address order."""


class StepState(Struct, frozen=True, gc=False):
    """What a step of the policy, a rule with its parameters, returned: its state for the next request."""

    rule: str
    params: Any
    state: Any


class Plan(Struct, frozen=True, gc=False):
    """One request under one policy: what would be sent (`after`), what the model sees of it (`seen`), and why.

    Tokens of envelopes are in the ledger's units; `calibration` (fitted on earlier requests only) turns them into the
    provider's. `first` numbers the first of `decisions`. `kept` and `base` are what the next request starts from: with and
    without the edits that hold only while budget and model stay (`monotone`); and `states`, one per step whose rule has a
    state, in the policy's order. `again`: all that `fresh` rules want in this request; what the request before had of it
    stands in `before`, decided there. None where it cannot be told from what other rules did.
    """

    request: Request
    before: Envelope
    decisions: tuple[Decision, ...]
    after: Envelope
    seen: Envelope
    server: tuple[Decision, ...]  # what the provider itself leaves out: old thinking, all that stands before a compaction
    model: str
    budget: Budget
    calibration: Calibration
    verdict: Verdict
    first: int
    kept: Envelope
    base: Envelope
    asks: tuple[tuple[Ask, Answer], ...] = ()
    states: tuple[StepState, ...] = ()
    fresh_edits: FreshEdits | None = ()
    onward: Calibration | None = None  # what later requests start from, where counts of this one alone taught `calibration`

    @property
    def limit(self) -> int | None:
        """The model's window in tokens; None where it is only assumed."""
        return self.budget.window if self.budget.known else None

    @property
    def expected_tokens(self) -> int:
        """Prompt tokens to expect from the provider, in its own units."""
        return self.calibration.predict(self.seen.tokens)

    @property
    def largest_prompt(self) -> int:
        """The largest prompt to expect that the provider has to read for it: one that sums up reads the whole first."""
        return max(self.expected_tokens, count_read_tokens(self.server))

    def get_state(self, rule: str) -> Any:
        """What the first step with that rule returned; None where there is none, or no such step."""
        return next((known.state for known in self.states if known.rule == rule), None)

    @property
    def is_changed(self) -> bool:
        return any(decision.splice for decision in self.decisions)

    def __repr__(self) -> str:
        did = ", ".join(sorted({d.action for d in self.decisions})) or "kept all"
        return (
            f"<Plan of request {self.request.n}: {self.before.tokens:,} -> {self.after.tokens:,} tokens, {did}, {self.verdict}>"
        )

    def _repr_html_(self) -> str:
        """Both bars to one scale, and the decisions that led from the one to the other."""
        whole = max(self.before.tokens, self.after.tokens)
        made = [d for d in self.decisions if d.splice or d.action in ("warn", "fallback", "refuse")]
        rows = ((d.action, d.rule, d.before, d.after, d.edit.because) for d in made[:SHOWN])
        parts = [
            notebook.render_line("Before the policy"),
            notebook.render_bar(self.before.buckets, whole),
            notebook.render_line("Sent"),
            notebook.render_bar(self.after.buckets, whole),
        ]
        parts += [notebook.render_table(("did", "rule", "tokens before", "after", "because"), rows)] if made else []
        parts += [notebook.render_line(f"and {len(made) - SHOWN:,} more decisions")] if len(made) > SHOWN else []
        expected = f"{self.expected_tokens:,} of {self.budget.window:,} tokens expected when it was planned"
        note = f"{self.model} · {self.verdict} · {expected}"
        return notebook.render_card(f"Request {self.request.n}", *parts, note=note)


def count_read_tokens(server: Sequence[Decision]) -> int:
    """Tokens that a provider has to read before it sums up, by its decisions on a request; 0 where it does not."""
    return max((int(d.edit.facts.get("read", 0)) for d in server if d.action == "condense"), default=0)
