"""What a prompt holds that its log does not, and what it lacks of what the log holds. Display and planning share this code.

The level of a request is `recorded - scale x counted`. This module explains why it moves from one request to the next. Levels
are computed in `reconciliation` (whole sessions) and `calibration` (requests so far). Tokens are the provider's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

JUMP_SHARE = 0.01  # share of the prompt by which two neighbouring levels must differ to count as a jump
JUMP_TOKENS = 300  # smaller jumps are noise, whatever the prompt's size
CUT_SHARE = 0.05  # share of the prompt that must leave at once, with all counted blocks there, to be a cut
CUT_TOKENS = 2_000  # a smaller fall comes from counting


def compute_least_jump(prompt: float) -> float:
    """Compute the least change of level that means something, for a prompt of so many tokens."""
    return max(JUMP_TOKENS, JUMP_SHARE * prompt)


def compute_least_fall(prompt: float) -> float:
    """Compute the least fall of level that is a cut, for a prompt of so many tokens."""
    return max(CUT_TOKENS, CUT_SHARE * prompt)


def compute_least_jumps(prompts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Compute the least change of level that means something, for each of several prompts."""
    return np.maximum(JUMP_TOKENS, JUMP_SHARE * prompts)


def compute_least_falls(prompts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Compute the least fall of level that is a cut, for each of several prompts."""
    return np.maximum(CUT_TOKENS, CUT_SHARE * prompts)


class HiddenTokens(Struct, frozen=True, gc=False):
    """The level of a request in its parts: `prefix + earlier + reinjected - cut`, in tokens.

    `prefix`: system prompt and tools. `earlier`: the conversation before the log begins, with system prompt and tools where
    nothing separates them. `reinjected`: what the tool added after the last compaction. `cut`: what left the prompt though
    the log has no record of it. `base`: the prefix without what crept in since the conversation, or its part after a
    compaction, began; a compaction removes that too. `start`: the prefix of the first request.
    """

    prefix: int = 0
    earlier: int = 0
    reinjected: int = 0
    cut: int = 0
    base: int = 0
    start: int = 0

    @property
    def level(self) -> int:
        """Tokens of the prompt beyond what was counted."""
        return self.prefix + self.earlier + self.reinjected - self.cut

    @property
    def lasting(self) -> HiddenTokens:
        """What the prompt of every policy would hold: without what the tool re-injected and without what it cut."""
        return replace(self, reinjected=0, cut=0)

    @staticmethod
    def from_level(level: int, mid_conversation: bool, known: int = 0) -> HiddenTokens:
        """Split the first level.

        Args:
            level: Tokens.
            mid_conversation: The log begins mid-conversation.
            known: Tokens of the prefix, where a later request shows it; 0 = unknown.
        """
        level = max(0, level)
        prefix = min(known, level) if mid_conversation else level
        return HiddenTokens(prefix, level - prefix, 0, 0, prefix, prefix)

    def apply_compaction(self, level: int, prompt: float) -> HiddenTokens:
        """Split the level after a recorded compaction: nothing earlier remains, nothing is cut, and what exceeds the base is
        new.

        Args:
            level: Tokens.
            prompt: Tokens of the prompt.
        """
        back = 0 if self.earlier else level - self.base
        if back <= compute_least_jump(prompt):
            prefix = max(0, level)
            return HiddenTokens(prefix, 0, 0, 0, prefix, prefix if self.earlier else self.start)
        return HiddenTokens(self.base, 0, back, 0, self.base, self.start)

    def apply_model_switch(self, level: int, prompt: float) -> HiddenTokens:
        """Split the level after a switch to another model, which counts differently and has a prefix of its own.

        Args:
            level: Tokens.
            prompt: Tokens of the prompt.
        """
        if self.cut:
            return self.apply_level(level, prompt, 0)
        more = level - self.level
        if self.prefix + more < self.prefix / 2 and -more > compute_least_fall(prompt):  # another conversation
            return self.apply_level(level, prompt, -1)
        return replace(self, prefix=max(0, self.prefix + more))

    def apply_level(self, level: int, prompt: float, step: int) -> HiddenTokens:
        """Split a level that follows without a compaction.

        Args:
            level: Tokens.
            prompt: Tokens of the prompt.
            step: -1 where the prompt fell at once though all counted blocks are still there, 1 where what is hidden grew at
                once, 0 where it changed slowly.
        """
        base, least, own = min(self.prefix, self.base), compute_least_fall(prompt), level - self.earlier
        missing = base + self.earlier + self.reinjected - level
        sunk = missing > max(least, base / 2)  # slowly: no prefix loses half of itself
        if missing > least and (step < 0 or self.cut or sunk):
            if any(abs(own - known) <= least for known in (base, self.start)):  # what came unrecorded has left again
                return replace(self, prefix=max(0, own), reinjected=0, cut=0, base=max(0, own))
            return replace(self, prefix=base, cut=missing)
        if self.earlier:
            return replace(self, earlier=max(0, level - self.prefix), cut=0)
        back = min(self.reinjected, max(0, level - base))
        grown = max(0, level - self.level) if step > 0 and not self.cut else 0
        # the known prefix does not vanish because more is counted than was billed: the scale is lowered instead
        prefix = level - back if level > back else base
        return replace(self, prefix=prefix, reinjected=back, cut=0, base=self.base + grown)
