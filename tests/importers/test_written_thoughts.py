"""Thinking that an app stores as text: a thinking block once it is imported, stripped by the rule that strips any other."""

from __future__ import annotations

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.policy import parse
from turnscope.reading.content_blocks import split_thinking
from turnscope.session.builder import Builder

TAGS = ("think", "thinking", "thought")
ALONE = parse("alone", '[[rules]]\nrule = "strip_old_thinking"')


@pytest.mark.parametrize("tag", TAGS)
def test_a_written_thought_is_a_thinking_block_and_goes_with_its_turn(tag: str) -> None:
    builder = Builder("written", "test")
    for turn in range(2):
        builder.add_message("user", f"question {turn}", origin="prompt")
        builder.set_request(
            builder.add_message("assistant", split_thinking(f"<{tag}>hm {turn}</{tag}>\nanswer {turn}")), model="m"
        )
    builder.add_message("user", "question 2", origin="prompt")
    builder.add_unanswered(model="m")
    session = builder.build()
    assert [block.kind for block in session.blocks][:3] == ["text", "thinking", "text"]
    *_, last = replay(session, ALONE, build_ledger(session, CHARS))
    stands = [
        block.text for piece in last.after.pieces if piece.body is None for block in session.blocks[piece.start : piece.stop]
    ]
    assert stands == ["question 0", "answer 0", "question 1", "hm 1", "answer 1", "question 2"]


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_that_is_not_closed_is_text(tag: str) -> None:
    assert split_thinking(f"<{tag}>never closed") == [{"type": "text", "text": f"<{tag}>never closed"}]
    assert [block["type"] for block in split_thinking(f"<{tag}>a</{tag}>b <{tag}>c")] == ["thinking", "text"]
    assert split_thinking(f"<{tag}>other's end</thought_>")[0]["type"] == "text"
