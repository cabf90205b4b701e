"""Open WebUI's context compaction: the estimated tokens of a chat, when it is too long, and where it is cut.

Pure functions, written from what is documented of `context_compaction.py` (open-webui 0.12.4). Its estimate is a quarter of
the characters, rounded down, and at least 1 for anything that is not empty.
"""

from __future__ import annotations

import contextlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnscope.ports.openwebui.messages import ChatMessage

PICTURE, FRAME = 1_000, 4  # tokens of an image; tokens of a message's frame
SHARE, LEAST, MOST = 40, 10, 50  # per cent of the messages that stay, and the bounds of that number
EXCERPT, FALLBACK = 500, 4_000  # characters of one message, and of the whole replacement, if the model gave no summary
HEADING = "[CONVERSATION SUMMARY]"
_DATA = re.compile(r"data:[^;\"]*;base64,[A-Za-z0-9+/=]*")
_PROMPT = (("prompt_tokens",), ("prompt_eval_count",), ("prompt_n", "cache_n"), ("input_tokens",))
_ANSWER = ("completion_tokens", "output_tokens", "eval_count", "predicted_n")


def estimate_tokens(value: Any) -> int:
    """Estimate the tokens of a text, or of the JSON of another value; None has none."""
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return max(1, len(text) // 4) if text else 0


def count_message(message: ChatMessage) -> int:
    """Estimate the tokens of a stored message: frame, content, items, calls and files."""
    content, found = message.get("content"), FRAME
    if isinstance(content, list):
        for part in content:
            if isinstance(part, Mapping) and part.get("type") in ("image", "image_url"):
                found += PICTURE
            else:
                found += estimate_tokens(part.get("text") or part.get("content") or part if isinstance(part, Mapping) else part)
    else:
        found += estimate_tokens(content)
    files = message.get("files")
    found += estimate_tokens(message.get("output")) + estimate_tokens(message.get("tool_calls"))
    return found + (estimate_tokens(_DATA.sub("", json.dumps(files, ensure_ascii=False))) if files else 0)


def count_usage(usage: Any) -> int:
    """Return the tokens of prompt and answer, under any provider's names for them; 0 if there are none."""
    if not isinstance(usage, Mapping):
        return 0
    prompt = next((n for names in _PROMPT if (n := sum(_to_int(usage.get(name)) for name in names))), 0)
    return prompt + next((n for name in _ANSWER if (n := _to_int(usage.get(name)))), 0)


def _to_int(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def get_usage(message: ChatMessage) -> int:
    """Return the tokens of the usage that is stored with a message."""
    info = message.get("info")
    return count_usage(message.get("usage")) or count_usage(info.get("usage") if isinstance(info, Mapping) else None)


class History(NamedTuple):
    """Stored messages as numbers, so that any part of them is judged without reading it.

    Attributes:
        sums: Tokens of the first i messages.
        usages: Numbers of messages with usage, and their tokens.
        users: Numbers of user messages.
        callers: Numbers of answers that call tools.
        tools: Numbers of results.
    """

    sums: list[int]
    usages: list[tuple[int, int]]
    users: list[int]
    callers: list[int]
    tools: list[int]


def read_history(messages: Iterable[ChatMessage]) -> History:
    """Read messages once."""
    found = History(sums=[0], usages=[], users=[], callers=[], tools=[])
    for number, message in enumerate(messages):
        role = message.get("role")
        found.sums.append(found.sums[-1] + count_message(message))
        if total := get_usage(message):
            found.usages.append((number, total))
        if role == "user":
            found.users.append(number)
        elif role == "tool":
            found.tools.append(number)
        elif role == "assistant" and message.get("tool_calls"):
            found.callers.append(number)
    return found


def count_history(found: History, start: int, stop: int, extra: int) -> int:
    """Return the tokens of the messages `start:stop`.

    With usage: that of the newest message, and what came after it. Without: all messages and `extra`.

    Args:
        found: The history.
        start: The first message.
        stop: The message after the last.
        extra: Tokens of what is sent beside the messages.
    """
    place = bisect_left(found.usages, (stop, 0)) - 1
    if place >= 0 and found.usages[place][0] >= start:
        number, total = found.usages[place]
        return total + found.sums[stop] - found.sums[number + 1]
    return extra + found.sums[stop] - found.sums[start]


def is_exceeded(total: int, threshold: int) -> bool:
    """Return whether a chat of `total` tokens is too long. A threshold of 0 or less is never exceeded."""
    return threshold > 0 and total > threshold


def get_threshold(threshold: int, cap: int | None, own: Any = None) -> int:
    """Return the threshold in force.

    Args:
        threshold: The global threshold in tokens.
        cap: The most tokens of any threshold; None = none.
        own: The chat's own threshold. It counts if it is a positive number.
    """
    try:
        chosen = int(own)
    except (TypeError, ValueError):
        chosen = 0
    chosen = chosen if chosen > 0 else threshold
    return min(chosen, cap) if cap is not None and cap > 0 else chosen


def find_boundary(found: History, start: int, stop: int, retention: Any = SHARE) -> int:
    """Return how many of the messages `start:stop` are summarised; 0 if nothing can be cut.

    The cut is before a user message, or, if there are results, before an answer that calls tools; but not before the first
    of these.

    Args:
        found: The history.
        start: The first message.
        stop: The message after the last.
        retention: Per cent of the messages that stay. At least two stay.
    """
    count, share = stop - start, SHARE
    with contextlib.suppress(TypeError, ValueError):
        share = int(retention)
    target = max(1, count - max(2, count * min(max(share, LEAST), MOST) // 100))
    agentic = bisect_left(found.tools, stop) > bisect_left(found.tools, start)
    places = found.callers if agentic else found.users
    first, last = bisect_left(places, start) + 1, bisect_left(places, stop)
    if first >= last:
        return 0
    if not agentic:
        target = max(target, places[first] - start)
    chosen = bisect_right(places, target + start, first, last) - 1
    return places[chosen] - start if chosen >= first else 0


class Checkpoint(NamedTuple):
    """Where the history begins after its newest summary: `start`, the summary, and the items left of the first answer."""

    start: int
    summary: str | None
    item: int = 0  # the first item that is left of the output of message `of`
    of: int = -1  # -1 = all messages are complete


def find_checkpoint(messages: Sequence[ChatMessage]) -> Checkpoint:
    """Return the newest summary, which is stored with a message, or between the calls of an answer."""
    for number in range(len(messages) - 1, -1, -1):
        stored = messages[number].get("contextSummary")
        if isinstance(stored, str) and stored.strip():
            return Checkpoint(number, stored)
        output = messages[number].get("output")
        for item in reversed(output if isinstance(output, list) else []):
            if item.get("type") == "open_webui:context_compaction" and item.get("summary"):
                return _resume_items(messages, number, item)
    return Checkpoint(0, None)


def _resume_items(messages: Sequence[ChatMessage], number: int, marker: ChatMessage) -> Checkpoint:
    """Return the items from the batch on to which the marker's call belongs, and the message before that answer."""
    for holder in range(number, -1, -1):
        output = messages[holder].get("output")
        items = output if isinstance(output, list) else []
        called = [
            i for i, x in enumerate(items) if x.get("type") == "function_call" and x.get("call_id") == marker.get("call_id")
        ]
        if called:
            first = called[0]
            while first and items[first - 1].get("type") == "function_call":
                first -= 1
            return Checkpoint(max(0, holder - 1), str(marker["summary"]), first, holder)
    return Checkpoint(number, str(marker["summary"]))


def build_fallback(previous: str | None, messages: Iterable[ChatMessage]) -> str:
    """Return the replacement for an empty summary: the beginnings of what it should have summarised.

    Args:
        previous: The summary before it.
        messages: The messages to summarise.
    """
    lines = [previous] if previous else []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = next((p.get("text") for p in content if isinstance(p, Mapping) and p.get("type") == "text"), "")
        if content:
            lines.append(f"- {message.get('role')}: {str(content)[:EXCERPT]}")
    return "\n".join(lines)[:FALLBACK]
