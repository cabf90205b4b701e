"""The plan of one request under one policy: what is sent, what the model sees, and why. `planning.assemble` makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from turnscope import notebook
from turnscope.counting.calibration import Calibration
from turnscope.envelope.budget import Budget
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision
from turnscope.session.model import Action, Answer, Ask, Placeholder, Request, Span

SHOWN = 12  # decisions listed in a notebook
Verdict = Literal["send", "warn", "overflow", "refuse"]


class FreshEdit(NamedTuple):
    """What a `fresh` rule did to a request: span, new content and slot, and the counted tokens that the request grew by."""

    span: Span
    body: Placeholder
    slot: str
    change: int


FreshEdits = tuple[FreshEdit, ...]
"""What `fresh` rules did to a request, in address order."""


class StepState(Struct, frozen=True, gc=False):
    """What a step of the policy (a rule with its parameters) returned: its state for the next request."""

    rule: str
    params: Any
    state: Any


class Plan(Struct, frozen=True, gc=False):
    """The plan of one request under one policy.

    Envelopes count tokens in the ledger's units. `calibration` converts them to the provider's tokens; it was fitted on earlier
    requests only.

    Attributes:
        request: The request; its model is the one it is sent to.
        before: The envelope before this request's decisions.
        decisions: What changed it, in order.
        after: What is sent.
        seen: What the model sees: `after` without what the provider's server removes.
        server: The decisions of the provider's server: old thinking, everything before a compaction.
        model: The model it is sent to.
        budget: Its budget.
        calibration: Converts counted tokens to billed tokens.
        verdict: send, warn, overflow or refuse.
        first: Number of the first of `decisions`.
        kept: What the next request starts from while budget and model stay.
        base: The same without edits that hold only while budget and model stay (`monotone`).
        asks: Questions of rules, with the answers.
        states: States of the policy's steps, in the policy's order.
        fresh_edits: All that `fresh` rules want in this request. What the previous request had of it is in `before` already and
            was decided there. None where it cannot be separated from what other rules did.
        onward: The calibration that later requests start from, if exact counts of this request changed `calibration`.
    """

    request: Request
    before: Envelope
    decisions: tuple[Decision, ...]
    after: Envelope
    seen: Envelope
    server: tuple[Decision, ...]  # old thinking, everything before a compaction
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
    onward: Calibration | None = None  # None = `calibration`

    @property
    def limit(self) -> int | None:
        """The model's context window in tokens; None where it is only assumed."""
        return self.budget.window if self.budget.known else None

    @property
    def offline_asks(self) -> tuple[Ask, ...]:
        """Asks for summaries that no model answered."""
        return tuple(
            ask for ask, answer in self.asks if ask.kind == "summary" and (answer.source == "offline" or answer.failed)
        )

    @property
    def expected_tokens(self) -> int:
        """The expected prompt in the provider's tokens."""
        return self.calibration.predict(self.seen.tokens)

    @property
    def largest_prompt(self) -> int:
        """The largest prompt that the provider reads for this request: a server that compacts reads the whole prompt first."""
        return max(self.expected_tokens, count_read_tokens(self.server))

    @property
    def seen_tokens(self) -> int:
        """Counted tokens of what the model sees."""
        return self.seen.tokens

    @property
    def static_tokens(self) -> int:
        """Counted tokens of the system prompt and tools that the model sees."""
        return sum(self.seen.counts[:2])

    @property
    def actions(self) -> tuple[Action, ...]:
        """Actions of the decisions that changed the envelope, warned, refused or chose another model; in order."""
        return tuple(d.action for d in self.decisions if d.splice or d.action in ("warn", "fallback", "refuse"))

    @property
    def is_server_edited(self) -> bool:
        """True where the provider's server decided something."""
        return bool(self.server)

    @property
    def read_tokens(self) -> int:
        """The tokens that the provider reads before it compacts; 0 where it does not compact."""
        return count_read_tokens(self.server)

    def get_state(self, rule: str) -> Any:
        """Return what the first step with that rule returned; None where there is no such step, or it has no state."""
        return next((known.state for known in self.states if known.rule == rule), None)

    @property
    def is_changed(self) -> bool:
        """True where a decision changed the envelope."""
        return any(decision.splice for decision in self.decisions)

    def __repr__(self) -> str:
        did = ", ".join(sorted({d.action for d in self.decisions})) or "kept all"
        return (
            f"<Plan of request {self.request.n}: {self.before.tokens:,} -> {self.after.tokens:,} tokens, {did}, {self.verdict}>"
        )

    def _repr_html_(self) -> str:
        """Buckets before and after to one scale, and the decisions between them."""
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
        return notebook.render_card(f"Plan of requests[{self.request.n}]", *parts, note=note)


def count_read_tokens(server: Sequence[Decision]) -> int:
    """Return the tokens that a provider reads before it compacts, by its decisions; 0 where it does not compact."""
    return max((int(d.edit.facts.get("read", 0)) for d in server if d.action == "condense"), default=0)
