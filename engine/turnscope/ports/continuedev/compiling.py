"""Continue's IDE extensions: the tokens of a message, what of the history fits, and what its end is.

Pure functions, written from what is documented of core/llm/countTokens.ts and getAdjustedTokenCount.ts (continuedev/continue
d0a3c0b6). The caller passes in token counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

ChatMessage = Mapping[str, Any]
TOOL = "continue"  # the key of this tool's data in `Session.about["stored"]`
FRAME, CALL, RESULT = 4, 10, 10  # tokens in addition to the content: of a message, of each call, of a result
SAFE_SHARE, SAFE_MOST = 0.02, 1_000  # kept free for counting errors: share of the window, tokens at most
ANSWER_MOST = 1_000  # tokens kept free for an answer, at most
WINDOW = 128_000  # tokens, if the window is unknown
UNMATCHED, TOO_LONG, NOTHING = "no_tool_call_for_result", "not_enough_context", "no_message"  # what it refuses, and why


class RefusalError(Exception):
    """The request is not sent; the argument says why: `UNMATCHED`, `TOO_LONG` or `NOTHING`."""


class Compiled(NamedTuple):
    """The messages that are sent, whether some were dropped, and the share of the room that is used."""

    messages: list[ChatMessage]
    pruned: bool
    share: float


def get_factor(model: str) -> float:
    """Return the factor for the counts of a model family, whose tokenizer makes more tokens of a text than cl100k."""
    name = model.lower()
    if "claude" in name:
        return 1.23
    if "gemini" in name:
        return 1.18
    return 1.26 if "stral" in name or "mixtral" in name else 1.0


def adjust(tokens: int, model: str) -> int:
    """Scale a count to a model's tokens, rounded up.

    Args:
        tokens: Tokens of cl100k.
        model: The name of the model.
    """
    return ceil(tokens * get_factor(model))


def compute_safety(window: int) -> float:
    """Return the tokens that are kept free for counting errors."""
    return min(SAFE_MOST, SAFE_SHARE * window)


def compute_room(window: int, output: int) -> float:
    """Return the tokens that a request may have.

    Args:
        window: The window in tokens.
        output: The tokens that an answer may have.
    """
    return window - compute_safety(window) - min(ANSWER_MOST, output)


def is_empty(message: ChatMessage) -> bool:
    """Return whether a message is dropped because it is empty: a user's blank text, or a blank answer without calls."""
    content = message.get("content")
    blank = content is None or (isinstance(content, str) and not content.strip())
    calls = message.get("tool_calls")
    return blank and (message.get("role") == "user" or (message.get("role") == "assistant" and calls is None))


def find_tail(messages: Sequence[ChatMessage], stop: int) -> int | None:
    """Return where the end begins that is always sent: results with the answer that called for them, answers, or one message.

    None if the answer before the results did not call for one of them.

    Args:
        messages: The messages.
        stop: How many of them there are.
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
    """Return the number of the oldest message that stays. The oldest are dropped until the rest fits, results with them.

    Args:
        sums: Tokens of the first i messages.
        tools: Numbers of the results, in ascending order.
        stop: How many messages there are.
        budget: Tokens that they may have.
    """
    if not stop or sums[stop] <= budget:
        return 0
    first = bisect_left(sums, sums[stop] - budget, 1, stop)
    place = bisect_left(tools, first)
    while first < stop and place < len(tools) and tools[place] == first:
        first, place = first + 1, place + 1
    return first


def compile_messages(messages: Sequence[ChatMessage], window: int | None, output: int, tools: int, images: bool) -> Compiled:
    """Return what is sent of a list of messages, each with its `tokens`.

    Args:
        messages: The messages.
        window: The window in tokens; None = unknown.
        output: The tokens that an answer may have.
        tools: Tokens of all tool definitions.
        images: Whether the model sees images.

    Raises:
        RefusalError: There is no message, the end does not fit, or a result at the end has no call.
    """
    read = [message if images else _drop_images(message) for message in messages]
    system = next((message for message in read if message["role"] == "system"), None)
    talk = [_fill_blank(m) for m in read if m["role"] != "system" and not (is_empty(m) and m.get("content") is not None)]
    end = find_tail(talk, len(talk))
    if end is None or not talk:
        raise RefusalError(UNMATCHED if talk else NOTHING)
    fixed = tools + (system["tokens"] if system else 0) + sum(message["tokens"] for message in talk[end:])
    room = compute_room(WINDOW if window is None else window, output)
    if window is not None and room < fixed:
        raise RefusalError(TOO_LONG)
    sums = [0, *accumulate(message["tokens"] for message in talk[:end])]
    results = [i for i, message in enumerate(talk[:end]) if message["role"] == "tool"]
    first = find_first_kept(sums, results, end, room - fixed)
    share = (fixed + sums[end] - sums[first]) / room
    return Compiled([*([system] if system else []), *talk[first:]], first > 0, share)


def _drop_images(message: ChatMessage) -> ChatMessage:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "\n".join(part.get("text") or "" for part in content if part.get("type") == "text")}


def _fill_blank(message: ChatMessage) -> ChatMessage:
    content = message.get("content")
    if isinstance(content, list):
        blank = all(part.get("type") == "text" and not (part.get("text") or " ").strip() for part in content)
    else:
        blank = isinstance(content, str) and not content.strip()
    return {**message, "content": " "} if blank else message


def select_lines(lines: Sequence[int], most: int, top: bool) -> range:
    """Select lines that fit. A line break is one token.

    Args:
        lines: Tokens of each line.
        most: Tokens that they may have.
        top: Drop the first lines; else the last.
    """
    start, stop = 0, len(lines)
    total = sum(lines) + max(0, stop - 1)
    while start < stop and total > most:
        total -= lines[start if top else stop - 1] + (stop - start > 1)
        start, stop = (start + 1, stop) if top else (start, stop - 1)
    return range(start, stop)
