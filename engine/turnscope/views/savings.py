"""The one change of policy that would have saved most of a session's cost, net of its cache misses and lost references.

Compares rows of a comparison; makes no replay. The cost of either side is its row's; what answers needed and did not have
counts against it, as if it had been sent once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.comparison import Row

CANDIDATES = (
    "keep-everything",
    "clear-tool-results",
    "short-tool-results",
    "strip-thinking",
    "condense-oldest",
    "extracts",
    "balanced",
    "reactive-75",
    "last-20-messages",
)
MIN_SHARE = Decimal("0.05")  # of the session's cost; less is within the error of the simulation
CENT = Decimal("0.01")  # less is not reported
MIN_USD = Decimal("0.05")  # USD; less is not worth a change


@dataclass(frozen=True, slots=True)
class Saving:
    """What a change of policy would have saved, in USD of the bill.

    Attributes:
        usd_before, usd_after: cost of the record and of the policy.
        refetch_usd: what the policy would have to fetch again beyond what the record has to; less than 0 where that is less.
        lost: its lost references.
        cache_share: share of its prompts read from the cache, 0 to 1.
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
        """USD that the change would have saved."""
        return self.usd_before - self.usd_after - self.refetch_usd

    @property
    def share(self) -> float:
        """The saving as a share of the cost before, 0 to 1."""
        return float(self.usd / self.usd_before)

    @property
    def sentence(self) -> str:
        """All of it in one or two sentences."""
        some = f"{self.lost:,} lost reference{'' if self.lost == 1 else 's'}" if self.lost else "no lost reference"
        more = abs(self.refetch_usd) >= CENT
        net = (
            f": {self.share:.0%} less with {self.refetch_usd:+,.2f} USD for re-fetching" if more else f", {self.share:.0%} less"
        )
        return (
            f"“{self.title}” would have saved most: {self.usd_after:,.2f} USD, ×{self.usd_after / self.usd_before:.2f} of what "
            f"it cost ({self.usd_before:,.2f}){net}. {some[:1].upper()}{some[1:]}; {self.cache_share:.0%} of its prompts would "
            f"have come from the cache."
        )


def find_best_saving(rows: Sequence[Row]) -> Saving | None:
    """Find the change that would have saved most; None = none is worth it.

    A policy with a request that could not be sent does not count.

    Args:
        rows: rows of a comparison, one of which is the record.
    """
    record = next((row for row in rows if row.policy == AS_RECORDED), None)
    if record is None or record.usd is None or record.cost.unpriced_requests:
        return None
    if not record.usd:
        return None
    sent = (row for row in rows if row is not record and row.sendable)
    found = [
        Saving(
            policy=row.policy,
            title=row.title,
            usd_before=record.usd,
            usd_after=row.usd,
            refetch_usd=row.refetch_usd - record.refetch_usd,
            lost=len(row.losses.hits),
            cache_share=row.cost.cache_share,
        )
        for row in sent
        if row.usd is not None and not row.cost.unpriced_requests
    ]
    top = max(found, key=lambda each: each.usd, default=None)
    return top if top and top.usd >= max(MIN_USD, MIN_SHARE * record.usd) else None
