"""From counted to recorded tokens: `recorded input = hidden + scale x counted`.

Holds the running calibration that planning uses (earlier requests only). The session-wide fit for display stands in
`reconcile`; what is hidden is told apart in `hidden`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from turnscope.counting.hidden import CUT_SHARE, HiddenTokens, compute_least_fall

PRIOR_TOKENS = 6_000  # tokens of growth that the counter's own factor is trusted for before the log's growth outweighs it
GROWTH_LIMIT = 3.0  # times; a request that grew by more of what was counted tells of hidden content, not of the scale
UNKNOWN_ERROR = 0.5  # stated error while nothing of the kind was learned: what is hidden may be as much as what is counted
LEAST_ERROR = 0.01  # stated error after a hit: one right prediction promises no second
SMALLEST_SCALE = 0.5  # scale: no counter counts more than twice what is billed; a bill beyond that belongs to something else
MISS_DECAY = 0.9  # of what is known of earlier misses, by request


class Calibration(Struct, frozen=True, gc=False):
    """What the requests so far say about the provider's units.

    `hidden` is anchored at the newest request with usage: everything in the prompt that the log does not hold.
    """

    hidden: HiddenTokens = HiddenTokens()
    scale: float = 1.0
    counted: int = 0  # of the newest request with usage, in the ledger's units
    recorded: int = 0
    grown: float = 0.0  # sums over earlier growth, in both units
    billed: float = 0.0
    seen: int = 0  # requests learned from
    model: str = ""
    mid_conversation: bool = False  # the log begins mid-conversation
    reinjected_before: int = 0  # tokens that the tool put back after the last compaction
    missed: float = UNKNOWN_ERROR  # share of the prompt by which predictions miss, lately
    missed_after: float = UNKNOWN_ERROR  # the same right after a compaction
    compacted: bool = False  # the next request is the first after a compaction that the log records

    @staticmethod
    def start(mid_conversation: bool = False) -> Calibration:
        """Before any request: nothing hidden is known, the counter's own scale. `begun`: the log begins mid-conversation."""
        return Calibration(mid_conversation=mid_conversation)

    @property
    def prefix(self) -> int:
        """Tokens of the prompt beyond `scale x counted`; negative where more was cut, unrecorded, than is hidden."""
        return self.hidden.level

    @property
    def error(self) -> float:
        """Share of the prompt by which `predict` may miss, as it did lately; large while nothing was learned."""
        return max(LEAST_ERROR, self.missed_after if self.compacted else self.missed)

    def predict(self, counted: int) -> int:
        """Prompt tokens to expect for an envelope of `counted` tokens: at least 1 of what holds something."""
        cut = self.hidden.cut * min(1.0, counted / max(1, self.counted))  # of a shorter conversation no more went than of this
        return max(min(1, counted), self.prefix + self.hidden.cut + max(0, round(self.scale * counted - cut)))

    def expect_compaction(self) -> Calibration:
        """For the first request after a compaction that the log records: the tool puts back what it put back the last time.

        Where the log begins mid-conversation, half of what is hidden is taken for conversation, which the compaction took.
        """
        if self.mid_conversation:
            return replace(self, hidden=replace(self.hidden, earlier=self.hidden.earlier // 2), compacted=True)
        base, start = self.hidden.base, self.hidden.start
        return replace(self, hidden=HiddenTokens(base, 0, self.reinjected_before, 0, base, start), compacted=True)

    def adapt_to_policy(self) -> Calibration:
        """For a policy of our own beside the record: without what the tool put back, and with what it cut unrecorded."""
        return replace(self, hidden=self.hidden.lasting)

    def learn(self, counted: int, recorded: int, model: str) -> Calibration:
        """The calibration after one more request with usage. Another model starts anew, but for what is hidden."""
        same = self.seen and model == self.model
        grown, billed = (self.grown, self.billed) if same else (0.0, 0.0)
        if same:
            dx, dy = counted - self.counted, recorded - self.recorded
            if dx > 0 and dx / GROWTH_LIMIT < dy < dx * GROWTH_LIMIT:
                grown, billed = grown + dx, billed + dy
        scale = (billed + PRIOR_TOKENS) / (grown + PRIOR_TOKENS)
        level = recorded - round(scale * counted)
        hidden = self._update_hidden(level, counted, recorded, bool(same))
        if hidden.level > level and not hidden.cut:  # more was counted than billed: the scale gives way
            scale = max(SMALLEST_SCALE, (recorded - hidden.level) / max(1, counted))
        miss = abs(self.predict(counted) - recorded) / max(1, recorded)
        after = self.compacted and self.seen
        lately = miss if self.missed == UNKNOWN_ERROR else max(miss, MISS_DECAY * self.missed)
        return Calibration(
            hidden=hidden,
            scale=scale,
            counted=counted,
            recorded=recorded,
            grown=grown,
            billed=billed,
            seen=self.seen + 1 if same else 1,
            model=model,
            mid_conversation=self.mid_conversation and not after,
            reinjected_before=hidden.reinjected if after else self.reinjected_before,
            missed=self.missed if after or not self.seen else lately,
            missed_after=miss if after else self.missed_after,
        )

    def _update_hidden(self, level: int, counted: int, recorded: int, same: bool) -> HiddenTokens:
        """What is hidden in a request at this level, and why it differs from the one before."""
        if not self.seen:
            return HiddenTokens.from_level(level, self.mid_conversation)
        if self.compacted:
            return self.hidden.apply_compaction(level, recorded)
        if not same:
            return self.hidden.apply_model_switch(level, recorded)
        least, gone = compute_least_fall(self.recorded), recorded < self.recorded and counted >= (1 - CUT_SHARE) * self.counted
        step = 1 if level - self.hidden.level > least else -1 if gone and self.hidden.level - level > least else 0
        moved = self.hidden.apply_level(level, self.recorded, step)
        # no more can have been cut or hidden than there is: what was thought so never was, as after a false "too long"
        return HiddenTokens.from_level(level, False) if moved.cut > recorded - level or moved.level >= recorded else moved
