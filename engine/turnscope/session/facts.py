"""Recorded facts of a session: adding some, finding one, reading those that older versions kept. Their types are in `model`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from turnscope.session.model import Answer, Answered, Counted, Edit, Fact, Part, Rated, Recorded, Wish, Wished

_NUMBER = "([0-9]{1,15})"
_COUNT = re.compile(f"count:{_NUMBER}:{_NUMBER}")
_WISHES = re.compile(f"by-hand:{_NUMBER}")
_RATING = re.compile(r"rating:([0-9a-f]+)")


def plain(edit: Edit) -> Edit:
    """An edit that can be stored: a port's own parts may make their text only when it is read, and msgspec would not."""
    if all(type(part) is Part for part in edit.body or ()):
        return edit
    return replace(edit, body=tuple(Part(p.role, p.kind, p.text, p.raw, p.ref, p.place, p.fence) for p in edit.body or ()))


def noted(recorded: Recorded, *facts: Fact) -> Recorded:
    """What is recorded once these facts are, too: of two about the same, the later one holds."""
    answers, counts = dict(recorded.answers), dict(recorded.counts)
    wishes, ratings = dict(recorded.wishes), dict(recorded.ratings)
    for fact in facts:
        match fact:
            case Answered(key, answer):
                answers[key] = answer
            case Counted(request, seen):
                counts[request] = (*(known for known in counts.get(request, ()) if known.seen != seen), fact)
            case Wished(request, wished):
                wishes[request] = wished
            case Rated(digest, rating):
                ratings[digest] = rating
    return Recorded(answers, counts, wishes, ratings)


def count_of(recorded: Recorded, request: int, seen: int) -> Counted | None:
    """The provider's count of a request's prompt of which `seen` tokens were counted here."""
    return next((known for known in recorded.counts.get(request, ()) if known.seen == seen), None)


def typed(answers: Mapping[str, Answer]) -> Iterator[Fact]:
    """The facts that versions before these types kept as answers under keys of their own, with JSON inside."""
    for key, answer in answers.items():
        if (found := _COUNT.fullmatch(key)) and re.fullmatch(_NUMBER, answer.text):
            yield Counted(int(found[1]), int(found[2]), int(answer.text), answer.model)
        elif found := _WISHES.fullmatch(key):
            yield Wished(int(found[1]), tuple(msgspec.json.decode(item, type=Wish) for item in answer.items))
        elif found := _RATING.fullmatch(key):
            yield Rated(found[1], answer.text)
        else:
            yield Answered(key, answer)
