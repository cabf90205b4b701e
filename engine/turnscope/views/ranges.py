"""A range of requests in numbers: what was sent, what it cost, and where it grew most.

Pure functions of an `Overview`; no drawing. The caller turns positions on a chart into requests.
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
    """Requests `[start, stop)`.

    Attributes:
        tokens: tokens sent in all.
        usd: USD of the requests with a price; None where none has one.
        unpriced: requests with usage but no price.
        repeated_share: share of the tokens that the previous request had sent already.
        growth_request, growth: the request that grew most, and by how many tokens; -1 = none grew.
        peak: tokens of the largest prompt.
        events: "3 compactions", ...
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
        """How many requests it has."""
        return self.stop - self.start


def compute_repeated_share(sizes: Sequence[int], before: int) -> float:
    """Compute the share of tokens that the request before each one had sent already, 0 to 1.

    Args:
        sizes: prompt tokens of the requests.
        before: prompt tokens of the request before the first.

    >>> compute_repeated_share([100, 150, 160], before=0)
    0.6097560975609756
    """
    tokens = sum(sizes)
    return 1 - sum(max(0, b - a) for a, b in pairwise((before, *sizes))) / tokens if tokens else 0.0


def summarize_range(view: Overview, start: int, stop: int) -> Range:
    """Summarize requests `[start, stop)`. Both ends are moved inside the session.

    Args:
        view: the session.
        start, stop: numbers of requests.
    """
    start = max(0, min(start, len(view)))
    stop = max(start, min(stop, len(view)))
    prompts = view.prompts
    change = np.diff(prompts, prepend=0)[start:stop]
    tokens = int(prompts[start:stop].sum())
    priced = [total for total in view.totals[start:stop] if total is not None]
    pairs = zip(view.totals[start:stop], view.recorded[start:stop], strict=True)
    grew = start + int(change.argmax()) if len(change) and change.max() > 0 else -1
    return Range(
        start=start,
        stop=stop,
        tokens=tokens,
        usd=sum(priced, Decimal(0)) if priced else None,
        unpriced=sum(total is None and bool(recorded >= 0) for total, recorded in pairs),
        repeated_share=compute_repeated_share(prompts[start:stop].tolist(), int(prompts[start - 1]) if start else 0),
        growth_request=grew,
        growth=int(change.max()) if grew >= 0 else 0,
        peak=int(prompts[start:stop].max(initial=0)),
        events=tuple(text for _, text in count_cuts(marker.kind for marker in view.markers if start <= marker.request < stop)),
    )
