"""A range of requests in numbers: what was sent in it, what that cost, and where it grew most.

Pure functions of an `Overview`; no drawing. Positions on a chart become requests before they come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from turnscope.views.events import count_cuts
from turnscope.views.overview import Overview


@dataclass(frozen=True, slots=True)
class Range:
    """Requests `[start, stop)`. `tokens` sent in all; `usd` of those with a price, None where none has; `unpriced`: how many
    have usage but no price; `repeated_share`: share of the tokens that the request before had carried already; `growth` tokens
    at request `growth_request` (-1 = nothing grew); `peak` tokens; `events`: "3 compactions", ...
    """

    start: int
    stop: int
    tokens: int
    usd: Decimal | None
    unpriced: int
    repeated_share: float
    growth_request: int
    growth: int
    peak: int
    events: tuple[str, ...]

    @property
    def requests(self) -> int:
        return self.stop - self.start


def compute_repeated_share(sizes: Sequence[int], before: int) -> float:
    """The share of requests' tokens that the request before each had carried already. `before`: tokens before the first."""
    tokens = sum(sizes)
    return 1 - sum(max(0, b - a) for a, b in pairwise((before, *sizes))) / tokens if tokens else 0.0


def summarize_range(view: Overview, start: int, stop: int) -> Range:
    """Requests `start` up to and without `stop`, both brought inside the session; empty where nothing is between them."""
    start = max(0, min(start, len(view)))
    stop = max(start, min(stop, len(view)))
    prompts = view.prompts
    change = np.diff(prompts, prepend=0)[start:stop]
    tokens = int(prompts[start:stop].sum())
    priced = [total for total in view.totals[start:stop] if total is not None]
    pairs = zip(view.totals[start:stop], view.recorded[start:stop], strict=True)
    grew = start + int(change.argmax()) if len(change) and change.max() > 0 else -1
    return Range(
        start,
        stop,
        tokens,
        sum(priced, Decimal(0)) if priced else None,
        sum(total is None and bool(recorded >= 0) for total, recorded in pairs),
        compute_repeated_share(prompts[start:stop].tolist(), int(prompts[start - 1]) if start else 0),
        grew,
        int(change.max()) if grew >= 0 else 0,
        int(prompts[start:stop].max(initial=0)),
        tuple(text for _, text in count_cuts(marker.kind for marker in view.markers if start <= marker.request < stop)),
    )
