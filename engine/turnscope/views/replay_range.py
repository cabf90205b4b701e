"""A stretch of requests of a replay in numbers: what was sent in it, what it cost, what was decided, where it changed most.

Pure functions of a trace and its steps. What was really sent, with its events, has `ranges` over an `Overview`.
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
    """Requests `[start, stop)`. Tokens are the provider's.

    `tokens`: sent in all; `repeated_share`: the share of them that is no growth over the request before; `rules`: rule and
    action with how often it was decided and changed something, the most frequent first; `change_request`: the request with the
    biggest change against the one before, None where none changed, and `change` by how much; `peak`: the largest request's
    tokens.
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
        return sum(times for _, _, times in self.rules)


def summarize_replay_range(trace: Trace, steps: Steps, start: int, stop: int) -> ReplayRange:
    """Requests `start` up to and without `stop`, both brought inside the trace."""
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
        start,
        stop,
        tokens,
        compute_repeated_share(sizes, before),
        sum(known, Decimal(0)) if known else None,
        stop - start - len(known),
        tuple((rule, action, times) for (rule, action), times in made.most_common()),
        None if grew is None else start + grew,
        0 if grew is None else changes[grew],
        max(sizes, default=0),
    )
