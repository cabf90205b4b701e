"""Usage objects of logs as `Usage`: Anthropic's own, and the check that every importer's numbers pass.

A number that is no count of tokens (a text, a negative one, NaN, 1e30) does not become a measured zero: the whole object
becomes an `InvalidUsage`, which `Builder` takes for no usage and makes a note of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from msgspec import structs

from turnscope.session.model import AppliedEdit, CacheMiss, Usage

MAX_COUNT = 1 << 53  # a count from here on is no exact number in JSON
SHOWN_CHARS = 40  # of a wrong value in a note
P = ParamSpec("P")


class InvalidUsage(Usage, frozen=True, gc=False):
    """Usage that cannot be read. `what` says which number is no count. Its counts are zeros and mean nothing."""

    what: str = ""


class InvalidCount(ValueError):
    """A number of a usage object is no count of tokens."""


def parse_count(value: Any, name: str = "tokens") -> int:
    """Read a count of tokens; 0 where there is none.

    Args:
        value: What the log holds.
        name: What the log calls it.

    Raises:
        InvalidCount: It is there and is no count: no whole number, or none from 0 to 2^53.
    """
    if value is None:
        return 0
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole or not 0 <= value < MAX_COUNT:
        text = repr(value)
        raise InvalidCount(f"{name} is {text if len(text) <= SHOWN_CHARS else f'{text[:SHOWN_CHARS]}…'}")
    return int(value)


def measured(convert: Callable[P, Usage | None]) -> Callable[P, Usage | None]:
    """Make a conversion give an `InvalidUsage` where it meets an `InvalidCount`.

    Args:
        convert: A function that reads the numbers of a usage object with `parse_count`.
    """

    @wraps(convert)
    def convert_or_explain(*args: P.args, **kwargs: P.kwargs) -> Usage | None:
        try:
            return convert(*args, **kwargs)
        except InvalidCount as wrong:
            return InvalidUsage(what=str(wrong))

    return convert_or_explain


def is_valid(usage: Usage) -> bool:
    """Whether each number of a usage value, without its further passes, is a count of tokens."""
    counts = (usage.prompt_tokens, usage.output_tokens, usage.cache_creation_1h_input_tokens, usage.context)
    parts = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    return all(0 <= count < MAX_COUNT for count in (*counts, *parts))


def drop_empty(usage: Usage | None) -> Usage | None:
    """The usage; None where it counts nothing, as tools write it when nothing was reported."""
    counted = usage is not None and (isinstance(usage, InvalidUsage) or usage.prompt_tokens or usage.output_tokens)
    return usage if counted else None


@measured
def parse_usage(raw: Any) -> Usage | None:
    """Convert Anthropic's usage object. None where `raw` is no object; an `InvalidUsage` where a number of it is no count."""
    return _parse_usage(raw) if isinstance(raw, (dict, Mapping)) else None


def _parse_usage(raw: Mapping[str, Any]) -> Usage:
    hours, listed = raw.get("cache_creation"), raw.get("iterations")
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    fresh, made, read, answer = (parse_count(raw.get(name), name) for name in names)
    hour = "ephemeral_1h_input_tokens"
    long = parse_count(hours.get(hour), hour) if isinstance(hours, (dict, Mapping)) else 0
    whole = Usage(fresh, made, read, answer, long)
    if not isinstance(listed, list):
        return whole
    reported = [(row, _parse_usage(row)) for row in listed if isinstance(row, Mapping)]
    extra = [structs.replace(u, kind=str(row["type"]), model=_get_model(row)) for row, u in reported if _is_extra_pass(row)]
    answers = [u.prompt_tokens for row, u in reported if not _is_extra_pass(row)]
    return structs.replace(whole, iterations=tuple(extra), context=answers[-1] if len(answers) > 1 else 0)


def parse_cache_miss(raw: Any) -> CacheMiss | None:
    """The provider's diagnosis of a cache miss (`diagnostics` of an answer); None where it has none, or could not find one."""
    found = raw.get("cache_miss_reason") if isinstance(raw, (dict, Mapping)) else None
    if not isinstance(found, (dict, Mapping)):
        return None
    reason = found.get("type")
    if not isinstance(reason, str) or reason == "unavailable":
        return None
    return CacheMiss(reason, _count_or_zero(found.get("cache_missed_input_tokens")))


def parse_applied_edits(raw: Any) -> tuple[AppliedEdit, ...]:
    """Read the context edits that a response reports in its `context_management`; none where it reports none."""
    reported = raw.get("applied_edits") if isinstance(raw, (dict, Mapping)) else None
    if not reported:
        return ()
    edits = [row for row in reported if isinstance(row, Mapping)] if isinstance(reported, list) else []
    counts = ("cleared_tool_uses", "cleared_thinking_turns")
    return tuple(
        AppliedEdit(
            str(row["type"]),
            sum(_count_or_zero(row.get(key)) for key in counts),
            _count_or_zero(row.get("cleared_input_tokens")),
        )
        for row in edits
        if isinstance(row.get("type"), str)
    )


def parse_usd(value: Any, otherwise: float | None = None) -> float | None:
    """Read a cost in USD from a log.

    Args:
        value: What the log holds.
        otherwise: Returned where `value` is no amount.
    """
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
    return float(value) if known else otherwise


def _is_extra_pass(row: Mapping[str, Any]) -> bool:
    """Whether a pass is billed in addition to the answer. The usage as a whole is the sum of all passes that answered."""
    return row.get("type") not in (None, "message", "fallback_message")


def _get_model(row: Mapping[str, Any]) -> str:
    return row["model"] if isinstance(row.get("model"), str) else ""


def _count_or_zero(value: Any) -> int:
    """A count that is reported with usage and bills nothing; 0 where it is none."""
    try:
        return parse_count(value)
    except InvalidCount:
        return 0
