"""From counted to recorded tokens: `recorded input = hidden + scale x counted`.

Holds the running calibration that planning uses (earlier requests only). The session-wide fit for display stands in
`reconcile`; what is hidden is told apart in `hidden`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from turnscope.counting.hidden import CUT, Hidden, fall

PRIOR = 6_000  # tokens of growth that the counter's own factor is trusted for before the log's growth outweighs it
STEP = 3.0  # a request that grew by more than this times what was counted says something about hidden content, not the scale
UNKNOWN = 0.5  # stated error while nothing of the kind was learned: what is hidden may be as much as what is counted
LEAST = 0.01  # stated error after a hit: one right prediction promises no second
SMALLEST = 0.5  # scale: no counter counts more than twice what is billed; a bill beyond that belongs to something else
FORGET = 0.9  # of what is known of earlier misses, by request


class Calibration(Struct, frozen=True, gc=False):
    """What the requests so far say about the provider's units.

    `hidden` is anchored at the newest request with usage: everything in the prompt that the log does not hold.
    """

    hidden: Hidden = Hidden()
    scale: float = 1.0
    counted: int = 0  # of the newest request with usage, in the ledger's units
    recorded: int = 0
    grown: float = 0.0  # sums over earlier growth, in both units
    billed: float = 0.0
    seen: int = 0  # requests learned from
    model: str = ""
    begun: bool = False  # the log begins mid-conversation
    again: int = 0  # tokens that the tool put back after the last compaction
    missed: float = UNKNOWN  # share of the prompt by which predictions miss, lately
    missed_after: float = UNKNOWN  # the same right after a compaction
    compacted: bool = False  # the next request is the first after a compaction that the log records

    @staticmethod
    def start(begun: bool = False) -> Calibration:
        """Before any request: nothing hidden is known, the counter's own scale. `begun`: the log begins mid-conversation."""
        return Calibration(begun=begun)

    @property
    def prefix(self) -> int:
        """Tokens of the prompt beyond `scale x counted`; negative where more was cut, unrecorded, than is hidden."""
        return self.hidden.level

    @property
    def error(self) -> float:
        """Share of the prompt by which `predict` may miss, as it did lately; large while nothing was learned."""
        return max(LEAST, self.missed_after if self.compacted else self.missed)

    def predict(self, counted: int) -> int:
        """Prompt tokens to expect for an envelope of `counted` tokens: at least 1 of what holds something."""
        cut = self.hidden.cut * min(1.0, counted / max(1, self.counted))  # of a shorter conversation no more went than of this
        return max(min(1, counted), self.prefix + self.hidden.cut + max(0, round(self.scale * counted - cut)))

    def compaction(self) -> Calibration:
        """For the first request after a compaction that the log records: the tool puts back what it put back the last time.

        Where the log begins mid-conversation, half of what is hidden is taken for conversation, which the compaction took.
        """
        if self.begun:
            return replace(self, hidden=replace(self.hidden, earlier=self.hidden.earlier // 2), compacted=True)
        base, start = self.hidden.base, self.hidden.start
        return replace(self, hidden=Hidden(base, 0, self.again, 0, base, start), compacted=True)

    def elsewhere(self) -> Calibration:
        """For a policy of our own beside the record: without what the tool put back, and with what it cut unrecorded."""
        return replace(self, hidden=self.hidden.lasting)

    def learn(self, counted: int, recorded: int, model: str) -> Calibration:
        """The calibration after one more request with usage. Another model starts anew, but for what is hidden."""
        same = self.seen and model == self.model
        grown, billed = (self.grown, self.billed) if same else (0.0, 0.0)
        if same:
            dx, dy = counted - self.counted, recorded - self.recorded
            if dx > 0 and dx / STEP < dy < dx * STEP:
                grown, billed = grown + dx, billed + dy
        scale = (billed + PRIOR) / (grown + PRIOR)
        level = recorded - round(scale * counted)
        hidden = self._update_hidden(level, counted, recorded, bool(same))
        if hidden.level > level and not hidden.cut:  # more was counted than billed: the scale gives way
            scale = max(SMALLEST, (recorded - hidden.level) / max(1, counted))
        miss = abs(self.predict(counted) - recorded) / max(1, recorded)
        after = self.compacted and self.seen
        return Calibration(
            hidden, scale, counted, recorded, grown, billed, self.seen + 1 if same else 1, model,
            self.begun and not after,
            hidden.put_back if after else self.again,
            self.missed if after or not self.seen else miss if self.missed == UNKNOWN else max(miss, FORGET * self.missed),
            miss if after else self.missed_after,
        )  # fmt: skip

    def _update_hidden(self, level: int, counted: int, recorded: int, same: bool) -> Hidden:
        """What is hidden in a request at this level, and why it differs from the one before."""
        if not self.seen:
            return Hidden.first(level, self.begun)
        if self.compacted:
            return self.hidden.compacted(level, recorded)
        if not same:
            return self.hidden.switched(level, recorded)
        least, gone = fall(self.recorded), recorded < self.recorded and counted >= (1 - CUT) * self.counted
        step = 1 if level - self.hidden.level > least else -1 if gone and self.hidden.level - level > least else 0
        moved = self.hidden.moved(level, self.recorded, step)
        # no more can have been cut or hidden than there is: what was thought so never was, as after a false "too long"
        return Hidden.first(level, False) if moved.cut > recorded - level or moved.level >= recorded else moved
