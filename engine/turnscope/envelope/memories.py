"""Facts about a user, or learned by an agent: how they are found in a conversation and worded in a prompt.

Pure functions. `storage.memories` stores facts across sessions; a rule decides which of them a request carries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct, structs

from turnscope.envelope.relevance import extract_terms
from turnscope.envelope.rule import Ctx
from turnscope.envelope.wishes import get_rating
from turnscope.session.index import count_before
from turnscope.session.model import JSON

Owner = Literal["user", "agent"]
Tier = Literal["short", "medium", "long"]
TIERS: tuple[Tier, ...] = ("short", "medium", "long")
FORGOTTEN = "(forgotten)"  # text of a forgotten fact
FINDING = "a review's findings"  # source of a fact that a review found
LONGEST = 240  # characters of a fact
READ = 20_000  # characters of a text that are searched

_USER = re.compile(
    r"\b(?:my name is|call me|i am (?:a|an|the)\b|i'm (?:a|an|the)\b|"
    r"i (?:always|never|usually|prefer|like|dislike|hate|use|work)\b|"
    r"we (?:always|never|use|prefer|deploy|agreed)\b|(?:please )?remember that|from now on|always use|never use)",
    re.IGNORECASE,
)
_AGENT = re.compile(
    r"\b(?:the (?:project|repository|codebase|test suite|build) (?:uses|is|needs|runs|keeps)|it turns out|"
    r"the root cause (?:is|was)|i (?:found|learned|learnt) (?:out )?that|note for later)",
    re.IGNORECASE,
)
_SHORT = re.compile(
    r"\b(?:for now|today|tonight|right now|at the moment|currently|this time|until|temporarily)\b", re.IGNORECASE
)
_LONG = re.compile(
    r"\b(?:my name is|call me|remember that|from now on|note for later|(?:i|we) (?:always|never)|(?:always|never) use)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:\.(?=\w)[^.!?\n]*)*[.!?]*")


class Memory(Struct, frozen=True):
    """One fact.

    Attributes:
        id: The fact's id, made of owner and text.
        owner: Whose fact it is: `user` or `agent`.
        text: What it says.
        day: The day of the message (UTC, ISO); "" = unknown.
        source: Where it came from.
        forgotten: True for a tombstone, which has no text.
        tier: `short` ends after some turns of its chat, `medium` fades if nobody repeats it, `long` stays.
    """

    id: str
    owner: Owner
    text: str
    day: str = ""
    source: str = ""
    forgotten: bool = False
    tier: Tier = "medium"


def classify_tier(text: str) -> Tier:
    """Return how long a text is worth knowing, by its words: `short` = for now, `long` = to be remembered, else `medium`."""
    return "short" if _SHORT.search(text) else "long" if _LONG.search(text) else "medium"


def make_fact_id(owner: str, text: str) -> str:
    """Return the id of a fact. Case and spaces of the text do not matter.

    Args:
        owner: `user` or `agent`.
        text: What the fact says.
    """
    return blake2b(f"{owner}\0{' '.join(text.casefold().split())}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def find_facts(role: str, text: str, sent_at: float | None = None, source: str = "") -> Iterator[Memory]:
    """Yield the facts in a message, found by patterns: from a user about the user, from an answer about the work.

    Facts come in their order in the text, each once. A question states no fact.

    Args:
        role: Role of the message.
        text: Its text.
        sent_at: When it was sent, in seconds since the epoch; None = unknown.
        source: Where the facts come from, such as `block 12`.
    """
    owner, pattern = ("user", _USER) if role == "user" else ("agent", _AGENT)
    seen: set[str] = set()
    day = datetime.fromtimestamp(sent_at, UTC).date().isoformat() if sent_at else ""
    for match in _SENTENCE.finditer(text):
        sentence = " ".join(match[0].split())
        if not 8 <= len(sentence) <= LONGEST or sentence.endswith("?") or not pattern.search(sentence):
            continue
        if (known := make_fact_id(owner, sentence)) not in seen:
            seen.add(known)
            yield Memory(
                known, "user" if owner == "user" else "agent", sentence, day=day, source=source, tier=classify_tier(sentence)
            )


def find_facts_since(ctx: Ctx, at: int) -> Iterator[Memory]:
    """Yield the facts in the messages from address `at` on.

    Args:
        ctx: What the rule may read.
        at: Address of the first block to read.
    """
    starts = ctx.index.messages
    for start in starts[count_before(starts, at) : count_before(starts, ctx.request.cut)]:
        message = ctx.session.messages[ctx.session.blocks[start].message]
        for block in ctx.session.blocks[start : message.stop]:
            if block.kind == "text":
                yield from find_facts(block.role, block.text[:READ], message.sent_at, f"block {block.at}")


def parse_fact(item: str, sent_at: float | None = None, source: str = "") -> Memory | None:
    """Return the fact in a line of a model's reply, `user: ...` or `agent: ...`; None where the line is no fact.

    Args:
        item: The line.
        sent_at: When the turn was sent, in seconds since the epoch; None = unknown.
        source: Where the fact comes from.
    """
    owner, _, text = item.partition(":")
    sentence, owner = " ".join(text.split()), owner.strip(" -*").lower()
    if owner not in ("user", "agent") or not 4 <= len(sentence) <= LONGEST or sentence == FORGOTTEN:
        return None
    day = datetime.fromtimestamp(sent_at, UTC).date().isoformat() if sent_at else ""
    return Memory(
        make_fact_id(owner, sentence),
        "user" if owner == "user" else "agent",
        sentence,
        day=day,
        source=source,
        tier=classify_tier(sentence),
    )


def list_findings(found: JSON) -> list[str]:
    """Return a review's findings as lines. The log has a text, a list of texts, or a list of tables with a title or text."""
    if isinstance(found, str):
        return [found.strip()] if found.strip() else []
    return list(filter(None, map(_format_finding, found if isinstance(found, list) else [])))


def _format_finding(row: JSON) -> str:
    if not isinstance(row, Mapping):
        return row.strip() if isinstance(row, str) else ""
    words = (str(row[key]) for key in ("severity", "file", "title", "text", "description") if row.get(key))
    return ": ".join(words)


def read_findings(ctx: Ctx) -> Iterator[Memory]:
    """Yield the findings of a review that the log records, as facts of the agent: they outlive the review."""
    for line in list_findings(ctx.session.about.get("findings")):
        sentence = " ".join(line.split())[:LONGEST]
        yield Memory(make_fact_id("agent", sentence), "agent", sentence, day="", source=FINDING, tier="long")


def has_faded(ctx: Ctx, fact: Memory, turns: int) -> bool:
    """Return whether a short fact is too old. A fact of another chat is never short.

    Args:
        ctx: What the rule may read.
        fact: The fact.
        turns: The most turns that a short fact lasts.
    """
    at = fact.source.removeprefix("block ")
    if fact.tier != "short" or not at.isdecimal() or int(at) >= ctx.request.cut:
        return False
    return ctx.request.turn - ctx.session.blocks[int(at)].turn > turns


def decode_fact(item: str) -> Memory | None:
    """Return the fact that a JSON text of a store encodes; None where it encodes none. A forgotten fact is a tombstone."""
    try:
        fact = msgspec.json.decode(item, type=Memory)
    except msgspec.DecodeError:
        return None
    return structs.replace(fact, text="", forgotten=True) if fact.text == FORGOTTEN else fact


@lru_cache(maxsize=2_048)
def extract_term_set(text: str) -> frozenset[str]:
    """Return the terms of a text, to compare texts with."""
    return frozenset(extract_terms(text))


def score_facts(ctx: Ctx, facts: Iterable[Memory], question: str, tiers: Sequence[str], turns: int) -> dict[str, int]:
    """Return how many terms each fact shares with a question, by the fact's id, for the facts that may be inserted.

    Forgotten facts, facts that a person rated down, facts of other tiers and faded short facts are left out.

    Args:
        ctx: What the rule may read.
        facts: The facts.
        question: The question's text.
        tiers: The tiers that may be inserted.
        turns: The most turns that a short fact lasts.
    """
    question_terms = extract_term_set(question)
    wanted = (fact for fact in facts if not fact.forgotten and fact.tier in tiers and not has_faded(ctx, fact, turns))
    return {
        fact.id: len(question_terms & extract_term_set(fact.text))
        for fact in wanted
        if get_rating(ctx.session, fact.text) != "down"
    }


def _format_section(facts: Sequence[Memory], heading: str) -> str:
    return "\n".join((heading, *(f"- {fact.text}" for fact in facts)))


def _format_user_context(facts: Sequence[Memory], _heading: str) -> str:
    """Open WebUI, older version."""
    dated = (f"[{fact.day}]. {fact.text}" if fact.day else fact.text for fact in facts)
    return "\n".join(("User Context:", *(f"{n}. {line}" for n, line in enumerate(dated, 1))))


def _format_findings(facts: Sequence[Memory], heading: str) -> str:
    """ChainReview: findings of earlier reviews, each with its day."""
    return "\n".join((heading, *(f"- {f'[{fact.day}] ' if fact.day else ''}{fact.text}" for fact in facts)))


def _format_memory_context(facts: Sequence[Memory], _heading: str) -> str:
    """Open WebUI, newer version: the user's facts, then other relevant ones, each sorted."""
    parts = []
    for owner, name in (("user", "[User Memory]"), ("agent", "[Relevant Context]")):
        lines = sorted((f"- {fact.text}" for fact in facts if fact.owner == owner), key=str.casefold)
        parts += [name, *lines] if lines else []
    return "\n".join(("<memory_context>", *parts, "</memory_context>"))


FORMS: Mapping[str, Callable[[Sequence[Memory], str], str]] = {
    "section": _format_section,
    "user-context": _format_user_context,
    "memory-context": _format_memory_context,
    "findings": _format_findings,
}
"""How facts are worded, by the name that a policy gives: `(facts, heading) -> text`."""
