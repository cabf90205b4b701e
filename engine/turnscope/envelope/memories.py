"""What is known of a user, or by an agent, beside a conversation: how it is found in what was said, and worded in a prompt.

Pure functions. Where such facts are kept across sessions is `storage.memories`; what a request carries of them is the rule's.
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
FORGOTTEN = "(forgotten)"  # stands where the text of a forgotten fact stood
LONGEST = 240  # characters of a fact
READ = 20_000  # characters of a text that are searched for facts

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
    """One fact: whose it is, what it says, the day on which it was said (UTC, "" = not known), and where it came from.

    `tier`: a short one belongs to its chat and goes after some turns, a medium one fades where nobody says it again, a long one
    stays. A forgotten one is a tombstone: it has no text.
    """

    id: str
    owner: Owner
    text: str
    said: str = ""
    source: str = ""
    forgotten: bool = False
    tier: Tier = "medium"


def classify_tier(text: str) -> Tier:
    """How long what a text says is worth knowing, by its words: what holds for now, what was told to stay, all else."""
    return "short" if _SHORT.search(text) else "long" if _LONG.search(text) else "medium"


def make_fact_id(owner: str, text: str) -> str:
    """By which a fact is known: by whose it is and what it says, whatever its case and spaces."""
    return blake2b(f"{owner}\0{' '.join(text.casefold().split())}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def find_facts(role: str, text: str, sent_at: float | None = None, source: str = "") -> Iterator[Memory]:
    """The facts in a message, found by patterns: a user's about the user, an answer's about what the agent works on.

    A question states nothing. Order as said; each once.
    """
    owner, pattern = ("user", _USER) if role == "user" else ("agent", _AGENT)
    seen: set[str] = set()
    day = datetime.fromtimestamp(sent_at, UTC).date().isoformat() if sent_at else ""
    for match in _SENTENCE.finditer(text):
        said = " ".join(match[0].split())
        if not 8 <= len(said) <= LONGEST or said.endswith("?") or not pattern.search(said):
            continue
        if (known := make_fact_id(owner, said)) not in seen:
            seen.add(known)
            yield Memory(known, "user" if owner == "user" else "agent", said, day, source, tier=classify_tier(said))


def find_facts_since(ctx: Ctx, at: int) -> Iterator[Memory]:
    """The facts in what was said from address `at` on."""
    starts = ctx.index.messages
    for start in starts[count_before(starts, at) : count_before(starts, ctx.request.cut)]:
        message = ctx.session.messages[ctx.session.blocks[start].message]
        for block in ctx.session.blocks[start : message.stop]:
            if block.kind == "text":
                yield from find_facts(block.role, block.text[:READ], message.sent_at, f"block {block.at}")


def parse_fact(item: str, sent_at: float | None = None, source: str = "") -> Memory | None:
    """A fact as a model that was asked for facts words it, `user: ...` or `agent: ...`; None where a line is none."""
    owner, _, text = item.partition(":")
    said, owner = " ".join(text.split()), owner.strip(" -*").lower()
    if owner not in ("user", "agent") or not 4 <= len(said) <= LONGEST or said == FORGOTTEN:
        return None
    day = datetime.fromtimestamp(sent_at, UTC).date().isoformat() if sent_at else ""
    return Memory(
        make_fact_id(owner, said), "user" if owner == "user" else "agent", said, day, source, tier=classify_tier(said)
    )


def list_findings(found: JSON) -> list[str]:
    """A review's findings as lines: a text, a list of texts, or of tables with a title or text."""
    if isinstance(found, str):
        return [found.strip()] if found.strip() else []
    return list(filter(None, map(_format_finding, found if isinstance(found, list) else [])))


def _format_finding(row: JSON) -> str:
    if not isinstance(row, Mapping):
        return row.strip() if isinstance(row, str) else ""
    words = (str(row[key]) for key in ("severity", "file", "title", "text", "description") if row.get(key))
    return ": ".join(words)


def read_findings(ctx: Ctx) -> Iterator[Memory]:
    """The findings that a log holds of its review, as what the agent learned: they outlive the review."""
    for line in list_findings(ctx.session.about.get("findings")):
        said = " ".join(line.split())[:LONGEST]
        yield Memory(make_fact_id("agent", said), "agent", said, "", "a review's findings", tier="long")


def has_faded(ctx: Ctx, fact: Memory, turns: int) -> bool:
    """Whether a short fact was said more than so many turns ago. One of another chat is never short."""
    at = fact.source.removeprefix("block ")
    if fact.tier != "short" or not at.isdecimal() or int(at) >= ctx.request.cut:
        return False
    return ctx.request.turn - ctx.session.blocks[int(at)].turn > turns


def decode_fact(item: str) -> Memory | None:
    """A fact as a store hands it over; None where it is none. One that was forgotten since is a tombstone."""
    try:
        fact = msgspec.json.decode(item, type=Memory)
    except msgspec.DecodeError:
        return None
    return structs.replace(fact, text="", forgotten=True) if fact.text == FORGOTTEN else fact


@lru_cache(maxsize=2_048)
def extract_term_set(text: str) -> frozenset[str]:
    """The terms of a text, for what has to do with what."""
    return frozenset(extract_terms(text))


def score_facts(ctx: Ctx, facts: Iterable[Memory], question: str, tiers: Sequence[str], turns: int) -> dict[str, int]:
    """By a fact's id, of those that may be put in: how many terms it shares with a question.

    Left out are those forgotten, refused by hand, of another tier, and short ones that were said more than `turns` turns ago.
    """
    asked = extract_term_set(question)
    wanted = (fact for fact in facts if not fact.forgotten and fact.tier in tiers and not has_faded(ctx, fact, turns))
    return {
        fact.id: len(asked & extract_term_set(fact.text)) for fact in wanted if get_rating(ctx.session, fact.text) != "down"
    }


def _format_section(facts: Sequence[Memory], heading: str) -> str:
    return "\n".join((heading, *(f"- {fact.text}" for fact in facts)))


def _format_user_context(facts: Sequence[Memory], _heading: str) -> str:
    """Open WebUI, older generation."""
    dated = (f"[{fact.said}]. {fact.text}" if fact.said else fact.text for fact in facts)
    return "\n".join(("User Context:", *(f"{n}. {line}" for n, line in enumerate(dated, 1))))


def _format_findings(facts: Sequence[Memory], heading: str) -> str:
    """ChainReview: what earlier reviews found, each with its day."""
    return "\n".join((heading, *(f"- {f'[{fact.said}] ' if fact.said else ''}{fact.text}" for fact in facts)))


def _format_memory_context(facts: Sequence[Memory], _heading: str) -> str:
    """Open WebUI, newer generation: what is the user's, then what else is relevant, each sorted."""
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
"""How facts are worded, by the name that a policy declares. `(facts, heading) -> text`."""
