"""Two sessions side by side, each as recorded: the same task by two models, or before and after a change.

Holds the numbers of each. Whether both did the same work is for the reader to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from turnscope.planning.trace import Trace
from turnscope.views.comparison import Row, SharedFacts, build_row
from turnscope.views.text_tables import format_csv


@dataclass(frozen=True, slots=True)
class Side:
    """The record of one session.

    Attributes:
        row: its numbers as in a comparison of policies, under its own title.
        answers: output tokens.
        calls: tool calls.
        minutes: from its first request to its last answer; None where the log has no times.
    """

    title: str
    models: tuple[str, ...]
    row: Row
    turns: int
    answers: int
    calls: int
    minutes: float | None

    @property
    def name(self) -> str:
        """What distinguishes it from the other session: its title and the model of most of its requests."""
        return f"{self.title} · {self.models[0] if self.models else 'model not named'}"


def build_side(trace: Trace, shared: SharedFacts) -> Side:
    """Build the numbers of a session.

    Args:
        trace: the session as it was sent.
        shared: see `comparison.SharedFacts`.
    """
    session = trace.session
    title = session.title or session.id
    models = tuple(model for model, _ in Counter(request.model for request in session.requests if request.model).most_common())
    made = build_row(trace, shared)
    found = Side(
        title=title,
        models=models,
        row=made,
        turns=len({request.turn for request in session.requests}),
        answers=sum(shared.answer_tokens),
        calls=sum(block.kind == "tool_use" for block in session.blocks),
        minutes=_measure_minutes(trace),
    )
    return replace(found, row=replace(made, policy=session.id, title=found.name))


def _measure_minutes(trace: Trace) -> float | None:
    times = [time for r in trace.session.requests for time in (r.sent_at, r.answered_at) if time is not None]
    return (max(times) - min(times)) / 60 if times else None


def list_measures(sides: Sequence[Side]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each measure with its value for every session, as texts; a dash where the log does not say."""
    rows = [each.row for each in sides]
    yield "Models", tuple(", ".join(each.models) or "–" for each in sides)
    yield "Requests", tuple(f"{len(made.sizes):,}" for made in rows)
    yield "Turns", tuple(f"{each.turns:,}" for each in sides)
    yield "Minutes", tuple("–" if each.minutes is None else f"{each.minutes:,.0f}" for each in sides)
    yield "Prompt tokens, all requests", tuple(f"{sum(made.sizes):,}" for made in rows)
    yield "Largest prompt", tuple(f"{max(made.sizes, default=0):,}" for made in rows)
    yield "Peak of the window", tuple(f"{made.peak[0]:.0%}" if made.sizes else "–" for made in rows)
    yield "Answer tokens", tuple(f"{each.answers:,}" for each in sides)
    yield "Calls of tools", tuple(f"{each.calls:,}" for each in sides)
    yield "USD", tuple(_format_usd(made.usd) for made in rows)
    yield "Prompt from cache, simulated", tuple(f"{made.cost.cache_share:.0%}" for made in rows)
    yield "Requests that fell by a tenth", tuple(f"{sum(b < 0.9 * a for a, b in _iter_pairs(made)):,}" for made in rows)
    yield "Lost references", tuple(f"{len(made.losses.hits):,} of {sum(made.losses.uses):,}" for made in rows)


def _iter_pairs(made: Row) -> Iterator[tuple[int, int]]:
    return zip(made.sizes, made.sizes[1:], strict=False)


def _format_usd(amount: object) -> str:
    return "no known price" if amount is None else f"{amount:,.2f}"


def sides_to_csv(sides: Sequence[Side]) -> str:
    """Write the measures as CSV, a column per session."""
    return format_csv(("", *(each.name for each in sides)), ((what, *values) for what, values in list_measures(sides)))
