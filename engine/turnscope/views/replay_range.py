"""A range of a replay's requests in numbers: what was sent, what it cost, what was decided, where it changed most.

Pure functions of a trace and its steps. `ranges` has what was really sent, with its events.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from turnscope.planning.trace import Trace
from turnscope.views.ranges import compute_repeated_share
from turnscope.views.stepper import Steps


@dataclass(frozen=True, slots=True)
class ReplayRange:
    """Requests `[start, stop)` of a replay, in provider tokens.

    Attributes:
        tokens: tokens sent in all.
        repeated_share: share of them that the previous request had sent already.
        usd, unpriced: USD of the requests with a price, and how many have none.
        rules: rule, action and how often it changed something, the most frequent first.
        change_request, change: the request that changed most against the previous one, and by how many tokens; None = none did.
        peak: tokens of the largest prompt.
    """

    start: int
    stop: int
    tokens: int
    repeated_share: float
    usd: Decimal | None
    unpriced: int
    rules: tuple[tuple[str, str, int], ...]
    change_request: int | None
    change: int
    peak: int

    @property
    def decisions(self) -> int:
        """How many decisions changed something."""
        return sum(times for _, _, times in self.rules)


def summarize_replay_range(trace: Trace, steps: Steps, start: int, stop: int) -> ReplayRange:
    """Summarize requests `[start, stop)` of a replay. Both ends are moved inside the trace.

    Args:
        trace: the replay.
        steps: the same replay for the stepper.
        start, stop: numbers of requests.
    """
    count = len(trace.plans)
    start = max(0, min(start, count))
    stop = max(start, min(stop, count))
    sizes = steps.sizes[start:stop]
    before = steps.sizes[start - 1] if start else 0
    changes = [b - a for a, b in pairwise((before, *sizes))]
    tokens = sum(sizes)
    made = Counter((d.rule, d.action) for plan in trace.plans[start:stop] for d in plan.decisions if d.splice)
    most = max(range(len(changes)), key=lambda n: abs(changes[n]), default=None)
    grew = most if most is not None and changes[most] else None
    known = [usd for usd in steps.costs.usd[start:stop] if usd is not None]
    return ReplayRange(
        start=start,
        stop=stop,
        tokens=tokens,
        repeated_share=compute_repeated_share(sizes, before),
        usd=sum(known, Decimal(0)) if known else None,
        unpriced=stop - start - len(known),
        rules=tuple((rule, action, times) for (rule, action), times in made.most_common()),
        change_request=None if grew is None else start + grew,
        change=0 if grew is None else changes[grew],
        peak=max(sizes, default=0),
    )
