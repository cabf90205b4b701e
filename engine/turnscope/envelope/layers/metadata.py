"""Metadata of a conversation: topic, names, outcome and key points. Extracted by patterns; no model is called.

A function of the conversation's blocks only, cached by their content: the same blocks give the same metadata in every session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from turnscope.envelope.conversation import find_path
from turnscope.envelope.layers.words import TextNames, clip_text, find_names, find_topic, split_sentences
from turnscope.session.content import extract_text
from turnscope.session.model import Block

REMEMBERED = 8_192  # conversations whose metadata is cached
LONG = 240  # characters of one sentence
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
_MEMO: dict[bytes, Metadata] = {}

Outcome = Literal["completed", "ongoing", "error"]


class Metadata(Struct, frozen=True):
    """A conversation in few words. Each list has the most important item first.

    Attributes:
        topic: Words of the topic.
        names: Files, functions, errors and other names.
        outcome: completed, ongoing or error.
        line: One sentence on the result.
        requested: What the user requested.
        noted: Sentences with names, numbers or ids.
        decided: Decisions.
        changed: Tool and file of each change.
        solved: `problem -> solution`.
        further: Further sentences.
        open: Open questions.
    """

    topic: tuple[str, ...] = ()
    names: TextNames = TextNames()
    outcome: Outcome = "completed"
    line: str = ""  # one sentence
    requested: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()  # sentences with names, numbers, ids
    decided: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    solved: tuple[str, ...] = ()  # `problem -> solution`
    further: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def read_metadata(blocks: Sequence[Block]) -> Metadata:
    """Return the metadata of these blocks. They are complete: the conversation has no later blocks."""
    key = blake2b("".join(f"{block.role[0]}{block.digest}" for block in blocks).encode(), digest_size=16).digest()
    found = _MEMO.get(key)
    if found is None:
        found = _extract_metadata(blocks)
        if len(_MEMO) >= REMEMBERED:
            _MEMO.clear()
        _MEMO[key] = found
    return found


def _extract_metadata(blocks: Sequence[Block]) -> Metadata:
    spoken = [block for block in blocks if block.kind == "text" and block.role in ("user", "assistant")]
    prompts = [clip_text(block.text) for block in spoken if block.role == "user"]
    answers = [clip_text(block.text) for block in spoken if block.role == "assistant"]
    inputs = [(block.name, _get_input(block)) for block in blocks if block.kind == "tool_use"]
    failures, broken = _find_failures(blocks)
    last = [*split_sentences(answers[-1])] if answers else []
    decided = _pick_sentences(answers, _DECIDES)
    changed = dict.fromkeys(
        f"{name} {path}" for name, arguments in inputs if _CHANGES.search(name) and (path := find_path(arguments))
    )
    paths = " ".join(path for _, arguments in inputs if (path := find_path(arguments)))
    cure = next(iter([*decided[-1:], *last[:1]]), "")
    outcome: Outcome = (
        "error" if broken else "completed" if answers and blocks and blocks[-1].role == "assistant" else "ongoing"
    )
    return Metadata(
        topic=find_topic("\n".join(prompts) or "\n".join(answers)),
        names=find_names("\n".join((*prompts, paths, *answers, *failures))),
        outcome=outcome,
        line=_shorten(last[0]) if last else _shorten(failures[-1]) if failures else "",
        requested=_shorten_each([one for text in prompts for one in split_sentences(text)][:4]),
        noted=_pick_sentences(prompts, _TELLS),
        decided=decided,
        changed=tuple(changed)[-6:],
        solved=_shorten_each(f"{failure} -> {cure if not broken else 'open'}" for failure in failures[-2:]),
        further=_shorten_each(last[:4]),
        open=_pick_sentences(answers[-1:], _OPEN),
    )


def _get_input(call: Block) -> Mapping[str, object]:
    raw = call.raw
    arguments = raw.get("input") if isinstance(raw, Mapping) else None
    return arguments if isinstance(arguments, Mapping) else {}


def _find_failures(blocks: Sequence[Block]) -> tuple[list[str], bool]:
    """The most important line of each failed result, and whether the last result failed."""
    found, broken = list[str](), False
    for block in blocks:
        raw = block.raw if block.kind == "tool_result" else None
        if isinstance(raw, Mapping):
            broken = bool(raw.get("is_error"))
            if broken:
                lines = [*split_sentences(clip_text(extract_text(raw.get("content")), RESULT))]
                found += [_shorten(next((line for line in lines if _FAILS.search(line)), lines[0]))] if lines else []
    return found, broken


def _pick_sentences(texts: Iterable[str], sign: re.Pattern[str], most: int = 4) -> tuple[str, ...]:
    return _shorten_each([one for text in texts for one in split_sentences(text) if sign.search(one)][:most])


def _shorten_each(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_shorten, texts)))


def _shorten(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def list_key_points(known: Metadata) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the key points of a summary, those that must stay longest first."""
    yield "asked", " ", known.requested[:2]
    yield "decided", " ", known.decided
    yield "noted", " ", tuple(one for one in known.noted if one not in known.requested[:2])
    yield "changed", ", ", known.changed
    yield "solved", " ", known.solved
    yield "open", " ", known.open
    yield "said", " ", tuple(one for one in known.further if one not in (*known.decided, *known.open))
