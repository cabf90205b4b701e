"""Tokens of a request, under whatever names a provider, a framework or a convention gives them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading.parts import billed, mapping
from turnscope.session.model import Usage

PROMPT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "input", "prompt_token_count")
ANSWER = ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "output", "candidates_token_count")
TOTAL = ("total_tokens", "totalTokens", "total", "total_token_count")
CACHE_READ = (
    "cache_read_input_tokens cache_read_tokens input_tokens_cache_read cacheReadInputTokens cachedInputTokens "
    "input_cached_tokens input_cache_read cache_read cached_content_token_count cached_tokens"
).split()
CACHE_WRITTEN = (
    "cache_creation_input_tokens cache_write_tokens input_tokens_cache_write cacheWriteInputTokens input_cache_creation "
    "cache_write cache_creation"
).split()
DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


def counted(held: Any) -> Usage | None:
    """A usage object; None where it is none, or counts nothing.

    Where cached tokens are no part of the prompt's number, they are added to it. A total tells which it is; without one, a
    prompt smaller than what was cached does.
    """
    told = mapping(held)
    inner = next((mapping(told[key]) for key in DETAILS if told.get(key)), {})
    prompt, output, total = (_find_count(told, *names) for names in (PROMPT, ANSWER, TOTAL))
    read = _find_count(told, *CACHE_READ) or _find_count(inner, "cached_tokens", "cache_read")
    made = _find_count(told, *CACHE_WRITTEN) or _find_count(inner, "cache_creation")
    apart = total == prompt + output + read + made if total and read + made else read + made > prompt
    return billed(prompt + (read + made if apart else 0), output, read, made)


def _find_count(held: Mapping[str, Any], *names: str) -> int:
    """The first of some keys that is a count; 0 where none is."""
    found = (held[name] for name in names if isinstance(held.get(name), int) and not isinstance(held[name], bool))
    return next((value for value in found if 0 <= value < 1 << 53), 0)
