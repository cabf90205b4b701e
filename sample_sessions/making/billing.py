"""What a provider would have billed for a text: real token counts, a family factor, and a prompt cache with a memory.

Holds numbers only: no log lines, no stories. Nothing here knows a clock; times come in as seconds.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import toktok

FACTOR = 1.2  # Claude 4.5 family: Claude tokens per o200k token, English and Python mixed
PER_MESSAGE = 5  # role and separators of one message, in Claude tokens
SHORTEST = {"claude-opus-4-5-20251101": 4096, "claude-sonnet-4-5-20250929": 1024}  # tokens below which nothing is cached
LOOKBACK = 20  # blocks before the end of a prompt in which the provider looks for what it holds
CACHE_SECONDS = 300.0  # the short time to live of a cache entry; every read renews it

_counts: dict[str, int] = {}


def count(text: str) -> int:
    """Count `text` in o200k tokens."""
    if text not in _counts:
        _counts[text] = toktok.batch_count([text], "o200k_base")[0] if text else 0
    return _counts[text]


def billed(text: str) -> int:
    """Count `text` in Claude tokens: o200k times the family factor, up to 0.5 % off in a way that depends on the text."""
    wobble = (zlib.crc32(text.encode()) % 1001 - 500) / 100_000
    return round(FACTOR * count(text) * (1 + wobble))


def readable(block: dict[str, Any]) -> str:
    """Give the text of a content block that a tokenizer would count; a signature is no text."""
    match block["type"]:
        case "text":
            return str(block["text"])
        case "thinking":
            return str(block["thinking"])
        case "tool_use":
            return f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        case "tool_result":
            content = block["content"]
            return content if isinstance(content, str) else "\n".join(str(part["text"]) for part in content)
    raise ValueError(block["type"])


class Item(NamedTuple):
    """One countable thing of a prompt, in the order in which it is sent. A separator of messages has a key below 0."""

    key: int
    tokens: int
    thinking: bool
    turn: int


class Entry(NamedTuple):
    """One prefix that the provider keeps warm."""

    keys: tuple[int, ...]
    tokens: int


def _is_found(held: tuple[int, ...], keys: tuple[int, ...]) -> bool:
    """Say whether a prompt of `keys` begins with what is held, near its end; system and tools have their own mark."""
    near = sum(key >= 0 for key in keys[len(held) :]) <= LOOKBACK
    return (near or not held) and keys[: len(held)] == held


@dataclass
class Cache:
    """The provider's prompt cache as one client meets it: a list of warm prefixes per model."""

    prefix: int
    warm: dict[str, list[Entry]] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)

    def bill(self, model: str, keys: tuple[int, ...], prompt: int, fresh: int, now: float) -> dict[str, Any]:
        """Split a prompt of `prompt` tokens into read, written and `fresh` ones, as of second `now`, and remember it.

        An entry is found within `LOOKBACK` blocks of the prompt's end; further back only system and tools are.
        """
        entries = self.warm.get(model, [])
        if now - self.used.get(model, -1e9) >= CACHE_SECONDS:
            entries = []
        if prompt - fresh < SHORTEST[model]:
            fresh = prompt
        read = next((e.tokens for e in reversed(entries) if _is_found(e.keys, keys)), 0)
        cached = prompt - fresh
        entries = [e for e in entries if keys[: len(e.keys)] == e.keys]
        if cached:
            first = [] if entries or self.prefix < SHORTEST[model] else [Entry((), self.prefix)]
            self.warm[model] = [*first, *entries, Entry(keys, cached)]
        self.used[model] = now
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": cached - read,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": cached - read, "ephemeral_1h_input_tokens": 0},
        }
