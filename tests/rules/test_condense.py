"""Condensing beyond its pictures: what is asked, which answer is used, what is recorded of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.condensing import PROMPTS, load_prompt
from turnscope.envelope.plan import Plan
from turnscope.errors import PolicyError
from turnscope.planning.assemble import Basis, plan_step, replay
from turnscope.planning.policy import Policy, parse
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, RecordedFacts, Session, Usage

RULE = """
[budget]
formula = "fixed"
tokens = 1000
[[rules]]
rule = "condense"
cap = 60
"""


def chat(pairs: int, size: int = 400) -> tuple[Session, Ledger]:
    """A chat of equal messages; `size` in characters, four to a token."""
    builder = Builder("chat", "test")
    for n in range(pairs):
        builder.add_message("user", f"question {n}? ".ljust(size, "x"))
        builder.set_request(builder.add_message("assistant", f"answer {n}. ".ljust(size, "y")))
    session = builder.build()
    return session, build_ledger(session, CHARS, per_message=0)


def make_plans(session: Session, ledger: Ledger, policy: Policy, answers: Any = None) -> list[Plan]:
    plans: list[Plan] = []
    for request in session.requests:
        plans.append(plan_step(plans[-1] if plans else None, session, request, policy, Basis.of(session, ledger), answers))
    return plans


def asks(plans: list[Plan]) -> list[Ask]:
    return [ask for plan in plans for ask, _ in plan.asks]


def list_condensed(plans: list[Plan]) -> Any:
    return [d.edit for plan in plans for d in plan.decisions if d.action == "condense"]


def test_the_ask_holds_the_transcript_that_the_summary_replaces() -> None:
    session, ledger = chat(5)
    plans = make_plans(session, ledger, parse("t", RULE))
    first = asks(plans)[0]
    assert first.kind == "summary"
    assert first.prompt == load_prompt("summarise")
    assert first.max_tokens == 60
    lines = first.content.splitlines()
    assert [line[:20] for line in lines[:2]] == ["user: question 0? xx", "assistant: answer 0."]
    span = list_condensed(plans)[0].span
    assert lines[-1].endswith(session.blocks[span.stop - 1].text[-30:])


def test_without_a_model_the_summary_says_that_it_was_made_offline() -> None:
    session, ledger = chat(5)
    plans = make_plans(session, ledger, parse("t", RULE))
    edit = list_condensed(plans)[0]
    assert edit.facts["offline"] is True
    assert edit.facts["source"] == "offline"
    assert "usage" not in edit.facts
    assert edit.body[0].text.startswith("[Offline summary")
    assert "placeholder" in edit.because


def test_a_models_answer_stands_as_it_is_and_its_usage_is_recorded() -> None:
    session, ledger = chat(5)
    usage = Usage(input_tokens=900, output_tokens=30)
    plans = make_plans(
        session, ledger, parse("t", RULE), lambda _: Answer("They spoke of x.", model="m", usage=usage, source="model")
    )
    edit = list_condensed(plans)[0]
    assert edit.body[0].text.startswith("[Summary")
    assert edit.body[0].text.endswith("They spoke of x.")
    assert edit.facts["offline"] is False
    assert (edit.facts["model"], edit.facts["prompt_tokens"], edit.facts["output_tokens"]) == ("m", 900, 30)


def test_a_failed_ask_drops_nothing_and_is_a_look() -> None:
    session, ledger = chat(5)
    plans = make_plans(session, ledger, parse("t", RULE), lambda _: Answer(failed="the model was overloaded"))
    assert not list_condensed(plans)
    looks = [d for plan in plans for d in plan.decisions]
    assert looks
    assert all(d.splice is None and "overloaded" in d.edit.because for d in looks)
    assert plans[-1].after.tokens == ledger.count_tokens(0, session.requests[-1].cut)


def test_the_next_ask_reads_the_old_summary_and_what_is_new_alone() -> None:
    session, ledger = chat(12)
    plans = make_plans(session, ledger, parse("t", RULE), lambda _: Answer("OLD SUMMARY.", source="model"))
    assert len(list_condensed(plans)) > 2
    second = asks(plans)[1].content
    assert second.startswith("summary: OLD SUMMARY.\n")
    assert "question 0?" not in second
    read = sum(len(ask.content) for ask in asks(plans))
    assert read < 1.2 * sum(len(block.text) + 12 for block in session.blocks), "each message is read once"


def test_without_recursion_all_older_messages_are_read_again() -> None:
    session, ledger = chat(12)
    plans = make_plans(
        session, ledger, parse("t", RULE + "recursive = false"), lambda _: Answer("OLD SUMMARY.", source="model")
    )
    assert all(ask.content.startswith("user: question 0?") for ask in asks(plans))
    assert not any("OLD SUMMARY" in ask.content for ask in asks(plans))


def test_the_key_changes_with_content_prompt_and_model_and_with_nothing_else() -> None:
    session, ledger = chat(5)
    other, others = chat(5, 420)
    plain = asks(make_plans(session, ledger, parse("t", RULE)))[0].key
    assert asks(make_plans(session, ledger, parse("t", RULE)))[0].key == plain
    assert asks(make_plans(structs.replace(session, id="renamed"), ledger, parse("t", RULE)))[0].key == plain
    changed = {
        asks(make_plans(session, ledger, parse("t", RULE + more)))[0].key for more in ('prompt = "hand-over"', 'model = "m"')
    }
    changed.add(asks(make_plans(other, others, parse("t", RULE)))[0].key)
    assert plain not in changed
    assert len(changed) == 3


def test_recorded_answers_replay_without_a_model() -> None:
    session, ledger = chat(12)
    policy = parse("t", RULE)
    live = make_plans(session, ledger, policy, lambda ask: Answer(f"Summary of {len(ask.content)}.", source="model"))
    known = {ask.key: structs.replace(answer, source="recorded") for plan in live for ask, answer in plan.asks}
    again = [*replay(structs.replace(session, recorded=RecordedFacts(known)), policy, ledger)]
    assert [plan.after.counts for plan in again] == [plan.after.counts for plan in live]
    assert [[p.body for p in plan.after.pieces] for plan in again] == [[p.body for p in plan.after.pieces] for plan in live]


@pytest.mark.parametrize(("shape", "roles"), [("user", ["user", "assistant"]), ("pair", ["user", "assistant"])])
def test_a_rendered_summary_alternates_with_what_follows(shape: str, roles: list[str]) -> None:
    session, ledger = chat(6)
    last = make_plans(session, ledger, parse("t", RULE + f'shape = "{shape}"'))[-1]
    sent = render(last.after, session)["messages"]
    assert [message["role"] for message in sent[:2]] == roles
    assert all(a["role"] != b["role"] for a, b in pairwise(sent))


def test_a_summary_in_the_system_prompt_stands_behind_the_system_prompt() -> None:
    session, ledger = chat(6)
    last = make_plans(session, ledger, parse("t", RULE + 'shape = "system"'))[-1]
    body = render(last.after, session)
    assert "Offline summary" in body["system"]
    assert body["messages"][0]["role"] == "user"


def test_long_tool_results_are_read_by_their_head_and_tail() -> None:
    builder = Builder("tools", "test")
    builder.add_message("user", "read it")
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a.py"}}
    builder.set_request(builder.add_message("assistant", [call]))
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "t", "content": "HEAD" + "z" * 9_000 + "TAIL"}])
    builder.set_request(builder.add_message("assistant", "done"))
    builder.add_message("user", "and now?")
    builder.set_request(builder.add_message("assistant", "nothing"))
    session = builder.build()
    plans = make_plans(session, build_ledger(session, CHARS), parse("t", RULE + "clip = 100"))
    content = asks(plans)[-1].content
    assert 'assistant: calls Read {"path":"a.py"}' in content
    tool = next(line for line in content.splitlines() if line.startswith("tool: "))
    assert tool.startswith("tool: HEAD")
    assert tool.endswith("TAIL")
    assert len(tool) < 120


def test_a_stage_condenses_what_it_left_out_before() -> None:
    session, ledger = chat(14, 240)
    text = RULE.replace('"condense"\ncap = 60', '"stage_by_fill"\ncap = 60\nkeep_turns = 2')
    policy = parse("t", text)
    plans = make_plans(session, ledger, policy)
    assert any(d.action == "drop" for plan in plans for d in plan.decisions)
    first = asks(plans)[0].content
    assert first.startswith("user: question 0?")


def test_every_prompt_is_a_file_and_an_unknown_one_is_named() -> None:
    assert {path.stem for path in PROMPTS.glob("*.txt")} >= {"summarise", "hand-over"}
    with pytest.raises(PolicyError, match="nonsense"):
        load_prompt("nonsense")


@pytest.mark.parametrize("tool_text", ["[tool interaction]", ""])
def test_the_summariser_reads_a_placeholder_for_a_message_with_calls_or_results(tool_text: str) -> None:
    builder = Builder("chat", "test")
    builder.add_message("user", "Look at both. " * 30)
    call = [{"type": "text", "text": "I look."}, *({"type": "tool_use", "id": i, "name": "read", "input": {}} for i in "ab")]
    builder.add_message("assistant", call)
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": i, "content": f"secret {i} " * 40} for i in "ab"])
    builder.set_request(builder.add_message("assistant", "Both are empty. " * 30))
    builder.add_message("user", "And now? " * 200)
    builder.set_request(builder.add_message("assistant", "Now too."))
    session = builder.build()
    text = RULE + f'keep_messages = 1\ntool_text = "{tool_text}"'
    (ask,) = asks(make_plans(session, build_ledger(session, CHARS), parse("t", text)))
    lines = ask.content.splitlines()
    if tool_text:
        assert lines[1:3] == ["assistant: [tool interaction]", "user: [tool interaction]"], (
            "one for each message, not each block"
        )
        assert "secret" not in ask.content
    else:
        assert "secret a" in ask.content
    assert lines[0].startswith("user: Look at both.")
    assert lines[-1].startswith("assistant: Both are empty.")
