"""Continue's IDE extensions: how many tokens a message counts, what of the history fits, and what its end is.

Pure functions, written from what is documented of core/llm/countTokens.ts and getAdjustedTokenCount.ts (continuedev/continue
d0a3c0b6). Token counts come from the caller.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

ChatMessage = Mapping[str, Any]
TOOL = "continue"  # under which name a session holds what is stored with messages
FRAME, CALL, RESULT = 4, 10, 10  # tokens beside the content: of a message, of each call, of a result
SAFE_SHARE, SAFE_MOST = 0.02, 1_000  # of the window, kept free against counting errors
ANSWER_MOST = 1_000  # tokens kept free for an answer, at most
WINDOW = 128_000  # assumed where the window is unknown


def get_factor(model: str) -> float:
    """What a family's counts are multiplied with: their tokenizers make more of a text than cl100k."""
    name = model.lower()
    if "claude" in name:
        return 1.23
    if "gemini" in name:
        return 1.18
    return 1.26 if "stral" in name or "mixtral" in name else 1.0


def adjust(tokens: int, model: str) -> int:
    """A count in a model's tokens, rounded up."""
    return ceil(tokens * get_factor(model))


def compute_safety(window: int) -> float:
    """Tokens kept free against counting errors."""
    return min(SAFE_MOST, SAFE_SHARE * window)


def compute_room(window: int, output: int) -> float:
    """Tokens that a request may have."""
    return window - compute_safety(window) - min(ANSWER_MOST, output)


def is_empty(message: ChatMessage) -> bool:
    """Whether a message is left out for its emptiness: blank text of a user, or of an answer without calls."""
    content = message.get("content")
    blank = content is None or (isinstance(content, str) and not content.strip())
    return blank and message.get("role") in ("user", "assistant") and not message.get("tool_calls")


def find_tail(messages: Sequence[ChatMessage], stop: int) -> int | None:
    """Where the end that always goes out begins: results with the answer that called for them, answers, or one message.

    None where the answer before the results did not call for one of them.
    """
    start = stop
    while start and messages[start - 1].get("role") == "tool":
        start -= 1
    if start < stop:
        if not start:
            return 0
        called = {call.get("id") for call in messages[start - 1].get("tool_calls") or ()}
        return start - 1 if all(m.get("tool_call_id") in called for m in messages[start:stop]) else None
    while start and messages[start - 1].get("role") in ("assistant", "thinking"):
        start -= 1
    return start if start < stop else max(0, stop - 1)


def find_first_kept(sums: Sequence[int], tools: Sequence[int], stop: int, budget: float) -> int:
    """The number of the oldest message before `stop` that is kept: the oldest go until `budget` holds, results with them.

    `sums[i]`: tokens of the first i messages; `tools`: numbers of results, rising.
    """
    if sums[stop] <= budget:
        return 0
    first = bisect_left(sums, sums[stop] - budget, 1, stop)
    place = bisect_left(tools, first)
    while first < stop and place < len(tools) and tools[place] == first:
        first, place = first + 1, place + 1
    return first


def select_lines(lines: Sequence[int], most: int, top: bool) -> range:
    """Which lines are left where the first (`top`) or the last go until `most` tokens hold; a line break is one token."""
    start, stop = 0, len(lines)
    total = sum(lines) + max(0, stop - 1)
    while start < stop and total > most:
        total -= lines[start if top else stop - 1] + (stop - start > 1)
        start, stop = (start + 1, stop) if top else (start, stop - 1)
    return range(start, stop)
