"""opencode's limits: how many tokens a prompt may have, how much stays beside a summary, which outputs are old.

Pure arithmetic; the rules call it, and so do `history` and `session`. From the released program (npm opencode-ai 1.18.33),
sources `packages/opencode/src/session/{overflow,compaction}.ts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

OUTPUT_MOST = 32_000  # tokens of an answer, and what is assumed where the model names no limit
RESERVED_MOST = 20_000
KEEP_LEAST, KEEP_MOST, KEEP_SHARE = 2_000, 15_000, 0.25
PRUNE_PROTECT, PRUNE_MINIMUM = 40_000, 20_000
PROTECTED_TOOLS = ("skill",)
CLEARED = "[Old tool result content cleared]"


def estimate_tokens(characters: int) -> int:
    """Tokens of so many characters, rounded half up as JavaScript does."""
    return math.floor(characters / 4 + 0.5)


def compute_max_output(limit: int | None) -> int:
    """The most tokens of an answer."""
    return min(limit or OUTPUT_MOST, OUTPUT_MOST)


def compute_usable(context: int, output: int | None, given: int | None, reserved: int | None) -> int:
    """Tokens at which is compacted. `given`: the model's limit of input, if it has one; `reserved` is taken off that alone."""
    if given:
        return max(0, given - (min(RESERVED_MOST, compute_max_output(output)) if reserved is None else reserved))
    return max(0, context - compute_max_output(output))


def count_used(tokens: Mapping[str, Any]) -> int:
    """Tokens of an answer's request as they are compared: the total, else prompt, answer and cache, but no reasoning."""
    cache = tokens.get("cache") or {}
    parts = tokens.get("input", 0) + tokens.get("output", 0) + cache.get("read", 0) + cache.get("write", 0)
    return int(tokens.get("total") or parts)


def compute_keep(room: int, given: int | None) -> int:
    """Tokens that stay beside a summary."""
    return min(KEEP_MOST, max(KEEP_LEAST, math.floor(KEEP_SHARE * room))) if given is None else given


def count_fitting(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """How many of the newest stretches fit, their sizes oldest first, and what is left for a part of the next one."""
    count, left = 0, most
    for size in reversed(sizes):
        if size > left:
            break
        count, left = count + 1, left - size
    return count, left


def count_old(sizes: Sequence[int]) -> int:
    """How many outputs are cleared, from the last of them on; sizes newest first. 0 where too little would be."""
    total = gone = count = 0
    for size in sizes:
        total += size
        if total > PRUNE_PROTECT:
            gone, count = gone + size, count + 1
    return count if gone > PRUNE_MINIMUM else 0
