"""What a provider would reject in a request body: checked before sending, never after.

Checks bodies in the form of Anthropic's Messages API for mistakes that its published types cannot express: pairs of calls and
results, empty content, cache marks, thinking bound to its prefix. Types, sizes in bytes and cost are not checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

from turnscope.envelope.difference import find_first_change
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.calls import MAPPING, Calls, list_blocks
from turnscope.pricing.abilities import binds_thinking, takes_prefill
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.content import is_text
from turnscope.session.model import BUCKETS, JSON, Bucket, Session

MESSAGES = 100_000  # messages; limit of one request of the Messages API
BREAKPOINTS = 4  # explicit cache marks of one request
TTLS = ("5m", "1h")
ROLES = ("user", "assistant", "system")
DROP = {"prefix_mismatch_behavior": "drop_block"}  # thinking.block_binding: the provider itself drops such blocks
_THINKING = ("thinking", "redacted_thinking")


class Problem(NamedTuple):
    """A mistake that would be rejected. `path` leads from the body to it, written as in the provider's own messages."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class CheckedMessages:
    """The first messages of a body, which have no mistake and no cache mark, and the tool calls in them."""

    messages: Sequence[Any]
    calls: Calls


def lint(body: Mapping[str, JSON], model: str, stale: Collection[int] = (), prices: Prices = PRICES) -> tuple[Problem, ...]:
    """Return everything in a body that the provider of a model would reject, in the order of the body.

    Args:
        body: The request body.
        model: The model, under any name that a log or a cloud uses.
        stale: Numbers of the thinking blocks (counted through the body, from 0) that follow another prefix than their own; see
            `find_stale_thinking`.
        prices: Facts of models.

    >>> result = {"type": "tool_result", "tool_use_id": "a", "content": "so"}
    >>> [problem.what for problem in lint({"messages": [{"role": "user", "content": [result]}]}, "claude-sonnet-4-5")]
    ['no call before this result has the id a']
    """
    return _lint_messages(body, model, stale=stale, prices=prices, start=0, calls=Calls())


def lint_continued(
    body: Mapping[str, JSON], model: str, prices: Prices, before: CheckedMessages | None
) -> tuple[tuple[Problem, ...], CheckedMessages | None]:
    """Return the problems of a body that begins with checked messages (the same objects), and what to skip next.

    Args:
        body: The request body.
        model: The model.
        prices: Facts of models.
        before: The messages that were checked before; None = none.

    Returns:
        The problems, and the messages that the next check can skip: None where this body has problems, or cache marks in its
        messages.
    """
    messages = _as_list(body.get("messages"))
    known = before is not None and len(before.messages) < len(messages) and all(map(is_, before.messages, messages))
    start, calls = (len(before.messages), before.calls) if before and known else (0, Calls())
    found = _lint_messages(body, model, stale=(), prices=prices, start=start, calls=calls.copy())
    if found or any(has_cache_mark(message) for message in messages[start:]):
        return found, None
    calls = calls.copy()
    for i in range(start, len(messages) - 1):
        deque(calls.read(i, messages[i]), 0)
    return (), CheckedMessages(messages[:-1], calls)


def _lint_messages(
    body: Mapping[str, JSON], model: str, stale: Collection[int], prices: Prices, start: int, calls: Calls
) -> tuple[Problem, ...]:
    """`start`: number of the first new message; `calls`: the tool calls before it."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return (Problem("messages", "at least one message is required"),)
    found = [
        *check_head(body, model, prices, start),
        *check_ends(messages, messages[-1], len(messages), model=model, prices=prices),
    ]
    bound = bool(stale) and _binds(body, model, prices)
    number = 0
    for i in range(start, len(messages)):
        thoughts = sum(block.get("type") in _THINKING for block in list_blocks(messages[i]))
        wrong = bound and {n - number for n in range(number, number + thoughts) if n in stale}
        found += (Problem(f"messages.{i}{path}", what) for path, what in check_message(messages[i], wrong or ()))
        number += thoughts
    found += (Problem(*wrong) for i in range(start, len(messages)) for wrong in calls.read(i, messages[i]))
    return (*found, *(Problem(*wrong) for wrong in calls.find_unanswered()))


def check_head(body: Mapping[str, JSON], model: str, prices: Prices = PRICES, start: int = 0) -> Iterator[Problem]:
    """Yield what is wrong with a body's settings, tools, system prompt and cache marks; see `lint`.

    Args:
        body: The request body.
        model: The model.
        prices: Facts of models.
        start: Number of the first message whose cache marks are read.
    """
    yield from _check_settings(body, model, prices)
    yield from _check_cache_marks(body, start)


def check_ends(messages: Iterable[Any], last: Any, many: int, model: str, prices: Prices = PRICES) -> Iterator[Problem]:
    """Yield what is wrong with the number of messages, with the first message and with the last; see `lint`.

    Args:
        messages: The messages.
        last: The last of them.
        many: How many there are.
        model: The model.
        prices: Facts of models.
    """
    if many > MESSAGES:
        yield Problem("messages", f"{many:,} messages are more than {MESSAGES:,}")
    first = next((message for message in messages if _get_role(message) != "system"), None)
    summed = any(
        block.get("type") == "compaction" for block in list_blocks(first)[:1]
    )  # the server's own summary may come first
    if _get_role(first) == "assistant" and not summed:
        yield Problem("messages.0", "the first message must be a user's")
    path = f"messages.{many - 1}"
    paused = any(block.get("type") == "compaction" for block in list_blocks(last)[-1:])  # it continues from its summary
    if _get_role(last) == "assistant" and not paused and not takes_prefill(model, prices):
        yield Problem(path, f"{model} does not continue an answer: the last message must be a user's")
    if _get_role(last) == "assistant" and isinstance(last["content"], str) and not _is_trimmed(last["content"]):
        yield Problem(path, "the last answer must not end with white space")


def check_message(message: Any, stale: Collection[int] = ()) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a message by itself: the rest of the path behind its number, and the mistake; see `lint`.

    Args:
        message: The message.
        stale: Numbers of its thinking blocks, from 0, that follow another prefix than their own.
    """
    if _get_role(message) not in ROLES:
        yield "", f"there is no role {_get_role(message)!r}"
    yield from _check_content(message)
    number = 0
    for j, block in enumerate(list_blocks(message)):
        if block.get("type") in _THINKING:
            yield from _check_thinking(block, f".content.{j}", message, number in stale)
            number += 1


def has_cache_mark(message: Any) -> bool:
    """Return whether a message has a cache mark."""
    return any(
        "cache_control" in block or any(map(_has_mark, _as_list(block.get("content")))) for block in list_blocks(message)
    )


def _has_mark(part: Any) -> bool:
    return isinstance(part, MAPPING) and "cache_control" in part


def find_stale_thinking(plans: Sequence[Plan], session: Session) -> tuple[int, ...]:
    """Return the numbers of the thinking blocks in the last plan's request that follow an edit made after they were written.

    For `lint`. A block that was dropped before and is dropped again is no edit.

    Args:
        plans: All plans up to the request, in order.
        session: The session.
    """

    def has_changed(birth: int, at: int) -> bool:
        first = find_first_change(plans[birth].after, plans[-1].after)
        return first is not None and first < at

    firsts = [plan.first for plan in plans]
    births = [request.cut for request in session.requests]
    found, number, edited = [], 0, -1
    for piece in plans[-1].after.pieces if plans else Envelope().pieces:
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                if block.bucket == Bucket.THINKING and not block.in_tags:
                    if edited > (birth := _find_last(births, block.at)) and (birth < 0 or has_changed(birth, block.at)):
                        found.append(number)
                    number += 1
            continue
        if any(count for bucket, count in zip(BUCKETS, piece.counts, strict=True) if bucket != Bucket.SYSTEM) or not piece.body:
            edited = max(edited, _find_last(firsts, piece.by))
        number += sum(part.kind in _THINKING and not is_text(part.raw) for part in piece.body)
    return tuple(found)


def _find_last(rising: Sequence[int], value: int) -> int:
    """Number of the last of `rising` that is <= `value`; -1 = none."""
    return bisect_right(rising, value) - 1


def _binds(body: Mapping[str, JSON], model: str, prices: Prices) -> bool:
    thinking = body.get("thinking")
    return binds_thinking(model, prices) and not (isinstance(thinking, MAPPING) and thinking.get("block_binding") == DROP)


def _check_settings(body: Mapping[str, JSON], model: str, prices: Prices) -> Iterator[Problem]:
    thinking, choice = _as_mapping(body.get("thinking")), _as_mapping(body.get("tool_choice"))
    forced = choice.get("type") in ("any", "tool")
    binds = binds_thinking(model, prices)
    if forced and binds:
        yield Problem("tool_choice", f"{model} does not accept a forced tool")
    elif forced and thinking.get("type") in ("enabled", "adaptive"):
        yield Problem("tool_choice", "a forced tool and thinking exclude each other")
    if thinking.get("type") in ("enabled", "disabled") and binds:
        yield Problem("thinking", f"{model} accepts no thinking of type {thinking['type']!r}: it decides itself when to think")
    names: set[str] = set()
    for i, tool in enumerate(_as_list(body.get("tools"))):
        name = tool.get("name") if isinstance(tool, MAPPING) else None
        if isinstance(name, str) and name in names:
            yield Problem(f"tools.{i}", f"two tools are called {name!r}")
        names.add(str(name))
    system = body.get("system")
    if isinstance(system, str) and system and not system.strip():
        yield Problem("system", "the system prompt is blank")
    for i, block in enumerate(system if isinstance(system, list) else []):
        if isinstance(block, MAPPING) and block.get("type") == "text" and not block.get("text"):
            yield Problem(f"system.{i}", "a text block is empty")


def _get_role(message: Any) -> Any:
    return message.get("role") if isinstance(message, MAPPING) else None


def _is_trimmed(text: str) -> bool:
    return not text.strip() or text == text.rstrip()


def _check_content(message: Any) -> Iterator[tuple[str, str]]:
    """Empty content, as measured against the API in 2026: an answer may be empty, a user's message may not."""
    content = message.get("content") if isinstance(message, MAPPING) else None
    if not isinstance(content, (str, list)):
        yield "", "content must be a string or a list of blocks"
    elif not content and _get_role(message) != "assistant":
        yield "", "a user's message must not be empty"
    elif isinstance(content, str):
        if content and not content.strip():
            yield "", "a message must hold more than white space"
    else:
        texts = [
            (j, block.get("text"))
            for j, block in enumerate(content)
            if isinstance(block, MAPPING) and block.get("type") == "text"
        ]
        yield from ((f".content.{j}", "a text block is empty") for j, text in texts if not text)
        if (
            texts
            and len(texts) == len(content)
            and all(isinstance(text, str) and text and not text.strip() for _, text in texts)
        ):
            yield "", "a message must hold more than white space"


def _check_thinking(block: Mapping[str, Any], path: str, message: Mapping[str, Any], stale: bool) -> Iterator[tuple[str, str]]:
    if message.get("role") != "assistant":
        yield path, "thinking is only allowed in an answer"
    if block.get("type") == "thinking" and not block.get("signature"):
        yield path, "thinking without a signature cannot be sent back"
    if stale:
        yield path, "the messages before this thinking were edited; this model accepts it only after its own prefix"


def _check_cache_marks(body: Mapping[str, JSON], start: int) -> Iterator[Problem]:
    marks = [*_find_cache_marks(body, start)]
    if len(marks) > BREAKPOINTS:
        yield Problem(marks[BREAKPOINTS][0], f"{len(marks)} cache breakpoints are more than {BREAKPOINTS}")
    short = ""
    for path, mark, kind in marks:
        ttl = mark.get("ttl", "5m") if isinstance(mark, MAPPING) else None
        if not isinstance(mark, MAPPING) or mark.get("type") != "ephemeral":
            yield Problem(path, "cache_control must be of type 'ephemeral'")
        elif ttl not in TTLS:
            yield Problem(path, f"a cache cannot live for {ttl!r}; known: {', '.join(TTLS)}")
        elif ttl == "1h" and short:
            yield Problem(path, f"a cache of one hour must not follow one of five minutes ({short})")
        if kind in _THINKING:
            yield Problem(path, "thinking cannot carry a cache breakpoint")
        short = short or (path if ttl == "5m" and path else "")


def _find_cache_marks(body: Mapping[str, JSON], start: int = 0) -> Iterator[tuple[str, Any, str]]:
    """Every cache mark in the order in which a provider reads: tools, system, messages; then the mark of the body."""
    rows: list[tuple[str, Any]] = [(f"tools.{i}", tool) for i, tool in enumerate(_as_list(body.get("tools")))]
    rows += [(f"system.{i}", block) for i, block in enumerate(_as_list(body.get("system")))]
    for i, message in enumerate(_as_list(body.get("messages"))[start:], start):
        for j, block in enumerate(_as_list(message.get("content")) if isinstance(message, MAPPING) else []):
            path = f"messages.{i}.content.{j}"
            inner = _as_list(block.get("content")) if isinstance(block, MAPPING) else []
            rows += [*((f"{path}.content.{k}", part) for k, part in enumerate(inner)), (path, block)]
    for path, block in (*rows, ("", body)):
        if isinstance(block, MAPPING) and block.get("cache_control") is not None:
            yield path or "cache_control", block["cache_control"], str(block.get("type", ""))


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, MAPPING) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
