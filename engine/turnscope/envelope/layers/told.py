"""What is told of a conversation beside its full text: topic, entities, outcome, key points. Made by reading, asking nobody.

A function of the conversation's blocks alone, kept by their content: the same blocks give the same words in every session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from turnscope.envelope.conversation import path_in
from turnscope.envelope.layers.words import About, about, clipped, sentences, topic
from turnscope.session.content import text_of
from turnscope.session.model import Block

REMEMBERED = 8_192  # conversations whose reading is kept
LONG = 240  # characters of one sentence that are told
RESULT = 2_000  # characters of a failed result that are read
_CHANGES = re.compile(r"edit|write|replace|patch|create|insert|diff|update", re.IGNORECASE)
_DECIDES = re.compile(
    r"\b(decid\w+|cho(?:se|ose|sen)|agreed?|we'll|we will|let's|go(?:ing)? with|instead|settled|because|fix(?:ed|es)?|resolved|"
    r"conclu\w+|must|never|always|remember|root cause|works now|pass(?:es|ed)?)\b",
    re.IGNORECASE,
)
_FAILS = re.compile(r"rror|xception|[Ff]ail|FAIL|denied|not found|refused|cannot|[Tt]imeout|missing")
_OPEN = re.compile(r"\?(?:[\"')*`]*)$|\b(TODO|next step|remains?|still (?:needs?|open)|later|unresolved)\b", re.IGNORECASE)
_TELLS = re.compile(r"\d|\b[A-Z][A-Z\d_]{2,}\b|\bis\b")
_KNOWN: dict[bytes, Told] = {}

Outcome = Literal["completed", "ongoing", "error"]


class Told(Struct, frozen=True):
    """A conversation in few words. Lists hold the most telling first."""

    topic: tuple[str, ...] = ()
    named: About = About()
    outcome: Outcome = "completed"
    line: str = ""  # one sentence of what came out
    asked: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()  # sentences with names, numbers, ids
    decided: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    solved: tuple[str, ...] = ()  # problem -> solution
    said: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def told(blocks: Sequence[Block]) -> Told:
    """What is told of these blocks, which are whole: nothing of them is still to come."""
    key = blake2b("".join(f"{block.role[0]}{block.digest}" for block in blocks).encode(), digest_size=16).digest()
    found = _KNOWN.get(key)
    if found is None:
        found = _read(blocks)
        if len(_KNOWN) >= REMEMBERED:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _read(blocks: Sequence[Block]) -> Told:
    spoken = [block for block in blocks if block.kind == "text" and block.role in ("user", "assistant")]
    asked = [clipped(block.text) for block in spoken if block.role == "user"]
    answers = [clipped(block.text) for block in spoken if block.role == "assistant"]
    inputs = [(block.name, _input(block)) for block in blocks if block.kind == "tool_use"]
    failures, broken = _failures(blocks)
    last = [*sentences(answers[-1])] if answers else []
    decided = _picked(answers, _DECIDES)
    changed = dict.fromkeys(f"{name} {path}" for name, given in inputs if _CHANGES.search(name) and (path := path_in(given)))
    paths = " ".join(path for _, given in inputs if (path := path_in(given)))
    cure = next(iter([*decided[-1:], *last[:1]]), "")
    outcome: Outcome = (
        "error" if broken else "completed" if answers and blocks and blocks[-1].role == "assistant" else "ongoing"
    )
    return Told(
        topic("\n".join(asked) or "\n".join(answers)),
        about("\n".join((*asked, paths, *answers, *failures))),
        outcome,
        _short(last[0]) if last else _short(failures[-1]) if failures else "",
        _short_each([one for text in asked for one in sentences(text)][:4]),
        _picked(asked, _TELLS),
        decided,
        tuple(changed)[-6:],
        _short_each(f"{failure} -> {cure if not broken else 'open'}" for failure in failures[-2:]),
        _short_each(last[:4]),
        _picked(answers[-1:], _OPEN),
    )


def _input(call: Block) -> Mapping[str, object]:
    raw = call.raw
    given = raw.get("input") if isinstance(raw, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def _failures(blocks: Sequence[Block]) -> tuple[list[str], bool]:
    """The telling line of each failed result, and whether the last result of all failed."""
    found, broken = list[str](), False
    for block in blocks:
        raw = block.raw if block.kind == "tool_result" else None
        if isinstance(raw, Mapping):
            broken = bool(raw.get("is_error"))
            if broken:
                lines = [*sentences(clipped(text_of(raw.get("content")), RESULT))]
                found += [_short(next((line for line in lines if _FAILS.search(line)), lines[0]))] if lines else []
    return found, broken


def _picked(texts: Iterable[str], sign: re.Pattern[str], most: int = 4) -> tuple[str, ...]:
    return _short_each([one for text in texts for one in sentences(text) if sign.search(one)][:most])


def _short_each(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_short, texts)))


def _short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def points(known: Told) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The key points of a summary, what must stay longest first."""
    yield "asked", " ", known.asked[:2]
    yield "decided", " ", known.decided
    yield "noted", " ", tuple(one for one in known.noted if one not in known.asked[:2])
    yield "changed", ", ", known.changed
    yield "solved", " ", known.solved
    yield "open", " ", known.open
    yield "said", " ", tuple(one for one in known.said if one not in (*known.decided, *known.open))
