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

from turnscope.ports.openwebui.messages import ChatMessage, get_content

THRESHOLD = 80_000  # tokens, if nothing else is set
PICTURE, FRAME = 1_000, 4  # tokens of an image; tokens of a message's frame
SHARE, LEAST, MOST = 40, 10, 50  # per cent of the messages that stay, and the bounds of that number
EXCERPT, FALLBACK = 500, 4_000  # characters of one message, and of the whole replacement, if the model gave no summary
MARKER = "open_webui:context_compaction"
HEADING = "[CONVERSATION SUMMARY]"
_DATA = re.compile(r"data:[\w/+.;=%-]*;base64,[A-Za-z0-9+/=]*")
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
    prompt = int(usage.get("prompt_tokens") or usage.get("prompt_eval_count") or 0)
    prompt = prompt or int(usage.get("prompt_n") or 0) + int(usage.get("cache_n") or 0)
    prompt = prompt or int(usage.get("input_tokens") or 0)
    return prompt + int(next((usage[name] for name in _ANSWER if usage.get(name)), 0))


def get_usage(message: ChatMessage) -> int:
    """Return the tokens of the usage that is stored with a message; 0 if what is stored cannot be read."""
    info = message.get("info")
    with contextlib.suppress(TypeError, ValueError):
        return count_usage(message.get("usage") or (info.get("usage") if isinstance(info, Mapping) else None))
    return 0


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
        extra: Tokens of what is sent besides the messages.
    """
    place = bisect_left(found.usages, (stop, 0)) - 1
    if place >= 0 and found.usages[place][0] >= start:
        number, total = found.usages[place]
        return total + found.sums[stop] - found.sums[number + 1]
    return extra + found.sums[stop] - found.sums[start]


def is_exceeded(total: int, threshold: int) -> bool:
    """Return whether a chat of `total` tokens is too long. A threshold of 0 or less is never exceeded.

    Args:
        total: Tokens of the chat.
        threshold: Tokens above which it is compacted.
    """
    return threshold > 0 and total > threshold


def get_threshold(threshold: Any, cap: Any = None, own: Any = None) -> int:
    """Return the threshold in force. Values may be texts; one that is no positive number does not count.

    Args:
        threshold: The global threshold in tokens, by default 80,000.
        cap: The most tokens of any threshold, by default the global one.
        own: The chat's own threshold.
    """
    known = _parse_positive(threshold) or THRESHOLD
    return min(_parse_positive(own) or known, _parse_positive(cap) or known)


def _parse_positive(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError):
        return 0


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
    output: tuple[ChatMessage, ...] | None = None  # the items that are left of the output of message `of`
    of: int = -1  # -1 = all messages are complete


def find_checkpoint(messages: Sequence[ChatMessage]) -> Checkpoint:
    """Return the newest summary, which is stored with a message, or between the calls of an answer."""
    for number in range(len(messages) - 1, -1, -1):
        stored = messages[number].get("contextSummary") or messages[number].get("context_summary")
        if isinstance(stored, str) and stored.strip():
            return Checkpoint(number, stored)
        marker = next((item for item in reversed(_get_items(messages[number])) if item.get("type") == MARKER), None)
        if marker and (found := _resume_items(messages, number, marker)):
            return found
    return Checkpoint(0, None)


def _get_items(message: ChatMessage) -> Sequence[ChatMessage]:
    output = message.get("output")
    return [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []


def _resume_items(messages: Sequence[ChatMessage], number: int, marker: ChatMessage) -> Checkpoint | None:
    """Return the items from the end of the result before the marker's call on, and the message before that answer."""
    for holder in range(number, -1, -1):
        items = _get_items(messages[holder])
        for first, item in enumerate(items):
            if item.get("type") == "function_call" and item.get("call_id") == marker.get("call_id"):
                while first and items[first - 1].get("type") != "function_call_output":
                    first -= 1  # noqa: PLW2901 - the search goes on from the call
                left = tuple(item for item in items[first:] if item.get("type") != MARKER)
                return Checkpoint(max(0, holder - 1), marker.get("summary"), left, holder)
    return None


def build_fallback(previous: str | None, messages: Iterable[ChatMessage]) -> str:
    """Return the replacement for an empty summary: the beginnings of what it should have summarised.

    Args:
        previous: The summary before it.
        messages: The messages to summarise.
    """
    lines = [previous] if previous else []
    for message in messages:
        if content := get_content(message):
            lines.append(f"- {message.get('role', 'unknown')}: {content[:EXCERPT]}")
    return "\n".join(lines)[:FALLBACK]
