"""Inspect's compaction handler: when it compacts, how often it tries, and what it carries from call to call.

Pure, ported from `inspect_ai/model/_compaction/_compaction.py` (PyPI inspect-ai 0.3.285). Neighbours of one role are not merged
here: that is the provider's business. Messages are told apart by `id`; what a strategy changed gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.ports.inspect_ai import strategies as port

Message = Mapping[str, Any]
Count = Callable[[Sequence[Message]], int]
Strategy = Callable[[Sequence[Message]], tuple[list[Message], Message | None]]
WINDOW = 128_000  # where the model's is unknown
MORE_PASSES = 3
PRESERVED = 0.8  # of the strategy trim


class Insufficient(Exception):
    """Still above the threshold after the last pass, or after one that made no progress."""


@dataclass(slots=True)
class State:
    """What is sent so far, what was taken in, and what the provider counted of it."""

    sent: list[Message] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    baseline: tuple[int, frozenset[str]] | None = None
    made: int = 0


def threshold(given: float, window: int | None) -> int:
    """Tokens above which is compacted: a number of tokens, or a share of the window."""
    return int(given) if isinstance(given, int) or given > 1 else int(given * (window or WINDOW))


def strategy_of(options: Mapping[str, Any], summarise: port.Summarise) -> Strategy:
    """The strategy of `type` with its options, as Inspect has them by default."""
    kind, memory = options["type"], options.get("memory", True)
    if kind == "summary":
        return lambda messages: port.summed_up(messages, summarise)
    if kind == "trim":
        share = options.get("preserve", PRESERVED)

        def trim(messages: Sequence[Message]) -> tuple[list[Message], Message | None]:
            kept = port.trimmed(messages, share)
            return [port.without_saved(m) for m in kept] if memory else kept, None

        return trim
    thinking = options.get("keep_thinking_turns", 1)
    uses, inputs = options.get("keep_tool_uses", 3), options.get("keep_tool_inputs", True)
    exclude = options.get("exclude_tools") or ()
    return lambda messages: (
        port.edited(messages, None if thinking == "all" else thinking, uses, inputs, exclude, memory),
        None,
    )


def prepare(
    state: State,
    history: Sequence[Message],
    prefix: Sequence[Message],
    strategy: Strategy,
    most: int,
    count: Count,
) -> Message | None:
    """Take in what is new of the history and compact where it is too much; `state.sent` is what is sent then.

    Gives the message that joins the stored history; None where there is none. Insufficient: it stays too much.
    """
    new = [m for m in history if m["id"] not in state.seen]
    whole = [*state.sent, *new]
    state.seen |= {m["id"] for m in new}
    if _total(state, whole, count) <= most:
        state.sent = whole
        return None
    sent, appended = strategy(whole)
    total = count(sent)
    for _ in range(MORE_PASSES):
        before = total
        if total <= most:
            break
        sent, appended = strategy(sent)
        total = count(sent)
        if total >= before:
            break
    if total > most:
        raise Insufficient
    named = [_named(state, m) for m in sent]
    there = {m["id"] for m in named}
    missing = [m for m in prefix if m["id"] not in there]
    lead = next((i for i, m in enumerate(named) if m["role"] != "system"), len(named))
    state.sent = [
        *(m for m in missing if m["role"] == "system"),
        *named[:lead],
        *(m for m in missing if m["role"] != "system"),
        *named[lead:],
    ]
    state.baseline = None
    if appended is None:
        return None
    joined: Message = next(m for m, bare in zip(named, sent, strict=True) if bare is appended)
    state.seen.add(joined["id"])
    return joined


def counted(state: State, tokens: int) -> None:
    """The provider counted so many tokens of what is sent now."""
    state.baseline = tokens, frozenset(m["id"] for m in state.sent)


def _total(state: State, messages: Sequence[Message], count: Count) -> int:
    if state.baseline and state.baseline[1] <= {m["id"] for m in messages}:
        new = [m for m in messages if m["id"] not in state.baseline[1]]
        return state.baseline[0] + (count(new) if new else 0)
    return count(messages)


def _named(state: State, message: Message) -> Message:
    if "id" in message:
        return message
    state.made += 1
    return {"id": f"compacted-{state.made}", **message}
