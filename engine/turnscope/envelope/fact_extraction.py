"""Facts of a turn as a model tells them: what it is asked after the answer, under which key, and how its answer is read.

Nobody is asked while a request is planned: what was answered after a turn stands in the session, and the next turn finds it.
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
READ = 6_000  # characters of one text that are read
CAP = 300  # tokens of an answer
MOST = 12  # facts of one turn
ALIKE = 0.5  # shared part of two facts' words from which they say the same


def build_facts_ask(session: Session, start: int, stop: int) -> Ask | None:
    """What a model is asked about the turn in blocks `[start, stop)`; None where nobody said anything there."""
    blocks = (block for block in session.blocks[start:stop] if block.kind == "text" and block.role in ("user", "assistant"))
    content = "\n".join(f"{block.role}: {block.text[:READ]}" for block in blocks if block.text.strip())
    key = blake2b(f"{PROMPT}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return Ask("extract", f"extract:{key}", PROMPT, content, CAP) if content else None


def parse_facts(answer: Answer, source: str, sent_at: float | None = None) -> list[Memory]:
    """The facts of an answer; none where it failed."""
    lines = answer.text.splitlines() if not answer.failed else []
    return [fact for line in lines if (fact := parse_fact(line, sent_at, source))][:MOST]


def extract_facts(ctx: Ctx, at: int, known: Iterable[Memory]) -> Generator[Ask, Answer, list[Memory]]:
    """The facts that a model told of the turns that ended since address `at`, without those that are known in other words."""
    said, found = [*known], list[Memory]()
    turns = ctx.index.turns
    for turn in turns[count_before(turns, at) : count_before(turns, ctx.request.cut)]:
        start = find_at_or_before(turns, turn - 1)
        ask = build_facts_ask(ctx.session, start, turn) if start is not None and ctx.session.recorded.answers else None
        if ask is None or start is None or ask.key not in ctx.session.recorded.answers:
            continue
        sent_at = ctx.session.messages[ctx.session.blocks[start].message].sent_at
        for fact in parse_facts((yield ask), f"block {start}", sent_at):
            if not any(are_alike(fact, other) for other in (*said, *found)):
                found.append(fact)
    return found


def are_alike(one: Memory, other: Memory) -> bool:
    """Whether two facts of one owner say the same in other words."""
    a, b = extract_term_set(one.text), extract_term_set(other.text)
    return one.owner == other.owner and bool(a or b) and len(a & b) >= ALIKE * min(len(a), len(b))
