"""Cline SDK's basic compaction, where one follows another: what it takes of each message is measured once.

Pure. `Chooser.choose` gives the messages that `basic.compact` leaves, for transcripts of which each compaction keeps what the
one before it left. Each message is read once there, and a compaction works on numbers alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from turnscope.ports.cline_sdk import basic
from turnscope.ports.cline_sdk.messages import (
    Message,
    count_tokens,
    count_units,
    estimate_tokens,
    is_typed,
    list_blocks,
    measure,
)
from turnscope.ports.cline_sdk.projection import LEAST, UNSAFE

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_LONGER = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')  # what takes more than one unit in JSON
_ONE_MORE = re.compile(r"[^\x00-\x1f]|[\b\f\n\r\t]")  # what of that takes two; anything else six
_MARK = len("\n...[truncated  chars]")
_POWERS = 10 ** np.arange(18)


class Texts(NamedTuple):
    """Lengths of texts, and the places in all of them, one behind the other, where a character takes more than one unit."""

    units: Numbers
    characters: Numbers
    json: Numbers  # units of their JSON, without quotation marks
    places: Numbers
    more: Numbers  # how many more units of JSON the character there takes
    length: int  # characters of all


def _measure_texts(texts: Sequence[str]) -> Texts:
    joined = "".join(texts)
    found = [(match.start(), 1 if _ONE_MORE.match(match[0]) else 5) for match in _LONGER.finditer(joined)]
    places, more = np.array(found, np.int64).reshape(-1, 2).T
    characters = np.array([len(text) for text in texts], np.int64)
    units = np.array([count_units(text) for text in texts], np.int64)
    sums, ends = np.append(0, np.cumsum(more)), np.append(0, np.cumsum(characters))
    return Texts(units, characters, characters + np.diff(sums[np.searchsorted(places, ends)]), places, more, len(joined))


class Form:
    """A message as a projection may leave it. `before`: as it was stored."""

    def __init__(self, before: Message, message: Message) -> None:
        self.before, self.message = before, message

    @cached_property
    def size(self) -> int:
        """Characters of its JSON."""
        return measure(self.message)

    @cached_property
    def tokens(self) -> int:
        """Its estimated tokens."""
        return estimate_tokens(self.size)

    @cached_property
    def texts(self) -> Texts:
        """The texts in it that may be shortened."""
        return _measure_texts([*_iter_texts(list_blocks(self.message))])

    @cached_property
    def lost(self) -> tuple[int, ...]:
        """Numbers of the blocks that were stored and are not left, by their types."""
        lost, left = [], iter(self.message["content"])
        following = next(left, None)
        for number, block in enumerate(self.before["content"]):
            if following is not None and block.get("type") == following.get("type"):
                following = next(left, None)
            else:
                lost.append(number)
        return tuple(lost)


class Measured:
    """A message of a transcript, and what compactions ask of it.

    Attributes:
        message: The message, with blocks.
        old: Whether an earlier compaction left it.
        about: What the caller knows of it.
        before: The message as it is stored.
        typed: Whether the user typed it.
        kept: What stays of it whatever the room; None = nothing.
    """

    def __init__(self, message: Message, old: bool, about: Any = None, before: Message | None = None) -> None:
        self.message, self.old, self.about, self.before = message, old, about, before or message
        self.typed = is_typed(message)
        self.kept = basic.trim(message) if self.typed else message if old else None

    @cached_property
    def tokens(self) -> int:
        """Its estimated tokens."""
        return count_tokens(self.message)

    @cached_property
    def used(self) -> int:
        """Tokens that it takes whatever the room, without what was attached to it."""
        return self._count_kept(attached=not self.typed)

    @cached_property
    def used_by_newest(self) -> int:
        """Tokens that it takes as the newest prompt."""
        return self._count_kept(attached=True)

    def _count_kept(self, attached: bool) -> int:
        return count_tokens({**self.kept, "content": basic.list_attached(self.kept, attached)}) if self.kept else 0

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """Ids of its calls."""
        return tuple(block["id"] for block in list_blocks(self.message) if block["type"] == "tool_use")

    @cached_property
    def results(self) -> tuple[str, ...]:
        """Ids of the calls that it answers."""
        return tuple(block["tool_use_id"] for block in list_blocks(self.message) if block["type"] == "tool_result")

    @cached_property
    def answer(self) -> Measured | None:
        """It as the last answer of a turn; None if it says nothing."""
        message = basic.strip_thinking(self.message)
        return Measured(message, False, self.about, self.before) if message else None

    @cached_property
    def bare(self) -> Form | None:
        """It without thinking; None if nothing is left."""
        message = _strip(self.kept or self.message, ("thinking",), inside=False)
        return Form(self.before, message) if message["content"] else None

    @cached_property
    def plain(self) -> Form | None:
        """It without thinking and media; None if nothing is left."""
        message = _strip(self.bare.message, UNSAFE, inside=True) if self.bare else None
        if message is None or not message["content"]:
            return None
        return self.bare if self.bare and message is self.bare.message else Form(self.before, message)

    @cached_property
    def projected(self) -> int:
        """Tokens of what is left of it without thinking and media."""
        return self.plain.tokens if self.plain else 0

    @property
    def is_bound(self) -> bool:
        """Whether it holds calls or results."""
        return bool(self.calls or self.results)

    @property
    def is_steady(self) -> bool:
        """Whether a compaction leaves it as it is, as long as there is room."""
        return bool(self.kept and self.plain and not self.plain.lost)


class Earlier(NamedTuple):
    """What an earlier compaction left, and sums over it."""

    items: list[Measured]
    messages: list[Message]
    plain: list[Form | None]
    prompts: list[int]
    bound: list[int]  # messages with calls or results
    unsteady: list[int]  # messages that the next compaction may change
    tokens: int
    used: int
    projected: int  # tokens of the plain forms

    def replace(self, start: int, items: Sequence[Measured]) -> Earlier:
        """Return it with other messages from a number on.

        Args:
            start: The number.
            items: The messages.
        """
        gone, numbered = self.items[start:], [*enumerate(items, start)]
        return Earlier(
            [*self.items[:start], *items],
            [*self.messages[:start], *(item.message for item in items)],
            [*self.plain[:start], *(item.plain for item in items)],
            [*_take_below(self.prompts, start), *(n for n, item in numbered if item.typed)],
            [*_take_below(self.bound, start), *(n for n, item in numbered if item.is_bound)],
            [*_take_below(self.unsteady, start), *(n for n, item in numbered if not item.is_steady)],
            self.tokens + sum(item.tokens for item in items) - sum(item.tokens for item in gone),
            self.used + sum(item.used for item in items) - sum(item.used for item in gone),
            self.projected + sum(item.projected for item in items) - sum(item.projected for item in gone),
        )


NOTHING = Earlier([], [], [], [], [], [], 0, 0, 0)


def _take_below(numbers: list[int], stop: int) -> list[int]:
    return numbers[: bisect_left(numbers, stop)]


class Choice(NamedTuple):
    """What a compaction leaves: numbers of messages and their forms; of the first `same`, nothing changes."""

    places: list[int]
    forms: list[Form]
    same: int


def _strip(message: Message, types: tuple[str, ...], inside: bool) -> Message:
    """A message without blocks of `types`; `inside`: and without images in results."""
    left = [_strip_result(block) if inside else block for block in message["content"] if block["type"] not in types]
    same = len(left) == len(message["content"]) and all(map(lambda a, b: a is b, left, message["content"]))
    return message if same else {**message, "content": left}


def _strip_result(block: Mapping[str, Any]) -> Mapping[str, Any]:
    content = block.get("content")
    if block["type"] != "tool_result" or not isinstance(content, list):
        return block
    left = [part for part in content if part.get("type") != "image"]
    return block if len(left) == len(content) else {**block, "content": left}


def _iter_texts(blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for block in blocks:
        name = {"text": "text", "file": "content", "tool_result": "content"}.get(block["type"], "")
        content = block.get(name)
        if isinstance(content, str):
            yield content
        elif block["type"] == "tool_result":
            yield from _iter_texts(content or ())


class Columns(NamedTuple):
    """Lengths of messages, and of all texts in them, one behind the other."""

    size: Numbers
    tokens: Numbers
    counts: Numbers  # texts of each message
    units: Numbers
    characters: Numbers
    json: Numbers
    places: Numbers
    more: Numbers


class Shortening:
    """What some messages take once each is shortened to its share of a budget.

    Attributes:
        forms: The messages.
        columns: Their lengths.
    """

    def __init__(self, forms: list[Form], columns: Columns) -> None:
        self.forms, self.columns = forms, columns
        self._saved: tuple[tuple[float, int], tuple[Numbers, int]] | None = None
        ends = _sum_up(columns.counts)
        self._unit_ends, self._json_ends, self._more = map(_sum_up, (columns.units, columns.json, columns.more))
        self._starts = _sum_up(columns.characters)
        self._first, self._end = self._unit_ends[ends[:-1]], self._unit_ends[ends[1:]]
        self._json_end = self._json_ends[ends[1:]]

    def follow(self, forms: list[Form]) -> Shortening:
        """Return the shortening of other messages. Where they begin with these, only the rest is read.

        Args:
            forms: The other messages.
        """
        count = len(self.forms)
        if forms[:count] != self.forms:
            return UNSHORTENED.follow(forms)
        texts = [form.texts for form in forms[count:]]
        shifts = accumulate((one.length for one in texts), initial=int(self.columns.characters.sum()))
        new = (
            [_list_numbers(form.size for form in forms[count:])],
            [_list_numbers(form.tokens for form in forms[count:])],
            [_list_numbers(len(one.units) for one in texts)],
            [one.units for one in texts],
            [one.characters for one in texts],
            [one.json for one in texts],
            [one.places + at for one, at in zip(texts, shifts, strict=False)],
            [one.more for one in texts],
        )
        return Shortening(forms, Columns(*(np.concatenate([old, *one]) for old, one in zip(self.columns, new, strict=True))))

    def save(self, target: float, count: int) -> tuple[Numbers, int]:
        """Return the tokens of each message once it is shortened, and how many that saves, up to where it saves most.

        Args:
            target: Tokens of the budget.
            count: Number of messages that share it.
        """
        if self._saved is None or self._saved[0] != (target, count):
            after = self._count_tokens(target, count)
            saved = np.cumsum((self.columns.tokens - after)[::-1])
            self._saved = (target, count), (after, int(saved.max(initial=0)))
        return self._saved[1]

    def _count_tokens(self, target: float, count: int) -> Numbers:
        """The tokens of each message once it is shortened, as `projection.shorten` does it."""
        shares = target * np.maximum(1, self.columns.size / np.maximum(1, self.columns.tokens)) / max(1, count)
        most = np.maximum(LEAST, np.floor(shares).astype(np.int64))
        long = np.flatnonzero(self._end - self._first > most)
        after = self.columns.tokens.copy()
        if not len(long):
            return after
        # The first text that does not fit is cut, and those behind it go.
        stops = self._first[long] + most[long]
        text = np.searchsorted(self._unit_ends[1:], stops, side="right")
        room, units = stops - self._unit_ends[text], self.columns.units[text]
        kept = np.where(room > LEAST, np.maximum(1, room - _MARK - _count_digits(units - room)), room)
        left = np.minimum(kept, self.columns.characters[text])
        starts = self._starts[text]
        json = left + self._sum_more(starts, starts + left)
        json += np.where(room > LEAST, _MARK + 1 + _count_digits(units - kept), 0)
        size = self.columns.size[long] - (self._json_end[long] - self._json_ends[text]) + json
        after[long] = np.maximum(1, -(-size // 3))
        return after

    def _sum_more(self, starts: Numbers, stops: Numbers) -> Numbers:
        return (
            self._more[np.searchsorted(self.columns.places, stops)] - self._more[np.searchsorted(self.columns.places, starts)]
        )


def _list_numbers(numbers: Iterable[int]) -> Numbers:
    return np.fromiter(numbers, np.int64)


def _sum_up(numbers: Numbers) -> Numbers:
    """Sums of the first 0, 1, 2, ... numbers."""
    return np.append(0, np.cumsum(numbers))


def _count_digits(numbers: Numbers) -> Numbers:
    return np.searchsorted(_POWERS, numbers, side="right")


UNSHORTENED = Shortening([], Columns(*[_list_numbers(())] * len(Columns._fields)))


class Chooser:
    """Chooses what stays at one compaction after the other; remembers what shortening would do to the same messages."""

    def __init__(self) -> None:
        self._known = UNSHORTENED

    def choose(self, earlier: Earlier, fresh: Sequence[Measured], target: float, trigger: float) -> Choice | None:
        """Choose what stays of a transcript; texts are not shortened in it. None if nothing can go.

        Args:
            earlier: What an earlier compaction left: prompts, and what stays.
            fresh: The messages behind it.
            target: Tokens that it may have afterwards.
            trigger: Tokens from which on it is compacted.
        """
        room, count = max(1, min(target, trigger)), len(earlier.items)
        items = [*earlier.items, *fresh]
        prompts = earlier.prompts + [n for n, item in enumerate(fresh, count) if item.typed]
        if len(items) < 2 or not any(items[n].kept for n in prompts):
            return None
        newest = items[prompts[-1]]
        used = earlier.used + sum(item.used for item in fresh) + newest.used_by_newest - newest.used
        start, used = _find_recent(items, prompts[-1], room, used)
        answers, used = _choose_answers(items, prompts, room, used)
        places = [*range(count)] if not earlier.unsteady else [n for n in range(count) if items[n].kept]
        known = len(places)
        places += [n for n in range(count, len(items)) if items[n].kept or n >= start or n in answers]
        chosen = [*earlier.items] if known == count else [items[n] for n in places[:known]]
        chosen += [answers.get(n) or items[n] for n in places[known:]]
        budget = min(max(room, used), max(1, trigger))
        return self._project(earlier, places, chosen, known, budget)

    def _project(self, earlier: Earlier, places: list[int], chosen: list[Measured], known: int, budget: float) -> Choice | None:
        """What `projection.project` leaves of messages, of which the first `known` are earlier ones."""
        count = len(earlier.items)
        forms = [*earlier.plain] if known == count else [item.plain for item in chosen[:known]]
        forms += [item.plain for item in chosen[known:]]
        total = earlier.projected if known == count else sum(item.projected for item in chosen[:known])
        total += sum(item.projected for item in chosen[known:])
        bound = earlier.bound if known == count else [n for n in range(known) if chosen[n].is_bound]
        tail = _find_live_tail(chosen, [*bound, *(n for n in range(known, len(chosen)) if chosen[n].is_bound)])
        last = next((n for n in range(len(chosen) - 1, -1, -1) if chosen[n].typed and chosen[n].bare), -1)
        for n in {last, *range(tail, len(chosen))} - {-1}:
            forms[n] = form = chosen[n].bare
            total += (form.tokens if form else 0) - chosen[n].projected
        if earlier.unsteady or not all(forms[known:]):
            there = [n for n, form in enumerate(forms) if form]
            places, chosen = [places[n] for n in there], [chosen[n] for n in there]
            last, tail = bisect_left(there, last) if last >= 0 else -1, bisect_left(there, tail)
        left = [form for form in forms if form]
        gone = self._find_dropped(chosen, left, last, tail, total, budget) if total > budget else set()
        if gone:
            places = [one for n, one in enumerate(places) if n not in gone]
            left = [one for n, one in enumerate(left) if n not in gone]
        if not left:
            return None
        return Choice(places, left, 0 if gone or earlier.unsteady else max(0, count - 1))

    def _find_dropped(
        self, chosen: Sequence[Measured], forms: list[Form], newest: int, tail: int, total: int, budget: float
    ) -> set[int]:
        """Shorten, newest first; where that is not enough, drop messages, oldest first, with their calls and results."""
        head = max(0, min(newest, tail))
        shortening = self._shorten(forms[:head] + forms[newest + 1 : tail])
        after, saved = shortening.save(budget, len(forms))
        if total - saved <= budget:
            return set()
        total -= int(shortening.columns.tokens.sum() - after.sum())
        tokens = dict(zip((*range(head), *range(newest + 1, tail)), after.tolist(), strict=True))
        first = next((n for n, item in enumerate(chosen) if item.typed), -1)
        ties, gone = dict[str, list[int]](), set[int]()
        for n in range(len(chosen)):
            for call in (*chosen[n].calls, *chosen[n].results):
                ties.setdefault(call, []).append(n)
        for n in range(len(chosen)):
            if total <= budget:
                break
            group = set[int]() if n in gone else _find_bound(chosen, ties, n)
            if group and group.isdisjoint((first, newest)) and max(group) < tail:
                gone |= group
                total -= sum(tokens[member] for member in group)
        return gone

    def _shorten(self, forms: list[Form]) -> Shortening:
        known = self._known
        if forms != known.forms:
            known = self._known = known.follow(forms)
        return known


def _find_recent(items: Sequence[Measured], newest: int, room: float, used: int) -> tuple[int, int]:
    """The number from which on the newest work stays, and the tokens used with it."""
    start, taken = len(items), 0
    for i in range(len(items) - 1, newest, -1):
        if items[i].old or used + taken + items[i].tokens > room:
            break
        start, taken = i, taken + items[i].tokens
    while start < len(items) and items[start].message["role"] != "assistant":
        start += 1
    return start, used + sum(item.tokens for item in items[start:])


def _choose_answers(
    items: Sequence[Measured], prompts: Sequence[int], room: float, used: int
) -> tuple[dict[int, Measured], int]:
    """The last answers of turns that end before the newest prompt, newest first, as far as they fit; and the tokens used."""
    answers = dict[int, Measured]()
    for place in range(len(prompts) - 1, 0, -1):
        if items[prompts[place] - 1].old:
            break  # what an earlier compaction left stays as it is
        for i in range(prompts[place] - 1, prompts[place - 1], -1):
            if items[i].old:
                break
            if basic.is_answer(items[i].message):
                answer = items[i].answer
                if answer and used + answer.tokens <= room:
                    answers[i] = answer
                    used += answer.tokens
                break
    return answers, used


def _find_live_tail(chosen: Sequence[Measured], bound: Sequence[int]) -> int:
    """The number of the newest message with a call that has no result; the end if there is none."""
    calls = {call for n in bound for call in chosen[n].calls}
    unanswered = calls.difference(*(chosen[n].results for n in bound))
    if not unanswered:
        return len(chosen)
    return next(n for n in reversed(bound) if not unanswered.isdisjoint(chosen[n].calls))


def _find_bound(chosen: Sequence[Measured], ties: Mapping[str, Sequence[int]], at: int) -> set[int]:
    """A message and all messages that calls and results tie to it."""
    found, queue = {at}, [at]
    while queue:
        item = chosen[queue.pop()]
        new = {n for call in (*item.calls, *item.results) for n in ties[call]} - found
        found |= new
        queue += new
    return found
