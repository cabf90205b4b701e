"""Claude Code's thresholds and estimates: pure numbers, from public reports and from what logs show. No source is public."""

from __future__ import annotations

import math
from collections.abc import Sequence

RESERVE = 20_000  # most tokens of the answer that are taken off the window (issues 12004, 31806)
BUFFER = 13_000  # below the effective window
BLOCKING = 3_000  # below the effective window: nothing is sent any more where compaction is off
WARNING = 20_000  # below the trigger
FILES, FILE, ALL_FILES = 5, 5_000, 50_000  # files read again after a compaction, and their tokens
KEEP, TARGET, LEAST = 3, 40_000, 20_000  # microcompaction: newest results, tokens that may stay, tokens that must go
TOOLS = ("Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write")
CLEARED = "[Old tool result content cleared]"


def compute_effective_window(window: int, output: int, reserve: int = RESERVE) -> int:
    """The window less what the answer may take. `output`: the model's own limit."""
    return window - min(output, reserve)


def compute_trigger(effective: int, buffer: int = BUFFER, percent: int = 0) -> int:
    """Tokens from which on it compacts. `percent` (CLAUDE_AUTOCOMPACT_PCT_OVERRIDE, 1 to 100; 0 = unset) can only lower it.

    Where a window is so small that the buffer would leave less than half of it, half of it is taken, which is ours.
    """
    usual = max(effective - buffer, effective // 2)
    return min(effective * percent // 100, usual) if 0 < percent <= 100 else usual


def estimate(units: int) -> int:
    """Tokens of a text of so many characters, as they are counted into a tool's budget."""
    return math.ceil(units / 4)


def pad(tokens: int) -> int:
    """An estimate of what was not billed yet: a third is added."""
    return math.ceil(tokens * 4 / 3)


def count_oldest_over(sizes: Sequence[int], keep: int = KEEP, target: int = TARGET, least: int = LEAST) -> int:
    """How many of the oldest results are cleared, so that `target` tokens are left; 0 where less than `least` would go."""
    total, gone = sum(sizes), 0
    for number, size in enumerate(sizes[: max(0, len(sizes) - keep)], 1):
        gone += size
        if total - gone <= target:
            return number if gone >= least else 0
    return max(0, len(sizes) - keep) if gone >= least else 0
