"""Converts the tokens of a request, under whatever names a provider, a framework or a convention gives them. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
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
THOUGHT_KEYS = ("output_reasoning", "output_reasoning_tokens", "reasoning_tokens", "reasoningTokens", "reasoning")
INPUT_AUDIO_KEYS, OUTPUT_AUDIO_KEYS = ("input_audio", "input_audio_tokens"), ("output_audio", "output_audio_tokens")
DETAIL_KEYS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


@measured
def convert_usage(usage: Any) -> Usage | None:
    """Convert a usage object; None where it is none, or counts nothing.

    Where the prompt's number leaves cached tokens out, or the answer's its reasoning, they are added. A total shows which it
    is. Without one, a prompt smaller than its cached tokens does.

    >>> convert_usage({"prompt_tokens": 1_000, "completion_tokens": 50}).prompt_tokens
    1000
    >>> convert_usage({"input": 100, "output": 30, "output_reasoning": 60, "total": 190}).output_tokens
    90
    """
    reported = as_mapping(usage)
    inner = next((as_mapping(reported[key]) for key in DETAIL_KEYS if reported.get(key)), {})
    prompt, output, total = (_find_count(reported, *names) for names in (PROMPT_KEYS, ANSWER_KEYS, TOTAL_KEYS))
    read = _find_count(reported, *CACHE_READ_KEYS) or _find_count(inner, "cached_tokens", "cache_read")
    made = _find_count(reported, *CACHE_WRITE_KEYS) or _find_count(inner, "cache_creation", "cache_write_tokens")
    thought, heard, spoken = (_find_count(reported, *keys) for keys in (THOUGHT_KEYS, INPUT_AUDIO_KEYS, OUTPUT_AUDIO_KEYS))
    parts = [(read + made, 0), (0, thought), (heard, 0), (0, spoken)]
    if total and any(map(any, parts)):
        left = total - prompt - output
        apart = next((found for found in _iter_choices(parts) if sum(map(sum, found)) == left), ())
    else:
        apart = parts[:1] if read + made > prompt else ()
    return make_usage(prompt + sum(prompt for prompt, _ in apart), output + sum(answered for _, answered in apart), read, made)


def _iter_choices(parts: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    """Every choice of the parts, the smallest first: which of them the numbers exclude."""
    counted = [part for part in parts if any(part)]
    return chain.from_iterable(combinations(counted, size) for size in range(len(counted) + 1))


def _find_count(usage: Mapping[str, Any], *names: str) -> int:
    """Find the first of some keys that holds a number; 0 where none does. `InvalidCount` where that is no count."""
    return next((parse_count(usage[name], name) for name in names if _is_meant(name, usage.get(name))), 0)


def _is_meant(name: str, value: Any) -> bool:
    """Whether a value is meant as a count: a number, or whatever stands under a name of tokens and is no object."""
    return _is_number(value) or ("oken" in name and value is not None and not isinstance(value, (bool, Mapping)))


def _is_number(value: Any) -> bool:
    """Whether a value is meant as a number; under names that say nothing of tokens, texts and lists stand as well."""
    if isinstance(value, str):
        return len(value) < MAX_DIGITS and value.strip("+-. ").isdecimal()
    return isinstance(value, (int, float)) and not isinstance(value, bool)
