"""Which conversations mention what: from a name to conversations, and from a prompt to the most related conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from turnscope.envelope.layers.conversations import Split, find_current, get_memo, get_span, read_prompt
from turnscope.envelope.layers.forms import get_metadata
from turnscope.envelope.layers.words import TextNames, find_names
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before
from turnscope.session.model import Ask

LEARNED = Ask("rank", "learned:retrieved", "", "what this project's sessions look up again")
NAMES = 20  # learned names that count
FAR = 32  # conversations per name, the newest
ENTITY, CONCEPT = 3, 1  # score of a shared entity, and of a shared concept


def parse_learned(items: Sequence[str]) -> dict[str, int]:
    """Return how often each name was looked up again, from items `times name` of an answer."""
    rows = (item.partition(" ") for item in items)
    return {name: int(times) for times, _, name in rows if times.isdecimal() and name}


def find_prompt_names(ctx: Ctx, split: Split) -> TextNames:
    """Return the names in the newest prompt of the current conversation.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    known, start = get_memo(ctx), get_span(ctx, split, find_current(ctx, split)).start
    turn = count_before(ctx.index.turns, ctx.request.cut) - 1
    at = max(start, ctx.index.turns[turn]) if turn >= 0 else start
    if ("prompt names", at) not in known:
        known["prompt names", at] = find_names(read_prompt(ctx, at))
    found: TextNames = known["prompt names", at]
    return found


def index_mentions(ctx: Ctx, split: Split) -> Mapping[str, list[int]]:
    """Return the conversations that mention a name, by name, in order. Current ones may be among them.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
    """
    known, key = get_memo(ctx), ("mentions", split.split, split.gap, split.part_over, id(ctx.own))
    index, done = known.setdefault(key, ({}, [0]))
    while done[0] < find_current(ctx, split):
        named = get_metadata(ctx, split, done[0]).names
        for word in dict.fromkeys((*named.entities, *named.concepts)):
            index.setdefault(word, []).append(done[0])
        done[0] += 1
    found: Mapping[str, list[int]] = index
    return found


def find_mentions(ctx: Ctx, split: Split, word: str) -> list[int]:
    """Return the completed conversations that mention a name, in order; of many the newest.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        word: The name.
    """
    numbers = index_mentions(ctx, split).get(word, [])
    stop = count_before(numbers, find_current(ctx, split))
    return numbers[max(0, stop - FAR) : stop]


def rank_related(ctx: Ctx, split: Split, learned: Mapping[str, int] = MappingProxyType({})) -> Iterator[tuple[int, int]]:
    """Yield related conversations and their scores: the highest score first, of equal ones the newest.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        learned: Names that earlier sessions looked up again, and how often. They count as if the prompt contained them.
    """
    wanted, score = find_prompt_names(ctx, split), dict[int, int]()
    worth = {name: min(times, ENTITY) for name, times in [*learned.items()][:NAMES]}
    worth |= dict.fromkeys(wanted.concepts, CONCEPT) | dict.fromkeys(wanted.entities, ENTITY)
    for word, value in worth.items():
        for number in find_mentions(ctx, split, word):
            score[number] = score.get(number, 0) + value
    yield from sorted(score.items(), key=lambda item: (-item[1], -item[0]))
