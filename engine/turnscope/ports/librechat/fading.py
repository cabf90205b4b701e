"""What LibreChat's agents shorten while a task runs: answered results, results and arguments as the window fills, old results.

Pure functions over a `History` and what is `Held` of it: counts and shortened texts. A shortened text stays shortened.
Ported from `maskConsumedToolResults`, `preFlightTruncateToolResults`, `preFlightTruncateToolCallInputs` and
`applyContextPruning` (@librechat/agents 3.6.11). Results that hold anything but text are not shortened.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field, structs

from turnscope.ports.librechat.counts import CHUNK, Column, iter_above
from turnscope.ports.librechat.cuts import (
    ByPosition,
    build_masks,
    compute_arguments_cap,
    compute_faded_cap,
    compute_result_cap,
    envelope_arguments,
    find_list_middle,
    find_middle,
    narrow_text,
    pack,
    pack_cut,
    shorten,
    trim,
    unpack,
    widen,
)
from turnscope.ports.librechat.history import Bodies, Cut, History, measure_longest_input, replace_content
from turnscope.session.model import Part


class Held(Struct, frozen=True, gc=False):
    """What is known of the messages so far.

    Per message its tokens; per result its length and, if shortened, its text (packed); per answer its longest arguments and,
    if shortened, all shortened arguments (as JSON, by address of the call).
    """

    counts: Column[int] = field(default_factory=lambda: Column("sum"))
    lengths: Column[int] = field(default_factory=lambda: Column("max"))
    texts: Column[bytes | None] = field(default_factory=lambda: Column("held"))
    longest: Column[int] = field(default_factory=lambda: Column("max"))
    inputs: Column[Mapping[int, str] | None] = field(default_factory=lambda: Column("held"))

    def get_text(self, history: History, j: int) -> str | None:
        """Return the shortened text of result `j`, wide; None if it was not shortened.

        Args:
            history: The messages.
            j: The number of the result among the tool messages, from 0.
        """
        text = self.texts[j]
        return None if text is None else unpack(text, history.get_result_by_number(history.first_tool + j)[1])

    def get_bodies(self, history: History, i: int) -> Bodies:
        """Return the placeholders of a message's shortened blocks.

        Args:
            history: The messages.
            i: The number of the message.
        """
        role = history.get_role(i)
        if role == "tool":
            j = history.count_tools_before(i)
            text = self.texts[j]
            return history.replace_text(i, text, self.lengths[j]) if text is not None else {}
        inputs = self.inputs[history.count_answers_before(i)] if role == "ai" else None
        return history.replace_inputs({at: json.loads(arguments) for at, arguments in inputs.items()}) if inputs else {}


def iter_shortened(history: History, held: Held) -> Iterator[int]:
    """Yield the numbers of the messages that were shortened.

    Args:
        history: The messages.
        held: What is known of them.
    """
    for column, place in ((held.texts, history.get_tool), (held.inputs, history.get_answer)):
        for number in column.find_above(0):
            chunk = column.chunks[number]
            yield from (place(j) for j, value in enumerate(chunk, number * CHUNK) if value is not None)


def add_new_messages(history: History, held: Held, counts: Iterable[int]) -> Held:
    """Add new messages.

    Args:
        history: The messages, with the new ones at the end.
        held: What is known of the messages before them.
        counts: Tokens of each new message.
    """
    known, answers = history.first_tool, history.first_answer
    lengths = history.reading.lengths[known + len(held.lengths) : known + history.tools]
    longest = history.reading.longest[answers + len(held.longest) : answers + history.answers]
    return Held(
        counts=held.counts.extend(counts),
        lengths=held.lengths.extend(lengths),
        texts=held.texts.extend([None] * len(lengths)),
        longest=held.longest.extend(longest),
        inputs=held.inputs.extend([None] * len(longest)),
    )


def begin_held(history: History, count: int) -> Held:
    """Return what is known of the first `count` messages, as the host counts them.

    It is read once for all runs that begin there.

    Args:
        history: The messages.
        count: How many of them.
    """
    since, reading = history.since, history.reading
    if since not in history.whole:
        every = structs.replace(history, there=len(reading.rows))
        history.whole[since] = add_new_messages(every, Held(), history.host[since:])
    first = history.whole[since]
    results = bisect_left(reading.tools, since + count) - history.first_tool
    answers = bisect_left(reading.answers, since + count) - history.first_answer
    return Held(
        counts=first.counts.take(count),
        lengths=first.lengths.take(results),
        texts=first.texts.take(results),
        longest=first.longest.take(answers),
        inputs=first.inputs.take(answers),
    )


Faded = tuple[Held, list[int]]
"""What is held afterwards, and the numbers of the messages that changed."""


def mask_answered(history: History, held: Held, budget: int | None) -> Faded:
    """Shorten answered results (an ai message with text follows them). Newer ones keep more.

    Args:
        history: The messages.
        held: What is known of them.
        budget: Tokens for all of these results, at 4 characters each.
    """
    count, characters = history.results_before_text, max(0, budget or 0) * 4
    return _cut(history, held, count, build_masks(count, characters))


def fade_results(history: History, held: Held, tokens: int) -> Faded:
    """Shorten each result to its share of what one result may have in a window of `tokens`.

    Args:
        history: The messages.
        held: What is known of them.
        tokens: Tokens of the window that the messages share.
    """
    count, cap = history.tools, compute_result_cap(tokens)
    return _cut(history, held, count, lambda j: compute_faded_cap(j, count, cap))


def cut_results(history: History, held: Held, limit: int) -> Faded:
    """Shorten results to at most `limit` characters.

    Args:
        history: The messages.
        held: What is known of them.
        limit: UTF-16 units of each result.
    """
    return _cut(history, held, history.tools, lambda _place: limit)


def _cut(history: History, held: Held, count: int, cap: Callable[[int], int]) -> Faded:
    """Cut results that are longer than their cap. Caps must not fall from a result to the next newer one."""
    memo, tools, first, cuts = history.memo, history.reading.tools, history.first_tool, dict[int, Cut]()
    made: list[tuple[int, int, bytes | None, bytes, int]] = []
    parts: list[Part] = []
    for j, limit in iter_above(held.lengths, cap, count):
        text = held.texts[j]
        known = memo.get((tools[first + j], text is None))
        if known and known[1] == limit and known[0] == text:
            cuts[j] = known[2]  # another request cut it in the same way
            continue
        block, whole, listed = history.get_result_by_number(first + j)
        if text is None:
            end, mark, start = (find_list_middle if listed else find_middle)(whole, limit)
            new = whole[:end] + mark + whole[start:]
            packed = pack_cut(whole, (end, mark, start))
        else:
            new = shorten(unpack(text, whole), limit)
            packed = pack(new, whole)
        made.append((j, limit, text, packed, len(new)))
        parts.append(
            replace_content(block, new if whole.isascii() else narrow_text(new))
        )  # its marks hold no halves of surrogate pairs
    for (j, limit, text, packed, length), tokens in zip(made, history.count_each(parts), strict=True):
        cuts[j] = Cut(packed, length, tokens)
        memo[tools[first + j], text is None] = (text, limit, cuts[j])
    return _store_texts(history, held, cuts)


def _count_cuts(history: History, texts: Mapping[int, str]) -> dict[int, Cut]:
    """Count results with new texts together."""
    wholes = [history.get_result_by_number(history.first_tool + j)[:2] for j in texts]
    parts = [replace_content(block, narrow_text(text)) for (block, _), text in zip(wholes, texts.values(), strict=True)]
    tokens = history.count_each(parts)
    return {
        j: Cut(pack(text, whole), len(text), n) for (j, text), (_, whole), n in zip(texts.items(), wholes, tokens, strict=True)
    }


def _store_texts(history: History, held: Held, cuts: Mapping[int, Cut]) -> Faded:
    if not cuts:
        return held, []
    numbers = [history.get_tool(j) for j in cuts]
    new = structs.replace(
        held,
        counts=held.counts.replace({i: cut.tokens for i, cut in zip(numbers, cuts.values(), strict=True)}),
        lengths=held.lengths.replace({j: cut.length for j, cut in cuts.items()}),
        texts=held.texts.replace({j: cut.text for j, cut in cuts.items()}),
    )
    return new, numbers


def fade_args(history: History, held: Held, tokens: int) -> Faded:
    """Shorten the arguments of calls to what they may have in a window of `tokens`.

    Args:
        history: The messages.
        held: What is known of them.
        tokens: Tokens of the window that the messages share.
    """
    return cut_args(history, held, compute_arguments_cap(tokens))


def cut_args(history: History, held: Held, limit: int) -> Faded:
    """Shorten the arguments of calls to at most `limit` characters of JSON.

    Args:
        history: The messages.
        held: What is known of them.
        limit: UTF-16 units of JSON of each call's arguments.
    """
    inputs: dict[int, Mapping[int, str] | None] = {}
    counts: dict[int, int] = {}
    longest: dict[int, int] = {}
    for j, _ in iter_above(held.longest, lambda _place: limit, history.answers):
        i = history.get_answer(j)
        known = {at: json.loads(arguments) for at, arguments in (held.inputs[j] or {}).items()}
        for block in history.list_calls(i):
            new, changed = envelope_arguments(known.get(block.at, block.raw.get("input")), limit)
            known |= {block.at: new} if changed else {}
        inputs[j] = {at: json.dumps(arguments) for at, arguments in known.items()}
        counts[i] = history.count_parts(history.build_parts(i, history.replace_inputs(known)))
        longest[j] = measure_longest_input(history.get_blocks(i), known)
    if not inputs:
        return held, []
    new_held = structs.replace(
        held, counts=held.counts.replace(counts), longest=held.longest.replace(longest), inputs=held.inputs.replace(inputs)
    )
    return new_held, list(counts)


def trim_by_position(history: History, held: Held, settings: ByPosition) -> Faded:
    """Cut the middle out of old results, and the whole text out of older ones. The last assistant turns are not changed.

    Args:
        history: The messages.
        held: What is known of them.
        settings: From which age and length on results are cut or cleared, and what stays.
    """
    humans, total, texts = history.list_turns, len(history), dict[int, str]()
    if not settings.by_age or not humans:
        return held, []
    protected = _find_protected(history, settings.keep_turns)
    least = settings.min_chars - 1
    for j, _ in iter_above(held.lengths, lambda _place: least, history.tools):
        i = history.get_tool(j)
        age = (total - i) / total
        text = held.get_text(history, j)
        whole = history.get_result(i)[0] if text is None else text
        if i < humans[0] or i >= protected or whole is None:
            continue
        if age >= settings.clear_from and settings.clear:
            texts[j] = widen(settings.cleared)
        elif age >= settings.trim_from and len(whole) > settings.max_chars:
            texts[j] = trim(whole, settings)
    return _store_texts(history, held, _count_cuts(history, texts))


def _find_protected(history: History, turns: int) -> int:
    """Return the first message of the last assistant turns: runs of ai and tool messages, with what lies between them."""
    breaks = history.reading.breaks
    i, found = len(history), 0
    while i > 0:
        place = bisect_right(breaks, history.since + i - 1)
        last = breaks[place - 1] - history.since if place else -1
        if last < i - 1 and last >= 0:
            found += 1
            if found >= turns:
                return last + 1
        i = max(last, 0)
    return 0
