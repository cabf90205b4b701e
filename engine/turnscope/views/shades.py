"""The brightness of a heatmap's cells, and what a legend says of it. No colours and no Plotly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from turnscope.counting.reconciliation import Floats

Scale = Literal["rank", "log", "linear"]

STEPS = 127  # shades of one ramp; two ramps (billed in full, read from the cache) fill one byte
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # the brightness of the shades for which a legend has values
MIN_RATIO = 2.0  # of the ends of a logarithmic scale; smaller differences are noise, and stay one shade
GAMMA: dict[Scale, float] = {
    "rank": 1.0,
    "log": 1.7,
    "linear": 1.7,
}  # keeps ordinary cells dark, so that expensive ones stand out


@dataclass(frozen=True, slots=True)
class Shades:
    """What the brightness of a row's cells means. `values`: the values at the shades `TICKS`, in the measure's unit."""

    name: str
    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ramp:
    """How values become brightness.

    Attributes:
        seen: the values above zero, in order.
        low, high: the values between which brightness depends on size.
    """

    scale: Scale
    seen: Floats
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Floats, scale: Scale) -> Ramp:
        """Make the ramp of values: from the second percentile of those above zero to the largest.

        Args:
            values: the values of all cells.
            scale: brightness by rank or by value.
        """
        seen = np.sort(values[values > 0], axis=None)
        return cls(scale, seen, *((float(np.percentile(seen, 2)), float(seen[-1])) if len(seen) else (1.0, 1.0)))

    def to_bytes(self, values: Floats, cold: Any) -> Any:
        """The shade of each value: 0 = nothing, up to `STEPS` for what was billed in full, above that for what was read from
        the cache.

        Args:
            values: the values.
            cold: whether each was mostly read from the cache.
        """
        shade = np.where(values > 0, np.maximum(1, np.rint(self._compute_level(values) * STEPS)), 0)
        return (shade + np.where(cold & (values > 0), STEPS + 1, 0)).astype(np.uint8)

    def list_ticks(self) -> tuple[float, ...]:
        """The values that are as bright as `TICKS`."""
        if self.scale == "rank":
            return tuple(float(np.quantile(self.seen, level)) if len(self.seen) else 0.0 for level in TICKS)
        sizes = [level ** (1 / GAMMA[self.scale]) for level in TICKS]
        return tuple(
            self.low * float(np.exp(size * self._spread)) if self.scale == "log" else self.high * size for size in sizes
        )

    def _compute_level(self, values: Floats) -> Floats:
        """Brightness from 0 to 1."""
        if self.scale == "rank":
            sides = (np.searchsorted(self.seen, values, side=side) for side in ("left", "right"))
            return np.asarray(sum(sides) / max(1, 2 * len(self.seen)))  # the middle of equal values
        size = np.log(np.maximum(values, self.low) / self.low) / self._spread if self.scale == "log" else values / self.high
        return np.asarray(np.clip(size, 0, 1) ** GAMMA[self.scale])

    @property
    def _spread(self) -> float:
        return float(np.log(max(self.high / self.low, MIN_RATIO)))
