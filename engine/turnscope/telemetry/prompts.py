"""What spans hold of prompts and answers: each message once in a conversation, or the whole prompt in each span.

Values are JSON texts, because servers take no nested values. `reading.shared_prompts` puts prompts together again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from turnscope.session.model import JSON
from turnscope.telemetry import genai_messages, names

MARK = "cache_control"


class WrittenPrompts:
    """What the spans of a conversation hold so far. Its requests come in order.

    Args:
        whole: write the whole prompt with every request, and refer to nothing.
        run: sets the numbers of messages apart from those of other runs of the conversation; "" = there is one run.
    """

    def __init__(self, *, whole: bool = False, run: str = "") -> None:
        self.whole, self.run = whole, run
        self._numbers: dict[bytes, int] = {}  # by digest: the texts themselves would be held twice
        self._count = 0
        self._heads: dict[str, tuple[str, int]] = {}

    def write(self, n: int, body: Mapping[str, JSON], answer: Sequence[JSON], reason: str) -> dict[str, Any]:
        """Write what the span of a request holds of its prompt and its answer.

        Args:
            n: number of the request.
            body: its body.
            answer: the blocks of its answer.
            reason: why that ended.
        """
        heads = {names.SYSTEM: genai_messages.to_parts(body.get("system")), names.TOOLS: genai_messages.to_tools(body)}
        messages, answered = genai_messages.to_messages(body), genai_messages.to_answer(answer, reason)
        if self.whole:
            listed = {**heads, names.INPUT: messages, names.OUTPUT: answered}
            return {key: dumps(value) for key, value in listed.items() if value}
        found = {names.PROMPT_START: self._count, **({names.PROMPT_RUN: self.run} if self.run else {})}
        found |= self._write_heads(n, heads)
        marks: list[JSON] = []
        own: list[str] = []
        numbers: list[int] = []
        for message in messages:
            bare = _take_marks(message, len(numbers), marks)
            text = dumps(bare)
            if _digest(text) not in self._numbers:
                own.append(text)
            numbers.append(self._number(text))
        for each in answered:
            bare = _take_marks(each, 0, [])
            self._numbers[_digest(dumps({"role": bare["role"], "parts": bare["parts"]}))] = self._count
            self._count += 1
        found |= {names.PROMPT_MESSAGES: format_numbers(numbers)}
        texts = {
            names.INPUT: f"[{','.join(own)}]" if own else "",
            names.OUTPUT: dumps(answered) if answered else "",
            names.PROMPT_MARKS: dumps(marks) if marks else "",
        }
        return found | {key: value for key, value in texts.items() if value}

    def _write_heads(self, n: int, heads: Mapping[str, Sequence[JSON]]) -> dict[str, Any]:
        """System prompt and tools, where they are not what the request before had."""
        found: dict[str, Any] = {}
        for key, value in heads.items():
            if not value:
                continue
            text = dumps(value)
            if self._heads.get(key, ("", 0))[0] != text:
                self._heads[key] = text, n
                found[key] = text
            found[names.PROMPT_SYSTEM if key == names.SYSTEM else names.PROMPT_TOOLS] = self._heads[key][1]
        return found

    def _number(self, text: str) -> int:
        key = _digest(text)
        if key not in self._numbers:
            self._numbers[key] = self._count
            self._count += 1
        return self._numbers[key]


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def dumps(value: JSON) -> str:
    """Write JSON that any server takes: a half of a character that stands alone is escaped."""
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "backslashreplace").decode()
    )


def format_numbers(numbers: Iterable[int]) -> str:
    """Format numbers, those in a row as a range: `0-5,8`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def _take_marks(message: Mapping[str, Any], at: int, marks: list[JSON]) -> dict[str, Any]:
    """The message without marks for the cache; these are added to `marks`."""
    parts: list[JSON] = []
    for number, part in enumerate(message["parts"]):
        if MARK in part:
            marks.append([at, number, part[MARK]])
        parts.append({key: value for key, value in part.items() if key != MARK})
    return {**message, "parts": parts}
