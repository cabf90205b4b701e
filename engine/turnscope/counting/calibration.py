"""From counted tokens to recorded tokens: `recorded input = hidden + scale x counted`.

The module holds the running calibration that planning uses; it sees earlier requests only. The fit over a whole session, for
display, is in `reconciliation`. `hidden` splits what is hidden into its parts.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from turnscope.counting.hidden import CUT_SHARE, HiddenTokens, compute_least_fall

PRIOR_TOKENS = 6_000  # weight of the counter's own factor, in tokens of growth
GROWTH_LIMIT = 3.0  # factor; growth beyond this multiple of the counted growth is hidden content, not scale
UNKNOWN_ERROR = 0.5  # stated error before anything was learned: as much may be hidden as was counted
LEAST_ERROR = 0.01  # least stated error: one right prediction does not promise another
LEAST_ERROR_AFTER = 0.12  # the same after a compaction: what is re-injected depends on the files of the moment
FILES_ERROR = 0.25  # stated error of the first such prediction, where the files that are re-injected can be estimated
USUAL_PREFIX = 27_000  # tokens of system prompt and tools where nothing shows them: between those of agents in real sessions
SMALLEST_SCALE = 0.5  # no counter counts more than twice what is billed; a larger difference has another cause
MISS_DECAY = 0.9  # factor by which the weight of earlier misses shrinks with each request


class PrefixPrior(Struct, frozen=True, gc=False):
    """What the prompt of the first request holds beyond its log, as far as it is known before anything was learned.

    Attributes:
        tokens: the provider's tokens.
        error: share of the prompt by which a prediction with it may miss.
        source: where it is known from, for people.
    """

    tokens: int
    error: float
    source: str


class PolicyEstimate(Struct, frozen=True, gc=False):
    """What the fit over the requests so far says of a policy other than the record (`reconciliation.Fit.get_policy_terms`).

    Attributes:
        hidden: the provider's tokens that the log does not hold and every policy sends.
        scale: the provider's tokens per counted one.
        error: share of the prompt by which a prediction with it may miss.
    """

    hidden: int
    scale: float
    error: float


class Calibration(Struct, frozen=True, gc=False):
    """What the requests so far say about the provider's token counts.

    `hidden` belongs to the newest request with usage: everything in its prompt that the log does not hold.
    """

    hidden: HiddenTokens = HiddenTokens()
    scale: float = 1.0
    counted: int = 0  # tokens of the newest request with usage, in the ledger's units
    recorded: int = 0
    grown: float = 0.0  # earlier growth, summed, in the ledger's tokens; `billed`: the same in the provider's
    billed: float = 0.0
    seen: int = 0  # how many requests it has learned from
    model: str = ""
    mid_conversation: bool = False  # the log begins mid-conversation
    reinjected_before: int = 0  # tokens that the tool re-injected after the last compaction
    base_after: int = -1  # the base of what is hidden, as the last compaction showed it; -1 = there was none
    missed: float = UNKNOWN_ERROR  # share of the prompt by which recent predictions missed
    missed_after: float = UNKNOWN_ERROR  # the same for requests directly after a compaction
    compacted: bool = False  # the next request is the first after a recorded compaction
    cached: int = 0  # tokens that the newest request left in the provider's cache
    static: int = 0  # tokens of system prompt and tools, as a cache that lost all else was seen to hold them; 0 = none was
    prior: PrefixPrior | None = None  # what it started with; None once it has learned
    estimate: PolicyEstimate | None = None  # what other policies than the one that was billed are planned with

    @staticmethod
    def start(mid_conversation: bool = False, prior: PrefixPrior | None = None) -> Calibration:
        """Make the calibration before any request: the counter's own scale holds, and the prior is hidden, if there is one.

        Args:
            mid_conversation: The log begins mid-conversation.
            prior: What is known of the hidden part; None = nothing.
        """
        hidden = HiddenTokens.from_level(prior.tokens, mid_conversation) if prior else HiddenTokens()
        return Calibration(hidden, mid_conversation=mid_conversation, prior=prior)

    @property
    def prefix(self) -> int:
        """Tokens of the prompt beyond `scale x counted`. Negative where the tool cut more, unrecorded, than is hidden."""
        return self.hidden.level

    @property
    def error(self) -> float:
        """Share of the prompt by which `predict` may miss, from recent misses. Large while nothing is known."""
        if self.prior:
            return self.prior.error
        return max(LEAST_ERROR_AFTER, self.missed_after) if self.compacted else max(LEAST_ERROR, self.missed)

    def predict(self, counted: int) -> int:
        """Predict the prompt tokens of an envelope of `counted` tokens. At least 1 where the envelope holds something."""
        cut = self.hidden.cut * min(1.0, counted / max(1, self.counted))  # a shorter conversation lost no larger share
        return max(min(1, counted), self.prefix + self.hidden.cut + max(0, round(self.scale * counted - cut)))

    def expect_compaction(self, files: int = 0, usual: int = 0) -> Calibration:
        """Prepare for the first request after a recorded compaction: the tool re-injects as much as it did the last time.

        Where the log begins mid-conversation, and no cache showed how long system prompt and tools are, they are taken to have
        the usual size, or half of what is hidden where that is less. The rest was conversation, which the compaction removed.

        Args:
            files: Counted tokens of the files that the tool is taken to re-inject and the log does not hold; the mean of these
                and of what came back the last time is expected.
            usual: Tokens that system prompt and tools have in other sessions; 0 = unknown.
        """
        if self.mid_conversation and not self.static:
            left = min(self.hidden.level // 2, usual or USUAL_PREFIX)
            back = round(self.scale * files)
            return replace(
                self, hidden=replace(self.hidden, prefix=0, earlier=max(0, left), reinjected=back, cut=0), compacted=True
            )
        base, start = (self.static, self.static) if self.mid_conversation else (self.hidden.base, self.hidden.start)
        base = min(base, self.static) if self.static else base if self.base_after < 0 else min(base, self.base_after)
        known = [tokens for tokens in (round(self.scale * files), self.reinjected_before) if tokens]
        back = sum(known) // max(1, len(known))
        after = FILES_ERROR if files and self.missed_after == UNKNOWN_ERROR else self.missed_after
        return replace(self, hidden=HiddenTokens(base, 0, back, 0, base, start), compacted=True, missed_after=after)

    def adapt_to_policy(self) -> Calibration:
        """Adapt to a policy other than the recorded one: drop what the tool re-injected, and add what it cut unrecorded.

        Such a policy sends another share of what was counted, so it matters what of a bill is hidden and what is scale. The
        newest bill cannot show that; the fit over all of them does.
        """
        if self.estimate is None:
            return replace(self, hidden=self.hidden.lasting)
        known = HiddenTokens.from_level(self.estimate.hidden, mid_conversation=False)
        error, scale = self.estimate.error, self.estimate.scale
        return replace(self, hidden=known, scale=scale, missed=error, compacted=False, estimate=None)

    def learn(self, counted: int, recorded: int, model: str, read: int = 0, written: int = 0) -> Calibration:
        """Learn from one more request with usage. Another model starts anew, except for what is hidden.

        Args:
            counted: Tokens of the envelope, in the ledger's units.
            recorded: Prompt tokens that the provider billed.
            model: Name of the model.
            read: Tokens of it that were read from the provider's cache.
            written: Tokens of it that were written there.

        Returns:
            The next calibration.
        """
        same = self.seen and model == self.model
        grown, billed = (self.grown, self.billed) if same else (0.0, 0.0)
        if same:
            dx, dy = counted - self.counted, recorded - self.recorded
            if dx > 0 and dx / GROWTH_LIMIT < dy < dx * GROWTH_LIMIT:
                grown, billed = grown + dx, billed + dy
        scale = (billed + PRIOR_TOKENS) / (grown + PRIOR_TOKENS)
        level = recorded - round(scale * counted)
        hidden = self._update_hidden(level, counted, recorded, bool(same))
        if hidden.level > level and not hidden.cut:  # more was counted than billed: lower the scale
            scale = max(SMALLEST_SCALE, (recorded - hidden.level) / max(1, counted))
        miss = abs(self.predict(counted) - recorded) / max(1, recorded)
        after = self.compacted and self.seen
        lost = same and written and 0 < read < self.cached // 2  # a cache without writes loses pieces of any size
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
            base_after=hidden.base if after else self.base_after,
            missed=self.missed if after or not self.seen else lately,
            missed_after=self._update_missed_after(miss) if after else self.missed_after,
            cached=read + written,
            static=min(self.static or read, read) if lost else self.static if same else 0,
        )

    def _update_missed_after(self, miss: float) -> float:
        """The miss of a request directly after a compaction; earlier ones count less and less, a stated guess not at all."""
        learned = 0.0 if self.missed_after in (UNKNOWN_ERROR, FILES_ERROR) else self.missed_after
        return max(miss, MISS_DECAY * learned)

    def _update_hidden(self, level: int, counted: int, recorded: int, same: bool) -> HiddenTokens:
        """Find what is hidden in a request at this level, and why it differs from the request before."""
        if not self.seen:
            return HiddenTokens.from_level(level, self.mid_conversation)
        if self.compacted:
            split, base = self.hidden.apply_compaction(level, recorded), self.hidden.base
            if split.base < base and recorded - base >= SMALLEST_SCALE * counted:  # an error of counting explains it
                return HiddenTokens(base, 0, 0, 0, base, self.hidden.start)
            return split
        if not same:
            return self.hidden.apply_model_switch(level, recorded)
        least, gone = compute_least_fall(self.recorded), recorded < self.recorded and counted >= (1 - CUT_SHARE) * self.counted
        step = 1 if level - self.hidden.level > least else -1 if gone and self.hidden.level - level > least else 0
        moved = self.hidden.apply_level(level, self.recorded, step)
        # no more can be cut or hidden than there is: the earlier estimate was wrong, as after a false "too long"
        return HiddenTokens.from_level(level, False) if moved.cut > recorded - level or moved.level >= recorded else moved
