"""The one change of policy that would have saved most of a session's dollars, net of what it does to the cache and loses.

Judges rows of a comparison; makes no replay. Both sides are simulated alike: what a policy would have cost with the prompt
cache that it would have met, its summaries, and having again what its answers needed and had not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.comparison import Row

CANDIDATES = (
    "keep-everything", "clear-tool-results", "short-tool-results", "strip-thinking", "condense-oldest", "balanced",
    "reactive-75", "last-20-messages",
)  # fmt: skip
MIN_SHARE = Decimal("0.05")  # of the session's cost; less is within what a simulation is off by
MIN_USD = Decimal("0.05")  # USD; less is not worth a change


@dataclass(frozen=True, slots=True)
class Saving:
    """What a change would have saved. USD; `usd_before`, `usd_after`: simulated, with what was lost; `refetch_usd`: that part
    of `usd_after`.

    `lost`: references that its answers would not have had. `share`: of what was, 0 to 1.
    """

    policy: str
    title: str
    usd_before: Decimal
    usd_after: Decimal
    refetch_usd: Decimal
    lost: int
    cache_share: float

    @property
    def usd(self) -> Decimal:
        return self.usd_before - self.usd_after

    @property
    def share(self) -> float:
        return float(self.usd / self.usd_before)

    @property
    def sentence(self) -> str:
        """All of it in one sentence or two."""
        some = f"{self.lost:,} lost reference{'' if self.lost == 1 else 's'}"
        again = f", {self.refetch_usd:,.2f} for fetching {some} again included" if self.lost else ", with no lost reference"
        return (
            f"“{self.title}” would have saved most: {self.usd_after:,.2f} instead of {self.usd_before:,.2f} USD, "
            f"{self.share:.0%} less{again}; {self.cache_share:.0%} of its prompts would have come from the cache."
        )


def find_best_saving(rows: Sequence[Row]) -> Saving | None:
    """The change among the rows, of which one is the record, that would have saved most; None where none is worth it.

    One under which a request could not have been sent is no change that helps.
    """
    record = next((row for row in rows if row.policy == AS_RECORDED), None)
    if record is None or record.usd is None or record.cost.unpriced_requests:
        return None
    was = record.usd + record.refetch_usd
    sent = (row for row in rows if row is not record and row.sendable)
    found = [
        Saving(
            row.policy, row.title, was, row.usd + row.refetch_usd, row.refetch_usd, len(row.losses.hits), row.cost.cache_share
        )
        for row in sent
        if row.usd is not None and not row.cost.unpriced_requests
    ]
    top = max(found, key=lambda each: each.usd, default=None)
    return top if top and top.usd >= max(MIN_USD, MIN_SHARE * was) else None
