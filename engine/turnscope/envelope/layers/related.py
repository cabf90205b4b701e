"""Which conversations name what: from an entity to those that speak of it, and from a text to those that share most with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from turnscope.envelope.layers.conversations import Split, current, memo, prompt_at, span_of
from turnscope.envelope.layers.trio import told_of
from turnscope.envelope.layers.words import About, about
from turnscope.envelope.rule import Ctx
from turnscope.session.index import upto
from turnscope.session.model import Ask

LEARNED = Ask("rank", "learned:retrieved", "", "what this project's sessions look up again")
NAMES = 20  # of those names that count
FAR = 32  # conversations that are looked up for one word, the newest
ENTITY, CONCEPT = 3, 1  # what it is worth that two share one


def read(items: Sequence[str]) -> dict[str, int]:
    """What was learned, of the items `times name` of an answer."""
    rows = (item.partition(" ") for item in items)
    return {name: int(times) for times, _, name in rows if times.isdecimal() and name}


def asked(ctx: Ctx, split: Split) -> About:
    """What the prompts of the conversation under way name."""
    known, start = memo(ctx), span_of(ctx, split, current(ctx, split)).start
    turn = upto(ctx.index.turns, ctx.request.cut) - 1
    at = max(start, ctx.index.turns[turn]) if turn >= 0 else start
    if ("asked", at) not in known:
        known["asked", at] = about(prompt_at(ctx, at))
    found: About = known["asked", at]
    return found


def mentions(ctx: Ctx, split: Split) -> Mapping[str, list[int]]:
    """By entity and word: the numbers of the conversations that name it, rising; maybe of some that are not over yet."""
    known, key = memo(ctx), ("mentions", split.split, split.gap, split.part_over, id(ctx.own))
    index, done = known.setdefault(key, ({}, [0]))
    while done[0] < current(ctx, split):
        named = told_of(ctx, split, done[0]).named
        for word in dict.fromkeys((*named.entities, *named.concepts)):
            index.setdefault(word, []).append(done[0])
        done[0] += 1
    found: Mapping[str, list[int]] = index
    return found


def naming(ctx: Ctx, split: Split, word: str) -> list[int]:
    """The conversations that are over and name an entity, rising; of many the newest."""
    numbers = mentions(ctx, split).get(word, [])
    stop = upto(numbers, current(ctx, split))
    return numbers[max(0, stop - FAR) : stop]


def related(ctx: Ctx, split: Split, learned: Mapping[str, int] = MappingProxyType({})) -> Iterator[tuple[int, int]]:
    """Conversations that share something with the prompt, and how much: most first, of equals the newest.

    `learned`: names that earlier sessions looked up again, and how often; they count as if the prompt shared a word or more.
    """
    wanted, score = asked(ctx, split), dict[int, int]()
    worth = {name: min(times, ENTITY) for name, times in [*learned.items()][:NAMES]}
    worth |= dict.fromkeys(wanted.concepts, CONCEPT) | dict.fromkeys(wanted.entities, ENTITY)
    for word, value in worth.items():
        for number in naming(ctx, split, word):
            score[number] = score.get(number, 0) + value
    yield from sorted(score.items(), key=lambda item: (-item[1], -item[0]))
