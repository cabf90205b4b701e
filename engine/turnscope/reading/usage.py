"""Converts the tokens of a request, under whatever names a provider, a framework or a convention gives them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading.content_blocks import as_mapping, make_usage
from turnscope.session.model import Usage
from turnscope.session.usage import measured, parse_count

PROMPT_KEYS = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "input", "prompt_token_count")
ANSWER_KEYS = ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "output", "candidates_token_count")
TOTAL_KEYS = ("total_tokens", "totalTokens", "total", "total_token_count")
CACHE_READ_KEYS = (
    "cache_read_input_tokens cache_read_tokens input_tokens_cache_read cacheReadInputTokens cachedInputTokens "
    "input_cached_tokens input_cache_read cache_read cached_content_token_count cached_tokens"
).split()
CACHE_WRITE_KEYS = (
    "cache_creation_input_tokens cache_write_tokens input_tokens_cache_write cacheWriteInputTokens input_cache_creation "
    "cache_write cache_creation"
).split()
MAX_DIGITS = 40  # characters of a text that is meant as a number
DETAIL_KEYS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


@measured
def convert_usage(held: Any) -> Usage | None:
    """Convert a usage object; None where it is none, or counts nothing.

    Where the prompt's number leaves cached tokens out, they are added. A total shows which it is. Without one, a prompt smaller
    than its cached tokens does.

    >>> convert_usage({"prompt_tokens": 1_000, "completion_tokens": 50}).prompt_tokens
    1000
    """
    reported = as_mapping(held)
    inner = next((as_mapping(reported[key]) for key in DETAIL_KEYS if reported.get(key)), {})
    prompt, output, total = (_find_count(reported, *names) for names in (PROMPT_KEYS, ANSWER_KEYS, TOTAL_KEYS))
    read = _find_count(reported, *CACHE_READ_KEYS) or _find_count(inner, "cached_tokens", "cache_read")
    made = _find_count(reported, *CACHE_WRITE_KEYS) or _find_count(inner, "cache_creation")
    apart = total == prompt + output + read + made if total and read + made else read + made > prompt
    return make_usage(prompt + (read + made if apart else 0), output, read, made)


def _find_count(held: Mapping[str, Any], *names: str) -> int:
    """Find the first of some keys that holds a number; 0 where none does. `InvalidCount` where that is no count."""
    return next((parse_count(held[name], name) for name in names if _is_number(held.get(name))), 0)


def _is_number(value: Any) -> bool:
    """Whether a value is meant as a number; other texts, objects and lists stand under the same names."""
    if isinstance(value, str):
        return len(value) < MAX_DIGITS and value.strip("+-. ").isdecimal()
    return isinstance(value, (int, float)) and not isinstance(value, bool)
