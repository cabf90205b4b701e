"""How LibreChat's agents choose what is sent: the newest messages that fit, with reasoning restored, calls paired with results.

Pure functions over a `History`, ported from `getMessagesWithinTokenLimit`, `repairOrphanedToolMessages` and
`sanitizeOrphanToolBlocks` (prune.ts), `splitAtRecencyBoundary` (recency.ts) and `shouldTriggerSummarization`
(summarization/index.ts) of @librechat/agents 3.6.11. Message numbers are those of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

from msgspec import Struct

from turnscope.ports.librechat.counts import Column, find_fitting, sum_between
from turnscope.ports.librechat.history import Bodies, History, get_call_id
from turnscope.session.content import extract_block_text
from turnscope.session.model import Part

PRIMER = 3  # tokens of the label at the start of every reply
AFTER_RESULTS = ("ai", "human")  # types that may come first if a result would be first
Reasoning = Literal["thinking", "reasoning_content"]


class Fit(Struct, frozen=True, gc=False):
    """What fits: the messages that stay, those before them that may be summarised (`start:stop`), and where reasoning goes."""

    kept: Sequence[int]
    remaining: int
    refine: tuple[int, int]
    thought: int = -1  # the message with the reasoning at the end
    attach: tuple[int, int] | None = None  # a kept message, and the address of reasoning that is now put before it


class Terms(Struct, frozen=True, gc=False):
    """The limits of a selection.

    Attributes:
        limit: Tokens of the request.
        instructions: Tokens of the instructions.
        starts: Types of messages of which one must come first; empty = any.
        thinking: Whether reasoning is restored at the end.
        reasoning: Which blocks count as reasoning.
    """

    limit: int
    instructions: int = 0
    starts: tuple[str, ...] = ()
    thinking: bool = False
    reasoning: Reasoning = "thinking"


def select_newest(history: History, counts: Column[int], terms: Terms, thought: int = -1) -> Fit:
    """Select the newest messages that fit.

    Args:
        history: The messages.
        counts: Their tokens.
        terms: The limits.
        thought: The message in which reasoning was found for the previous request; -1 = none.
    """
    there, base = len(history), int(history.has_instructions)
    room = terms.limit - (counts[0] if base else terms.instructions)
    start, taken, types = there, PRIMER, terms.starts
    fits = room > PRIMER
    if fits:
        start, taken = find_fitting(counts, base, there, taken=PRIMER, room=room)
    ends, block = False, -1
    if 0 <= thought < there and history.get_role(thought) == "ai":
        block = history.find_reasoning(thought, terms.reasoning)
    if fits and terms.thinking and there > base and history.get_role(there - 1) in ("ai", "tool"):
        ends, thought, block = _find_trailing_reasoning(
            history, terms.reasoning, (thought, block), base if taken < room else start
        )
    stop = start
    if fits:
        start, taken, types = _find_allowed_start(history, counts, (start, there), taken, types)
    kept: Sequence[int] = range(start, there) if not base else [0, *range(start, there)]
    fit = Fit(kept, room - taken, (base, stop), thought)
    if stop == base or not ends or (thought > -1 and thought >= there - len(kept)):
        return fit
    if thought < 0 or block < 0:
        return Fit(kept, fit.remaining, fit.refine)
    return _attach_reasoning(history, counts, fit, block, room, types)


def _find_trailing_reasoning(history: History, kind: Reasoning, known: tuple[int, int], lowest: int) -> tuple[bool, int, int]:
    """Return whether the answers and results at the end need reasoning, and where it is; not before message `lowest`."""
    thought, block = known
    if thought >= 0 or block >= 0:
        return True, thought, block
    found, end = history.find_last_reasoning(kind), history.find_last_break
    if found > end and found >= lowest:
        return True, found, history.find_reasoning(found, kind)
    return end < lowest or end < 0, -1, -1


def _find_allowed_start(
    history: History, counts: Column[int], span: tuple[int, int], taken: int, types: tuple[str, ...]
) -> tuple[int, int, tuple[str, ...]]:
    """Return the first of the messages `span` that may come first, the tokens from there on, and the types that may."""
    start, stop = span
    if start < stop and history.get_role(start) == "tool":
        types = AFTER_RESULTS
    first = next((i for i in range(start, stop) if history.get_role(i) in types), start) if types else start
    return first, taken - sum_between(counts, start, first), types


def _attach_reasoning(history: History, counts: Column[int], fit: Fit, block: int, room: int, types: tuple[str, ...]) -> Fit:
    """Put reasoning that would be dropped before the oldest answer of the newest run of messages."""
    answer = -1
    for i in reversed(fit.kept):
        role = history.get_role(i)
        if role == "ai":
            answer = i
        elif answer > -1 and role in ("human", "system"):
            break
    if answer < 0:
        return fit
    tokens = history.count_parts([_build_part(history, block)])
    if fit.remaining - tokens > 0:
        return Fit(kept=fit.kept, remaining=fit.remaining, refine=fit.refine, thought=fit.thought, attach=(answer, block))
    there = len(history)
    start, _ = find_fitting(counts, answer, there, taken=PRIMER, room=room - counts[answer] - tokens)
    if start < there and history.get_role(start) == "ai":
        first, _, _ = _find_allowed_start(history, counts, (start, there), 0, types)
        kept = [start, *range(first + 1, there)]
        answer = start
    else:
        first, _, _ = _find_allowed_start(history, counts, (start, there), 0, types)
        kept = [answer, *range(first, there)]
    kept = [0, *kept] if history.has_instructions else kept
    return Fit(kept=kept, remaining=fit.remaining, refine=fit.refine, thought=fit.thought, attach=(answer, block))


def _build_part(history: History, at: int) -> Part:
    raw = history.session.blocks[at].raw
    kind = str(raw.get("type", "thinking"))
    return Part("assistant", kind, extract_block_text(kind, raw), raw)


def add_reasoning(history: History, i: int, bodies: Bodies, block: int) -> Bodies:
    """Put the reasoning of address `block` before a message, unless it begins with reasoning of that kind.

    Args:
        history: The messages.
        i: The number of the message, an answer with at least one block.
        bodies: The placeholders of its blocks so far.
        block: The address of the reasoning block.
    """
    first = history.get_blocks(i)[0]
    if isinstance(first.raw, Mapping) and first.raw.get("type") == history.session.blocks[block].raw.get("type"):
        return bodies
    parts = () if first.raw is None else (Part(first.role, first.kind, first.text, first.raw),)
    rest = bodies.get(first.at, parts)
    return {**bodies, first.at: (_build_part(history, block), *rest)}


class Repaired(Struct, frozen=True, gc=False):
    """The result of a repair: messages that stay, messages that are dropped, tokens that became free, and removed calls."""

    kept: Sequence[int]
    dropped: list[int] = []
    reclaimed: int = 0
    stripped: Mapping[int, frozenset[int]] = {}  # addresses of removed calls, by message


def repair_pairs(
    history: History, kept: Sequence[int], counts: Column[int], bodies: Callable[[int], Bodies], new: int = -1
) -> Repaired:
    """Drop results without their call, and calls without their result.

    Args:
        history: The messages.
        kept: Numbers of the messages that would be sent.
        counts: Their tokens.
        bodies: Returns what a message is sent as.
        new: Messages that were changed just now.
    """
    calls, results = _collect_ids(history, kept)
    left: list[int] = []
    dropped: list[int] = []
    stripped: dict[int, frozenset[int]] = {}
    reclaimed = 0
    for i in kept:
        open_calls = frozenset(b.at for b in history.list_calls(i) if get_call_id(b) not in results)
        tokens = counts[i] if i != new else history.count_parts(history.build_parts(i, bodies(i)))
        orphan = history.get_role(i) == "tool" and get_call_id(history.get_blocks(i)[0]) not in calls
        if orphan or (open_calls and is_emptied(history, i, open_calls)):
            dropped.append(i)
            reclaimed += tokens
        elif open_calls:
            stripped[i] = open_calls
            left.append(i)
            reclaimed += tokens - history.count_parts(history.build_parts(i, remove_calls(bodies(i), open_calls)))
        else:
            left.append(i)
    return Repaired(left, dropped, reclaimed, stripped)


def sanitize(history: History, kept: Sequence[int]) -> Repaired:
    """Repair pairs once more before the model is called. Drop answers at the end that only called tools.

    Args:
        history: The messages.
        kept: Numbers of the messages that the request would have, oldest first.
    """
    calls, results = _collect_ids(history, kept)
    left: list[int] = []
    dropped: list[int] = []
    stripped: dict[int, frozenset[int]] = {}
    for i in kept:
        open_calls = frozenset(b.at for b in history.list_calls(i) if get_call_id(b) not in results)
        orphan = history.get_role(i) == "tool" and get_call_id(history.get_blocks(i)[0]) not in calls
        if orphan or (open_calls and is_emptied(history, i, open_calls)):
            dropped.append(i)
            continue
        left.append(i)
        if open_calls:
            stripped[i] = open_calls
    while left and left[-1] in stripped:
        dropped.append(left.pop())
        del stripped[dropped[-1]]
    return Repaired(left, dropped, 0, stripped)


def _collect_ids(history: History, kept: Iterable[int]) -> tuple[AbstractSet[str], AbstractSet[str]]:
    calls, results = set[str](), set[str]()
    for i in kept:
        if history.get_role(i) == "tool":
            results.add(get_call_id(history.get_blocks(i)[0]))
        elif history.get_role(i) == "ai":
            calls.update(get_call_id(block) for block in history.list_calls(i))
    return calls - {""}, results - {""}


def remove_calls(bodies: Bodies, gone: AbstractSet[int]) -> Bodies:
    """Remove some calls from a message.

    Args:
        bodies: The placeholders of the message's blocks so far.
        gone: Addresses of the calls.
    """
    left = {at: tuple(part for part in bodies.get(at, ()) if part.kind != "tool_use") for at in gone}
    return {**bodies, **left}


def is_emptied(history: History, i: int, gone: AbstractSet[int]) -> bool:
    """Return whether nothing is left of a message without these calls. A bare text stays, even an empty one.

    Args:
        history: The messages.
        i: The number of the message.
        gone: Addresses of its calls that are removed.
    """
    return all(block.at in gone or (block.raw is None) for block in history.get_blocks(i))


def find_recent(history: History, turns: int = 2, cap: int | None = None, counts: Column[int] | None = None) -> tuple[int, int]:
    """Return where the last `turns` begin, and how many they are; (length, 0) if there are none.

    A turn begins with a human message.

    Older turns are added whole, and only while all of them have at most `cap` tokens. The newest turn always stays.

    Args:
        history: The messages.
        turns: How many turns at most; 0 or less = none.
        cap: Tokens that they may have together; None = any number.
        counts: Tokens of each message. Without them `cap` has no effect.
    """
    starts = history.list_turns
    if not starts or turns <= 0:
        return len(history), 0
    first, there = len(starts) - 1, len(history)
    while first > 0 and len(starts) - first < turns:
        if cap is not None and counts is not None and sum_between(counts, starts[first - 1], there) > cap:
            break
        first -= 1
    return starts[first], len(starts) - first


class Trigger(Struct, frozen=True, gc=False):
    """When dropped messages are summarised. `kind`: token_ratio, remaining_tokens or messages_to_refine; any other = never."""

    kind: str
    value: float | None = None


def is_triggered(trigger: Trigger | None, refine: int, limit: int | None, tokens: int | None, remaining: int | None) -> bool:
    """Return whether to summarise now.

    Args:
        trigger: The configured trigger.
        refine: How many messages are dropped.
        limit: The limit in tokens.
        tokens: Tokens before they are dropped.
        remaining: Tokens that are free.
    """
    if refine <= 0:
        return False
    if trigger is None:
        return True
    if trigger.value is None:
        return False
    left = limit - tokens if limit is not None and limit > 0 and tokens is not None else remaining
    if trigger.kind == "token_ratio":
        return limit is not None and limit > 0 and left is not None and 1 - left / limit >= trigger.value
    if trigger.kind == "remaining_tokens":
        return left is not None and left <= trigger.value
    return trigger.kind == "messages_to_refine" and refine >= trigger.value
