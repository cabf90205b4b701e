"""What LibreChat's agents shorten while a task runs: answered results, results and arguments by pressure, old results by age.

Pure functions over a `History` and what is `Held` of it: counts and shortened texts, which stay shortened. Ported from
`maskConsumedToolResults`, `preFlightTruncateToolResults`, `preFlightTruncateToolCallInputs` and `applyContextPruning`
(@librechat/agents 3.6.11). Results that hold anything but text are not shortened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from engine.model import JSON
from engine.ports.librechat_counts import Column
from engine.ports.librechat_cuts import ByPosition, args_cap, compact, enveloped, faded, masked, narrow, result_cap, shortened, trimmed
from engine.ports.librechat_history import Bodies, History


def _none(_values: Iterable[object]) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Held:
    """Per message its tokens; per result its length and, once shortened, its text; per answer the longest arguments and, once
    shortened, all that are."""

    counts: Column[int] = Column(sum)
    lengths: Column[int] = Column(max)
    texts: Column[str | None] = Column(_none)
    longest: Column[int] = Column(max)
    inputs: Column[Mapping[int, JSON] | None] = Column(_none)

    def bodies(self, history: History, i: int) -> Bodies:
        """What stands for a message's blocks where it was shortened."""
        role = history.role(i)
        if role == "tool":
            text = self.texts[history.tool_number(i)]
            return history.with_text(i, narrow(text)) if text is not None else {}
        inputs = self.inputs[history.answer_number(i)] if role == "ai" else None
        return history.with_inputs(i, inputs) if inputs else {}


def met(history: History, held: Held, counts: Iterable[int]) -> Held:
    """With messages that are new, which have `counts`."""
    results = range(len(held.lengths), history.tools)
    answers = range(len(held.longest), history.answers)
    return Held(
        held.counts.extended(counts),
        held.lengths.extended(len(history.result(history.tool(j))[0] or "") for j in results),
        held.texts.extended(None for _ in results),
        held.longest.extended(_longest(history, history.answer(j), {}) for j in answers),
        held.inputs.extended(None for _ in answers),
    )


def _longest(history: History, i: int, inputs: Mapping[int, JSON]) -> int:
    calls = history.calls(i)
    return max((len(compact(inputs.get(b.at, b.raw.get("input")))) for b in calls), default=0)


Faded = tuple[Held, list[int]]
"""What is held afterwards, and the numbers of the messages that changed."""


def mask_answered(history: History, held: Held, budget: int | None) -> Faded:
    """Results that an ai message with text follows share a `budget` of tokens (4 characters each), the newer the more."""
    count, characters = history.answered, max(0, budget or 0) * 4
    return _cut(history, held, masked(0, count, characters), count, lambda j: masked(j, count, characters))


def fade_results(history: History, held: Held, tokens: int) -> Faded:
    """Each result gets its share of what one result may have in a window of `tokens`."""
    count, cap = history.tools, result_cap(tokens)
    return _cut(history, held, faded(0, count, cap), count, lambda j: faded(j, count, cap))


def cut_results(history: History, held: Held, limit: int) -> Faded:
    """No result is longer than `limit` characters."""
    return _cut(history, held, limit, history.tools, lambda j: limit)


def _cut(history: History, held: Held, least: int, count: int, cap: Callable[[int], int]) -> Faded:
    """Cut results that are longer than their cap; `least` is the lowest of the caps."""
    texts = {j: _shorter(history, held, j, cap(j)) for j, length in held.lengths.above(least, count) if length > cap(j)}
    return _with_texts(history, held, texts)


def _shorter(history: History, held: Held, j: int, limit: int) -> str:
    text = held.texts[j]
    if text is not None:
        return shortened(text, limit)
    said, listed = history.result(history.tool(j))
    if not listed:
        return shortened(said or "", limit)
    mark = f"\n\n… [shortened: {len(said or '')} characters, allowed: {limit}] …"
    return ((said or "")[: max(0, limit - len(mark))] + mark)[:limit]


def _with_texts(history: History, held: Held, texts: Mapping[int, str]) -> Faded:
    if not texts:
        return held, []
    rows = {j: history.tool(j) for j in texts}
    counts = {i: history.counted(history.parts(i, history.with_text(i, narrow(texts[j])))) for j, i in rows.items()}
    lengths = {j: len(text) for j, text in texts.items()}
    new = replace(
        held, counts=held.counts.replaced(counts), lengths=held.lengths.replaced(lengths), texts=held.texts.replaced(texts)
    )
    return new, list(rows.values())


def fade_args(history: History, held: Held, tokens: int) -> Faded:
    """No call's arguments exceed what they may have in a window of `tokens`."""
    return cut_args(history, held, args_cap(tokens))


def cut_args(history: History, held: Held, limit: int) -> Faded:
    """No call's arguments are longer than `limit` characters of JSON."""
    inputs: dict[int, Mapping[int, JSON] | None] = {}
    for j, length in held.longest.above(limit, history.answers):
        if length > limit:
            known = dict(held.inputs[j] or {})
            for block in history.calls(history.answer(j)):
                new, changed = enveloped(known.get(block.at, block.raw.get("input")), limit)
                known |= {block.at: new} if changed else {}
            inputs[j] = known
    if not inputs:
        return held, []
    rows = {j: history.answer(j) for j in inputs}
    counts = {i: history.counted(history.parts(i, history.with_inputs(i, inputs[j] or {}))) for j, i in rows.items()}
    longest = {j: _longest(history, i, inputs[j] or {}) for j, i in rows.items()}
    new_held = replace(
        held, counts=held.counts.replaced(counts), longest=held.longest.replaced(longest), inputs=held.inputs.replaced(inputs)
    )
    return new_held, list(rows.values())


def trim_by_position(history: History, held: Held, settings: ByPosition) -> Faded:
    """Old results lose their middle, older ones all of their text; the last assistant turns are left alone."""
    humans, total, texts = history.turns, len(history), dict[int, str]()
    if not settings.by_age or not humans:
        return held, []
    protected = _protected(history, settings.keep_turns)
    least = settings.min_chars - 1
    for j, length in held.lengths.above(least, history.tools):
        i = history.tool(j)
        age = (total - i) / total
        if length <= least or i < humans[0] or i >= protected or history.result(i)[0] is None:
            continue
        if age >= settings.clear_from and settings.clear:
            texts[j] = settings.cleared
        elif age >= settings.trim_from and length > settings.max_chars:
            texts[j] = trimmed(held.texts[j] or history.result(i)[0] or "", settings)
    return _with_texts(history, held, texts)


def _protected(history: History, turns: int) -> int:
    """The first message of the last assistant turns: runs of ai and tool messages, with what stands between them."""
    breaks = history.reading.breaks
    i, found = len(history), 0
    while i > 0:
        place = bisect_right(breaks, history.since + i - 1)
        last = breaks[place - 1] - history.since if place else -1
        if last < i - 1 and last >= 0:
            found += 1
            if found >= turns:
                return last + 1
        i = last if last >= 0 else 0
    return 0
