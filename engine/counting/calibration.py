"""From counted to recorded tokens: `recorded input = prefix + scale x counted`.

Holds the running calibration that planning uses (earlier requests only). The session-wide fit for display stands in
`reconcile`.
"""

from __future__ import annotations

from msgspec import Struct

PRIOR = 6_000  # tokens of growth that the counter's own factor is trusted for before the log's growth outweighs it
STEP = 3.0  # a request that grew by more than this times what was counted says something about hidden content, not the scale


class Calibration(Struct, frozen=True, gc=False):
    """What the requests so far say about the provider's units.

    `prefix` (tokens) is anchored at the newest request with usage: everything in the prompt that the log does not hold.
    """

    prefix: int = 0
    scale: float = 1.0
    counted: int = 0  # of the newest request with usage, in the ledger's units
    recorded: int = 0
    grown: float = 0.0  # sums over earlier growth, in both units
    billed: float = 0.0
    seen: int = 0  # requests learned from
    model: str = ""

    @staticmethod
    def start() -> Calibration:
        """Before any request: no prefix known, the counter's own scale."""
        return Calibration()

    def predict(self, counted: int) -> int:
        """Prompt tokens to expect for an envelope of `counted` tokens."""
        return max(0, self.prefix + round(self.scale * counted))

    def learn(self, counted: int, recorded: int, model: str) -> Calibration:
        """The calibration after one more request with usage. Another model starts anew, but for the prefix."""
        same = self.seen and model == self.model
        grown, billed = (self.grown, self.billed) if same else (0.0, 0.0)
        if same:
            dx, dy = counted - self.counted, recorded - self.recorded
            if dx > 0 and dx / STEP < dy < dx * STEP:
                grown, billed = grown + dx, billed + dy
        scale = (billed + PRIOR) / (grown + PRIOR)
        return Calibration(
            recorded - round(scale * counted), scale, counted, recorded, grown, billed, self.seen + 1 if same else 1, model
        )
