"""Splits a recorded request body into messages with digests, system prompt, tools, and notes on how it writes them.

Two ways of writing the same content (a string or one text block; with or without a `cache_control`) have the same digests.
Which of them a body uses is kept separately. The module also finds what two sequences of digests have in common. No state.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import compress, count
from operator import is_not
from typing import Any

import orjson

from turnscope.session.model import JSON

SMALL_PAIRS = 4096  # a stretch without landmarks is compared in full up to so many pairs


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message (or system prompt, or list of tools) without its cache marks."""

    role: str
    parts: list[JSON]  # blocks, or one string where the content is a bare string
    keys: tuple[bytes, ...]  # digests of the parts, in order
    extra: dict[str, JSON] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        """What equal messages share: role and digests."""
        return (self.role, self.keys)

    @property
    def bare(self) -> bool:
        """Whether the content is a bare string."""
        return len(self.parts) == 1 and isinstance(self.parts[0], str)


@dataclass(slots=True)
class RecordedBody:
    """What one request body holds.

    `marks` and `verbatim` are entries of `model.SHAPE`: cache marks, and what is kept as it is.
    """

    messages: list[RecordedMessage]
    system: RecordedMessage | None
    tools: RecordedMessage | None
    settings: dict[str, JSON]
    marks: list[list[Any]]
    verbatim: list[list[Any]]


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A body and what it was split into."""

    raw: Mapping[str, JSON]
    split: RecordedBody


def parse_body(body: Mapping[str, JSON], before: ParsedBody | None = None) -> RecordedBody:
    """Split a body in Anthropic's shape. Nothing is refused: what is not understood is kept as it is.

    Args:
        body: The body.
        before: One that was split before. Messages that both begin with, as the same objects, are not split again.
    """
    settings = {key: value for key, value in body.items() if key not in ("messages", "system", "tools")}
    marks: list[list[Any]] = []
    odd: list[list[Any]] = []
    heads: dict[str, RecordedMessage | None] = {"system": None, "tools": None}
    for name in heads:
        value = body.get(name)
        listed = isinstance(value, list) and value and all(isinstance(block, dict) for block in value)
        if listed or (name == "system" and isinstance(value, str) and value):
            heads[name] = _make_message(name, value, [name], marks)
        elif name in body:
            settings[name] = value
    messages: list[RecordedMessage] = []
    if before:
        same = count_same(before.raw["messages"], body["messages"])
        messages = before.split.messages[:same]
        marks += [mark for mark in before.split.marks if mark[0][0] == "messages" and mark[0][1] < same]
        odd += [each for each in before.split.verbatim if each[0][1] < same]
    new = enumerate(body["messages"][len(messages) :], len(messages))
    messages += [_parse_message(number, message, marks, odd) for number, message in new]
    return RecordedBody(messages, heads["system"], heads["tools"], settings, marks, odd)


def _parse_message(number: int, message: Any, marks: list[list[Any]], odd: list[list[Any]]) -> RecordedMessage:
    if isinstance(message, dict) and isinstance(message.get("role"), str) and message["role"] != "tools":
        content = message.get("content")
        extra = {key: value for key, value in message.items() if key not in ("role", "content")}
        if isinstance(content, str) or (isinstance(content, list) and all(isinstance(block, dict) for block in content)):
            return _make_message(message["role"], content, ["messages", number, "content"], marks, extra)
    odd.append([["messages", number], message])
    role = message.get("role") if isinstance(message, dict) else None
    content = message.get("content") if isinstance(message, dict) else message
    parts = content if isinstance(content, list) else [content]
    known = [
        {"type": "text", "text": part} if isinstance(part, str) else part for part in parts if isinstance(part, (str, dict))
    ]
    return _make_message(role if isinstance(role, str) and role != "tools" else "user", known, [], [])


def _make_message(
    role: str, content: Any, path: list[Any], marks: list[list[Any]], extra: dict[str, JSON] | None = None
) -> RecordedMessage:
    if isinstance(content, str):
        return RecordedMessage(role, [content], (_compute_digest({"type": "text", "text": content}),), extra or {})
    parts = [_strip_cache_marks(block, [*path, number], marks) for number, block in enumerate(content)]
    return RecordedMessage(role, parts, tuple(map(_compute_digest, parts)), extra or {})


def _strip_cache_marks(block: dict[str, JSON], path: list[Any], marks: list[list[Any]]) -> dict[str, JSON]:
    """Remove a block's cache marks, which move from request to request."""
    if "cache_control" in block:
        marks.append([path, block["cache_control"]])
        block = {key: value for key, value in block.items() if key != "cache_control"}
    inner = block.get("content")
    if isinstance(inner, list) and any(isinstance(part, dict) and "cache_control" in part for part in inner):
        numbered = enumerate(inner)
        clean = [_strip_cache_marks(p, [*path, "content", n], marks) if isinstance(p, dict) else p for n, p in numbered]
        block = {**block, "content": clean}
    return block


def _compute_digest(block: JSON) -> bytes:
    try:
        data = orjson.dumps(block, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        data = json.dumps(block, sort_keys=True, default=str).encode()
    return blake2b(data, digest_size=16).digest()


def count_same(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Count the objects that two sequences both begin with. Only the very same object is the same, whatever is equal.

    Args:
        a: A sequence.
        b: Another one.
    """
    return next(compress(count(), map(is_not, a, b)), min(len(a), len(b)))


def find_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Find positions at which two sequences are equal, rising in both: nearly as many as possible, in nearly linear time.

    Args:
        a: A sequence.
        b: Another one.

    >>> find_common("abcd", "xbcy")
    [(1, 1), (2, 2)]
    """
    return list(_find_common(a, b, 0, len(a), 0, len(b)))


def _find_common(a: Sequence[Hashable], b: Sequence[Hashable], i: int, m: int, j: int, n: int) -> Iterator[tuple[int, int]]:
    while i < m and j < n and a[i] == b[j]:
        yield i, j
        i, j = i + 1, j + 1
    tail = 0
    while m > i and n > j and a[m - 1] == b[n - 1]:
        m, n, tail = m - 1, n - 1, tail + 1
    if i < m and j < n:
        landmarks = _find_landmarks(a, b, i, m, j, n)
        if landmarks:
            for x, y in landmarks:
                yield from _find_common(a, b, i, x, j, y)
                yield x, y
                i, j = x + 1, y + 1
            yield from _find_common(a, b, i, m, j, n)
        else:
            yield from _match_rest(a, b, i, m, j, n)
    yield from ((m + k, n + k) for k in range(tail))


def _find_landmarks(a: Sequence[Hashable], b: Sequence[Hashable], i: int, m: int, j: int, n: int) -> list[tuple[int, int]]:
    """Find what occurs exactly once in both stretches, as the longest run of pairs that rises in both (patience)."""
    here, there = Counter(a[i:m]), Counter(b[j:n])
    at = {b[y]: y for y in range(j, n) if there[b[y]] == 1}
    piles: list[int] = []
    tops: list[tuple[int, int, int]] = []  # x, y, index of the pair before it
    ends: list[int] = []
    for x in range(i, m):
        if here[a[x]] == 1 and a[x] in at:
            y = at[a[x]]
            pile = bisect_left(piles, y)
            tops.append((x, y, ends[pile - 1] if pile else -1))
            piles[pile : pile + 1] = [y]
            ends[pile : pile + 1] = [len(tops) - 1]
    found: list[tuple[int, int]] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        x, y, k = tops[k]
        found.append((x, y))
    return found[::-1]


def _match_rest(a: Sequence[Hashable], b: Sequence[Hashable], i: int, m: int, j: int, n: int) -> Iterator[tuple[int, int]]:
    if (m - i) * (n - j) <= SMALL_PAIRS:
        matcher = SequenceMatcher(None, a[i:m], b[j:n], autojunk=False)
        for x, y, size in matcher.get_matching_blocks():
            yield from ((i + x + k, j + y + k) for k in range(size))
        return
    where: dict[Hashable, list[int]] = {}
    for x in range(i, m):
        where.setdefault(a[x], []).append(x)
    for y in range(j, n):
        places = where.get(b[y], [])
        at = bisect_left(places, i)
        if at < len(places):
            yield places[at], y
            i = places[at] + 1
