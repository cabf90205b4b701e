"""opencode's limits: the tokens of a prompt, the tokens that stay after a summary, and which outputs are old.

Pure arithmetic, used by the rules, `history` and `session`. From the released program (npm opencode-ai 1.18.33), sources
`packages/opencode/src/session/{overflow,compaction}.ts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

OUTPUT_MOST = 32_000  # most tokens of an answer; also assumed if the model names no limit
RESERVED_MOST = 20_000
KEEP_LEAST, KEEP_MOST, KEEP_SHARE = 2_000, 15_000, 0.25
PRUNE_PROTECT, PRUNE_MINIMUM = 40_000, 20_000
PROTECTED_TOOLS = ("skill",)
CLEARED = "[Old tool result content cleared]"


def estimate_tokens(characters: int) -> int:
    """Estimate tokens from characters; halves are rounded up, as in JavaScript."""
    return math.floor(characters / 4 + 0.5)


def compute_max_output(limit: int | None) -> int:
    """Return the most tokens of an answer."""
    return min(limit or OUTPUT_MOST, OUTPUT_MOST)


def compute_usable(context: int, output: int | None, input_limit: int | None, reserved: int | None) -> int:
    """Return the tokens at which opencode compacts.

    Args:
        context: The window in tokens.
        output: The model's output limit in tokens.
        input_limit: The model's input limit in tokens, if it has one.
        reserved: Tokens that are subtracted from the input limit, and from it alone.
    """
    if input_limit:
        return max(0, input_limit - (min(RESERVED_MOST, compute_max_output(output)) if reserved is None else reserved))
    return max(0, context - compute_max_output(output))


def count_used(tokens: Mapping[str, Any]) -> int:
    """Return the tokens of a request that are compared: the total, or else prompt, answer and cache without reasoning."""
    cache = tokens.get("cache") or {}
    parts = tokens.get("input", 0) + tokens.get("output", 0) + cache.get("read", 0) + cache.get("write", 0)
    return int(tokens.get("total") or parts)


def compute_keep(room: int, keep: int | None) -> int:
    """Return the tokens that stay after a summary.

    Args:
        room: Tokens at which opencode compacts (see `compute_usable`).
        keep: The setting in tokens; None = a share of `room`, within limits.
    """
    return min(KEEP_MOST, max(KEEP_LEAST, math.floor(KEEP_SHARE * room))) if keep is None else keep


def count_fitting(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """Return how many of the newest stretches fit, and the tokens that are left for a part of the next one.

    Args:
        sizes: Tokens of the stretches, oldest first.
        most: Tokens that they may have.
    """
    count, left = 0, most
    for size in reversed(sizes):
        if size > left:
            break
        count, left = count + 1, left - size
    return count, left


def count_old(sizes: Sequence[int]) -> int:
    """Return how many outputs are cleared, counted from the end of `sizes` (newest first); 0 if that saves too little."""
    total = gone = count = 0
    for size in sizes:
        total += size
        if total > PRUNE_PROTECT:
            gone, count = gone + size, count + 1
    return count if gone > PRUNE_MINIMUM else 0
