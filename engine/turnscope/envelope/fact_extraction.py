"""Facts of a turn, extracted by a model: the question that it gets after the answer, and how its reply is read.

No model is called while a request is planned. The reply is recorded in the session; the next turn reads it there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from hashlib import blake2b

from turnscope.envelope.memories import Memory, extract_term_set, parse_fact
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before, find_at_or_before
from turnscope.session.model import Answer, Ask, Session

PROMPT = (
    "Read this exchange. Write down, one a line, what will still be worth knowing in other conversations: a line that begins "
    "with `user:` for what the user said of themselves, their project or how they want to work, a line that begins with "
    "`agent:` for what was learned about the subject. Each line one short sentence that stands by itself. Nothing else; no "
    "line where there is nothing."
)
READ = 6_000  # characters; a longer text is cut for the model
CAP = 300  # tokens of an answer
MOST = 12  # facts of one turn
ALIKE = 0.5  # two facts are alike when they share this part of their words


def build_facts_ask(session: Session, start: int, stop: int) -> Ask | None:
    """Build the question about one turn. Returns None where nobody wrote a text in it.

    Args:
        session: The session.
        start: Address of the first block of the turn.
        stop: Address behind its last block.
    """
    blocks = (block for block in session.blocks[start:stop] if block.kind == "text" and block.role in ("user", "assistant"))
    content = "\n".join(f"{block.role}: {block.text[:READ]}" for block in blocks if block.text.strip())
    key = blake2b(f"{PROMPT}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Ask("extract", f"extract:{key}", PROMPT, content, CAP) if content else None


def parse_facts(answer: Answer, source: str, sent_at: float | None = None) -> list[Memory]:
    """Return the facts of a reply; none where it failed.

    Args:
        answer: The reply of the model.
        source: Where the facts come from, such as `block 12`.
        sent_at: When the turn was sent, in seconds since the epoch; None = unknown.
    """
    lines = answer.text.splitlines() if not answer.failed else []
    return [fact for line in lines if (fact := parse_fact(line, sent_at, source))][:MOST]


def extract_facts(ctx: Ctx, at: int, known: Iterable[Memory]) -> Generator[Ask, Answer, list[Memory]]:
    """Yield the recorded questions of the turns that ended since `at`; return the new facts of their answers.

    Args:
        ctx: What the rule may read.
        at: Address from which turns are read.
        known: Facts that are known already. A fact that says the same in other words is left out.
    """
    earlier, found = [*known], list[Memory]()
    turns = ctx.index.turns
    for turn in turns[count_before(turns, at) : count_before(turns, ctx.request.cut)]:
        start = find_at_or_before(turns, turn - 1)
        ask = build_facts_ask(ctx.session, start, turn) if start is not None and ctx.session.recorded.answers else None
        if ask is None or start is None or ask.key not in ctx.session.recorded.answers:
            continue
        sent_at = ctx.session.messages[ctx.session.blocks[start].message].sent_at
        for fact in parse_facts((yield ask), f"block {start}", sent_at):
            if not any(are_alike(fact, other) for other in (*earlier, *found)):
                found.append(fact)
    return found


def are_alike(one: Memory, other: Memory) -> bool:
    """Return whether two facts of one owner say the same in other words.

    Args:
        one: A fact.
        other: Another one.
    """
    a, b = extract_term_set(one.text), extract_term_set(other.text)
    return one.owner == other.owner and bool(a or b) and len(a & b) >= ALIKE * min(len(a), len(b))
