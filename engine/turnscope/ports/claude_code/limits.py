"""Claude Code's thresholds and estimates, from public reports and from logs. Its source is not public."""

from __future__ import annotations

import math
from collections.abc import Sequence

RESERVE = 20_000  # tokens of the window that are kept free for the answer, at most (issues 12004, 31806)
BUFFER = 13_000  # tokens between the trigger and the effective window
BLOCKING = 3_000  # tokens below the effective window: from there on nothing is sent if compaction is off
WARNING = 20_000  # tokens below the trigger
FILES, FILE, ALL_FILES = 5, 5_000, 50_000  # re-injected files after a compaction, tokens of one, tokens of all
KEEP, TARGET, LEAST = 3, 40_000, 20_000  # microcompaction: results that stay, tokens that may stay, tokens it must save
TOOLS = ("Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write")
CLEARED = "[Old tool result content cleared]"


def compute_effective_window(window: int, output: int, reserve: int = RESERVE) -> int:
    """Return the window without the reserve for the answer.

    Args:
        window: Tokens of the window.
        output: The model's output limit in tokens.
        reserve: The largest reserve in tokens.
    """
    return window - min(output, reserve)


def compute_trigger(effective: int, buffer: int = BUFFER, percent: int = 0) -> int:
    """Return the tokens from which on Claude Code compacts.

    In a small window the buffer may be more than half of it. Then half of the window is the trigger; that part is ours.

    Args:
        effective: The effective window in tokens.
        buffer: Tokens between the trigger and the effective window.
        percent: CLAUDE_AUTOCOMPACT_PCT_OVERRIDE, from 1 to 100; 0 = not set. It can only lower the trigger.
    """
    usual = max(effective - buffer, effective // 2)
    return min(effective * percent // 100, usual) if 0 < percent <= 100 else usual


def estimate(units: int) -> int:
    """Estimate the tokens of a text from its characters, as a tool's budget counts them."""
    return math.ceil(units / 4)


def pad(tokens: int) -> int:
    """Estimate tokens that were not billed yet: a third is added."""
    return math.ceil(tokens * 4 / 3)


def count_oldest_over(sizes: Sequence[int], keep: int = KEEP, target: int = TARGET, least: int = LEAST) -> int:
    """Return how many of the oldest results are cleared.

    Args:
        sizes: Tokens of the results, oldest first.
        keep: How many of the newest stay.
        target: Tokens of results that may stay.
        least: Tokens that clearing must save. If it saves less, nothing is cleared.
    """
    total, gone = sum(sizes), 0
    for number, size in enumerate(sizes[: max(0, len(sizes) - keep)], 1):
        gone += size
        if total - gone <= target:
            return number if gone >= least else 0
    return max(0, len(sizes) - keep) if gone >= least else 0
