"""Sessions that are worth a look first, each with the reason: those that stand out by cost, cache misses, cuts or fill.

Reads rows of the index alone. The limits say what stands out; having no such session is a valid result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from turnscope.storage.library_index import IndexRow
from turnscope.views.phrases import format_usd
from turnscope.views.usage import PICO_PER_USD

Kind = Literal["cost", "cache", "cuts", "full"]

MIN_COMPARED = 5  # sessions with a price; the median of fewer says little
OUTLIER_FACTOR = 4  # times the median
MIN_USD = 1.0  # of a session, or of its cache misses; less is not worth the time to look
MISSED_SHARE = 0.1  # of a session's cost
MIN_CUTS = 3
FULL_SHARE = 0.95  # of the window; tools warn and cut at 80 to 92 %


@dataclass(frozen=True, slots=True)
class Notable:
    """A session and why it is worth a look. `weight` ranks sessions of one kind; USD where the kind is about money."""

    row: IndexRow
    kind: Kind
    title: str
    reason: str
    weight: float


def find_notable(rows: Iterable[IndexRow], most: int = 3) -> tuple[Notable, ...]:
    """Find the sessions that stand out most, each session once: first the strongest of each kind, then the next ones.

    Args:
        rows: rows of the index.
        most: how many at most.
    """
    every = [row for row in rows if row.requests]
    ranked = [sorted(kind(every), key=lambda one: -one.weight) for kind in _KINDS]
    found: dict[tuple[str, str], Notable] = {}
    for depth in range(max(map(len, ranked), default=0)):
        for one in (kind[depth] for kind in ranked if depth < len(kind)):
            if len(found) < most:
                found.setdefault((one.row.path, one.row.entry), one)
    return tuple(found.values())


def _find_expensive(rows: Sequence[IndexRow]) -> list[Notable]:
    """Those that cost several times what is usual in their project, or among all where the project has too few."""
    by_project: dict[str, list[float]] = {}
    for row in rows:
        if row.usd:
            by_project.setdefault(row.project, []).append(row.usd)
    every = [usd for project in by_project.values() for usd in project]
    found = []
    for row in rows:
        own = by_project.get(row.project, [])
        of, compared = (row.project, own) if len(own) >= MIN_COMPARED else ("all sessions", every)
        if row.usd and row.usd >= MIN_USD and len(compared) >= MIN_COMPARED:
            factor = row.usd / median(compared)
            if factor >= OUTLIER_FACTOR:
                reason = f"{format_usd(row.usd)}, {factor:,.0f} times the median of {of}."
                found.append(Notable(row, "cost", "Cost outlier", reason, row.usd))
    return found


def _find_cache_misses(rows: Sequence[IndexRow]) -> list[Notable]:
    found = []
    for row in rows:
        missed = (row.missed or 0) / PICO_PER_USD
        if missed >= MIN_USD and missed >= MISSED_SHARE * (row.usd or 0):
            times = "once" if row.misses == 1 else f"{row.misses:,} times"
            reason = f"{format_usd(missed)} to send again what the cache had held."
            found.append(Notable(row, "cache", f"Cache missed {times}", reason, missed))
    return found


def _find_cuts(rows: Sequence[IndexRow]) -> list[Notable]:
    return [
        Notable(
            row,
            "cuts",
            f"Truncated {row.cuts:,} times",
            f"Compacted, cut or cleared {row.cuts:,} times in {row.requests:,} requests.",
            row.cuts,
        )
        for row in rows
        if row.cuts >= MIN_CUTS and (row.usd is None or row.usd >= MIN_USD)
    ]


def _find_full(rows: Sequence[IndexRow]) -> list[Notable]:
    return [
        Notable(
            row,
            "full",
            f"Window {row.peak / row.window:.0%} full",
            f"A prompt of {row.peak:,} tokens in a window of {row.window:,}.",
            row.peak / row.window,
        )
        for row in rows
        if row.window and row.peak >= FULL_SHARE * row.window
    ]


_KINDS: Sequence[Callable[[Sequence[IndexRow]], list[Notable]]] = (
    _find_expensive,
    _find_cache_misses,
    _find_cuts,
    _find_full,
)
