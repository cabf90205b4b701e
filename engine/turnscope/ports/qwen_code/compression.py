"""Where Qwen Code's compaction cuts a conversation.

Pure. Ported from `packages/core/src/services/chatCompressionService.ts` of npm @qwen-code/qwen-code 0.15.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Kind = Literal["prompt", "answer", "call", "response"]
"""What a content is: the user's, a model's without calls, a model's with calls, or results of these."""

CONTEXT = 850  # characters of the JSON of the first message, about date and folder, and its answer, as recorded: in no log
ROUNDS = 2  # rounds of a call and its result that stay before the newest call (`TOOL_ROUND_RETAIN_COUNT`)


def find_split_point(characters: Sequence[int], kinds: Sequence[Kind], fraction: float, rounds: int = ROUNDS) -> int:
    """Return the number of the first content that stays (`findCompressSplitPoint`). The length = all is compressed.

    Args:
        characters: Characters of the JSON of each content.
        kinds: What each content is.
        fraction: The share of the characters that is compressed, between 0 and 1.
        rounds: Rounds that stay before the newest call.
    """
    target, done, last = sum(characters) * fraction, 0, 0
    for number, (size, kind) in enumerate(zip(characters, kinds, strict=True)):
        if kind == "prompt":
            if done >= target:
                return number
            last = number
        done += size
    newest = kinds[-1] if kinds else "answer"
    if newest == "call":
        return _keep_newest_rounds(kinds, rounds)
    return last if newest == "prompt" else len(kinds)


def _keep_newest_rounds(kinds: Sequence[Kind], rounds: int) -> int:
    """Where the newest rounds begin that stand without a break before the newest call."""
    found, at = 0, len(kinds) - 2
    while at >= 1 and found < rounds and kinds[at - 1] == "call" and kinds[at] == "response":
        found, at = found + 1, at - 2
    return len(kinds) - (2 * found + 1)
