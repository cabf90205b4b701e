"""Policies of the published designs: their own numbers."""

from __future__ import annotations

from engine.counting.ledger import build_ledger
from engine.counting.tokens import CHARS
from engine.envelope.plan import Plan
from engine.planning.assemble import replay
from engine.planning.policy import load
from engine.session.builder import Builder
from engine.session.model import Session, Usage


def chat(turns: int, characters: int, tokens: int = 0) -> Session:
    """Turns of a question and an answer of so many characters; each request billed `tokens` more than the last."""
    builder = Builder("chat", "test")
    builder.window = 100_000
    for turn in range(turns):
        builder.message("user", f"{turn:04}" + "q" * (characters - 4), id=f"q{turn}", origin="prompt")
        answer = builder.message("assistant", f"{turn:04}" + "a" * (characters - 4), id=f"a{turn}")
        builder.request(answer, model="gpt-4o", usage=Usage(input_tokens=tokens * (turn + 1)) if tokens else None)
    return builder.build()


def plans(name: str, session: Session) -> list[Plan]:
    return list(replay(session, load(name), build_ledger(session, CHARS)))


def stands(session: Session, plan: Plan) -> list[str]:
    spans = (session.blocks[piece.start : piece.stop] for piece in plan.after.pieces if piece.body is None)
    return [session.messages[block.message].id for blocks in spans for block in blocks]


def test_reactive_does_nothing_below_three_quarters_and_then_loses_three_quarters() -> None:
    session = chat(10, 100, tokens=9_000)
    found = plans("reactive-75", session)
    assert not any(plan.changed for plan in found[:8])  # 72,000 of 100,000 were billed for the eighth
    nine = found[9]  # 81,000 were billed for the ninth
    assert nine.changed
    assert stands(session, nine) == ["q7", "a7", "q8", "a8", "q9"]  # 14 of 19 messages go: three quarters, in pairs


def test_the_window_sends_twenty_messages_at_most_and_begins_at_a_question() -> None:
    session = chat(15, 100)
    assert stands(session, plans("multi-turn-window", session)[-1])[0] == "q5"


def test_the_oldest_half_is_summed_up_above_forty_thousand() -> None:
    session = chat(12, 8_000)  # 2,000 tokens a message
    found = plans("multi-turn-summary", session)
    first = next(plan for plan in found if plan.changed)
    assert first.before.tokens > 40_000 >= found[first.request.n - 1].after.tokens
    assert "q5" in stands(session, first)
    assert "q4" not in stands(session, first)


def test_the_hybrid_pins_the_first_question_and_keeps_twenty() -> None:
    session = chat(14, 8_000)
    last = next(plan for plan in reversed(plans("multi-turn-hybrid", session)) if plan.changed)
    kept = stands(session, last)
    assert kept[0] == "q0"
    assert len(kept) <= 22
