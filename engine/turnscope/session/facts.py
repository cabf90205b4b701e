"""Recorded facts of a session: add some, find one, read those of older versions. Their types are in `model`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from turnscope.session.model import Answer, AnswerFact, CountFact, Edit, Fact, Part, RatingFact, RecordedFacts, Wish, WishFact

_NUMBER = "([0-9]{1,15})"
_COUNT = re.compile(f"count:{_NUMBER}:{_NUMBER}")
_WISHES = re.compile(f"by-hand:{_NUMBER}")
_RATING = re.compile(r"rating:([0-9a-f]+)")


def make_storable(edit: Edit) -> Edit:
    """Make an edit that msgspec can store. The parts of a port may make their text only when it is read."""
    if all(type(part) is Part for part in edit.body or ()):
        return edit
    return replace(edit, body=tuple(Part(p.role, p.kind, p.text, p.raw, p.ref, p.place, p.fence) for p in edit.body or ()))


def add_facts(recorded: RecordedFacts, *facts: Fact) -> RecordedFacts:
    """Add facts to those recorded. Of two facts about the same thing, the later one holds.

    Args:
        recorded: The facts so far. They are not changed.
        *facts: New facts, oldest first.
    """
    answers, counts = dict(recorded.answers), dict(recorded.counts)
    wishes, ratings = dict(recorded.wishes), dict(recorded.ratings)
    for fact in facts:
        match fact:
            case AnswerFact(key, answer):
                answers[key] = answer
            case CountFact(request, seen):
                counts[request] = (*(known for known in counts.get(request, ()) if known.seen != seen), fact)
            case WishFact(request, wished):
                wishes[request] = wished
            case RatingFact(digest, rating):
                ratings[digest] = rating
    return RecordedFacts(answers, counts, wishes, ratings)


def find_count(recorded: RecordedFacts, request: int, seen: int) -> CountFact | None:
    """Find the provider's count of a prompt.

    Args:
        recorded: The facts of a session.
        request: Number of the request.
        seen: Tokens that were counted here for the same prompt, in the ledger's units.
    """
    return next((known for known in recorded.counts.get(request, ()) if known.seen == seen), None)


def convert_old_answers(answers: Mapping[str, Answer]) -> Iterator[Fact]:
    """Convert facts that versions before these types kept as answers, under keys of their own with JSON inside."""
    for key, answer in answers.items():
        if (found := _COUNT.fullmatch(key)) and re.fullmatch(_NUMBER, answer.text):
            yield CountFact(int(found[1]), int(found[2]), int(answer.text), answer.model)
        elif found := _WISHES.fullmatch(key):
            yield WishFact(int(found[1]), tuple(msgspec.json.decode(item, type=Wish) for item in answer.items))
        elif found := _RATING.fullmatch(key):
            yield RatingFact(found[1], answer.text)
        else:
            yield AnswerFact(key, answer)
