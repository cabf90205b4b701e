"""Thinking whose text the log does not hold: its signature and the recorded output tell its size."""

from __future__ import annotations

from typing import Any

import turnscope
from turnscope.counting.ledger import build_ledger
from turnscope.counting.media import count_media
from turnscope.counting.tokens import make_estimator
from turnscope.session.builder import Builder
from turnscope.session.model import BUCKETS, Bucket, Session, Usage

THINKING = BUCKETS.index(Bucket.THINKING)


def make_sealed(length: int) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": "A" * length}


def session(content: list[dict[str, Any]], output: int) -> Session:
    builder = Builder("s", "test")
    builder.add_message("user", "Why?")
    answer = builder.add_message("assistant", content)
    builder.set_request(answer, model="claude-opus-4-5", usage=Usage(100, 0, 0, output))
    return builder.build()


def count_thinking(of: Session) -> int:
    return build_ledger(of, make_estimator("o200k_base")).count_by_bucket(0, len(of.blocks))[THINKING]


def test_a_signature_tells_how_much_was_thought() -> None:
    assert count_media(make_sealed(230 + 16 * 100), "claude") == 300
    assert count_media({"type": "thinking", "thinking": "So.", "signature": "A" * 900}, "claude") == 0
    assert count_media(make_sealed(10), "claude") == 1


def test_the_recorded_output_tells_it_better() -> None:
    text = {"type": "text", "text": "Because it is so."}
    assert 990 <= count_thinking(session([make_sealed(2_000), text], 1_000)) < 1_010


def test_several_blocks_share_it_by_their_signatures() -> None:
    of = session([make_sealed(230 + 533), {"type": "text", "text": "Yes."}, make_sealed(230 + 1_600)], 403)
    ledger = build_ledger(of, make_estimator("o200k_base"))
    first, second = ledger.count_tokens(1, 2), ledger.count_tokens(3, 4)
    assert 2.8 < second / (first - 4) < 3.2, "4 tokens frame the message"


def test_an_output_that_cannot_be_true_leaves_it_to_the_signature() -> None:
    assert count_thinking(session([make_sealed(230 + 1_600), {"type": "text", "text": "word " * 400}], 3)) in range(300, 306)


def test_encrypted_reasoning_counts_whole_and_not_as_its_summary() -> None:
    summarized = {"type": "thinking", "thinking": "**Looking**", "signature": "gAAAAAB" + "x" * 900}
    text = {"type": "text", "text": "Because it is so."}
    assert 490 <= count_thinking(session([summarized, text], 500)) < 500
    assert count_thinking(session([summarized | {"signature": "Eo" + "x" * 900}, text], 500)) < 20


def test_blocks_that_a_redaction_made_equal_get_the_mean() -> None:
    builder = Builder("s", "test")
    for output in (101, 301):
        builder.add_message("user", "Why?")
        answer = builder.add_message("assistant", [{"type": "redacted_thinking", "data": "REDACTED"}])
        builder.set_request(answer, model="gpt-5.5", usage=Usage(100, 0, 0, output))
    assert count_thinking(builder.build()) == 2 * 201 + 8


def test_reasoning_leaves_a_real_codex_prompt_when_the_next_turn_begins(shared) -> None:
    trace = turnscope.replay(turnscope.load(shared("data", "open", "codex", "entire-skills-d5c5-compacted.jsonl")))
    turns = [n for n, request in enumerate(trace.session.requests) if n and request.turn != trace.session.requests[n - 1].turn]
    assert any(decision.edit.action == "strip" for n in turns for decision in trace.plans[n].server)
    assert not any(fit.cut for fit in trace.fits), "nothing is taken for cut without a record"
