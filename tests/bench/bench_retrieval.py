"""Recall of what was said in other words, at one budget: `python tests/bench/bench_retrieval.py`; exit 1 below a limit.

48 facts, each with a question that shares few or no words with it (`paraphrases.tsv`), and a question of the fact's own words.
Memory: 8 facts go into a request. Selective context: each fact stands in an exchange of its own with a long answer, and a
quarter of the exchanges fits. Recall is the share of questions whose fact is in the request; chance gives 17 % and 25 %.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import make_estimator
from turnscope.envelope.relevance import extract_terms
from turnscope.library import Memories
from turnscope.planning.answers import OFFLINE, make_answerer
from turnscope.planning.assemble import replay
from turnscope.planning.policy import parse
from turnscope.session.builder import Builder
from turnscope.session.model import Session

PAIRS = [line.split("\t") for line in Path(__file__).with_name("paraphrases.tsv").read_text(encoding="utf-8").splitlines()]
FACTS, QUESTIONS = [fact for fact, _ in PAIRS], [question for _, question in PAIRS]
MOST = 8  # facts in a request
FILLER = "Noted, and I keep it in mind for what follows in this conversation. "
LEAST = {"wordllama": 0.8}  # of the paraphrases, in memory


def write_own_words(fact: str) -> str:
    """A question of three long words of the fact itself."""
    return " ".join(sorted(extract_terms(fact), key=len)[-3:]) + "?"


def plan_memory(question: str, meaning: str, memories: Memories) -> str:
    builder = Builder("memory", "bench")
    builder.add_message("user", question)
    builder.add_unanswered()
    rule = f'[[rules]]\nrule = "insert_memories"\nmost = {MOST}\nmeaning = "{meaning}"\n'
    return _read_last(builder.build(), f'[budget]\nformula = "fixed"\ntokens = 20000\n{rule}', memories)


def plan_selection(question: str, model: str) -> str:
    builder = Builder("selection", "bench")
    for fact in FACTS:
        builder.add_message("user", fact)
        builder.set_request(builder.add_message("assistant", FILLER * 12))
    builder.add_message("user", question)
    builder.add_unanswered()
    session = builder.build()
    ledger = build_ledger(session, make_estimator("claude"))
    quarter = ledger.count_tokens(0, len(ledger)) // 4
    rule = f'[[rules]]\nrule = "keep_relevant_messages"\nrecent = 0\nrerank = "{model}"\n'
    return _read_last(session, f'[budget]\nformula = "fixed"\ntokens = {quarter}\n{rule}', None)


def _read_last(session: Session, policy: str, memories: Memories | None) -> str:
    """What the newest request carries, as one text."""
    by_kind = {**OFFLINE} | ({"recall": memories.answer} if memories else {})
    ledger = build_ledger(session, make_estimator("claude"))
    plan = [*replay(session, parse("bench", policy), ledger, answers=make_answerer({}.get, by_kind))][-1]
    pieces = [piece for chunk in plan.after.chunks for piece in chunk.pieces]
    said = [block.text for p in pieces if p.body is None for block in session.blocks[p.start : p.stop]]
    return "\n".join(said + [part.text for p in pieces if p.body for part in p.body])


def measure(model: str, memories: Memories) -> Iterator[tuple[str, float, float]]:
    """Yield what was asked, with the recall of memory and of selective context."""
    for name, questions in (("other words", QUESTIONS), ("own words", [*map(write_own_words, FACTS)])):
        asked = list(zip(FACTS, questions, strict=True))
        facts = sum(f"- {fact}" in plan_memory(question, model, memories) for fact, question in asked)
        kept = sum(fact in plan_selection(question, model).splitlines() for fact, question in asked)
        yield name, facts / len(asked), kept / len(asked)


def main(models: Sequence[str]) -> int:
    failed = False
    with TemporaryDirectory() as folder:
        memories = Memories(Path(folder) / "chats.db")
        for fact in FACTS:
            memories.add(fact)
        print(f"| {'model':12} | questions   | memory, {MOST} of {len(FACTS)} facts | context, a quarter |")
        for model in models:
            for name, facts, kept in measure(model, memories):
                print(f"| {model or 'bm25 alone':12} | {name:11} | {facts:24.0%} | {kept:18.0%} |")
                failed |= name == "other words" and facts < LEAST.get(model, 0.0)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["", "wordllama"]))
