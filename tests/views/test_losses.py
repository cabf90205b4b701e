"""What a policy lost: planted facts are found where it drops them, and nowhere where everything is kept."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import ROOT, examples
from hand_made import OPUS, call, result
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of
from turnscope.library.opening import load, replay
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Span, Usage
from turnscope.views.losses import (
    Losses,
    LostReference,
    find_blocks,
    find_departures,
    find_identifiers,
    find_losses,
    find_references,
)

FACTS = [
    "src/billing/rates.toml",
    "apply_discount",
    "parseInvoice",
    "482913",
    "the blue heron lands",
    "3.1415",
    "toolu_01AbCdEf",
]


def asked(facts: dict[int, str], uses: dict[int, str], turns: int = 30, where: str = "result") -> Session:
    """A session whose tool results (or prompts) say facts, and whose answers use them turns later."""
    builder = Builder("planted", "test")
    builder.add_message("user", "Begin.", origin="prompt")
    for n in range(turns):
        said = f'All is well. "{uses[n]}" is what it was.' if n in uses else "All is well."
        answer = builder.add_message("assistant", [{"type": "text", "text": said}, call(f"c{n}", path=f"part {n}")])
        builder.set_request(answer, model=OPUS, usage=Usage(input_tokens=1_000 + 100 * n, output_tokens=20))
        fact = f'It says "{facts[n]}" here.' if n in facts else "Nothing new."
        content = result(f"c{n}", fact if where == "result" else "Nothing new.")
        builder.add_message("user", [*content, {"type": "text", "text": fact if where == "prompt" else "go on"}])
    return builder.build()


def lost(session: Session, policy: str) -> tuple[Trace, Losses]:
    trace = replay(session, policy, ledger_of(session))
    return trace, find_losses(trace, find_references(session))


@pytest.mark.parametrize("fact", FACTS)
def test_every_kind_of_identifier_is_found_lost_with_its_block_and_the_decision_that_took_it(fact: str) -> None:
    session = asked({1: fact}, {28: fact})
    trace, found = lost(session, "last-20-messages")
    (hit,) = (hit for hit in found.hits if hit.text == fact)
    assert (hit.request, fact in session.blocks[hit.block].text, fact in session.blocks[hit.answer].text) == (28, True, True)
    decision = trace.get_decision(hit.by)
    assert (decision.rule, decision.action) == ("keep_last_messages", "drop")
    assert decision.edit.span
    assert decision.edit.span.start <= hit.block < decision.edit.span.stop
    assert found.per_request[28] == len([h for h in found.hits if h.request == 28])


def test_what_was_said_again_within_the_window_is_not_lost() -> None:
    session = asked({1: FACTS[0], 26: FACTS[0]}, {28: FACTS[0]})
    assert [hit for hit in lost(session, "last-20-messages")[1].hits if hit.text == FACTS[0]] == []


def test_what_a_stand_in_still_says_is_not_lost() -> None:
    session = asked({1: FACTS[0] + '" and so on' * 6_000}, {28: FACTS[0]})
    trace, found = lost(session, "short-tool-results")
    assert any(plan.is_changed for plan in trace.plans)
    assert [hit for hit in found.hits if hit.text == FACTS[0]] == []


def test_a_call_that_is_sent_in_another_form_still_says_what_is_handed_over() -> None:
    """Codex hands over a text where Anthropic's API wants an object: what it says is sent all the same."""
    builder = Builder("patched", "test")
    for _ in range(2):
        builder.add_message("user", "Begin.", origin="prompt")
        given = call("patch", "apply_patch") | {"input": '+- "tell me why this is so"\n+- "and how it came"'}
        builder.set_request(builder.add_message("assistant", [given]), model=OPUS)
        builder.add_message("user", result("patch", "done"))
    session = builder.build()
    assert "tell me why this is so" in find_references(session).uses[1]
    trace, found = lost(session, "keep-everything")
    assert any(d.edit.because == "a call's input must be an object" for plan in trace.plans for d in plan.decisions)
    assert found.hits == ()


def test_a_name_that_a_tool_gives_its_parameters_is_no_identifier_but_what_is_handed_over_is() -> None:
    builder = Builder("named", "test")
    for name in ("one", "two"):
        builder.add_message("user", "Begin.", origin="prompt")
        given = call(name, "Edit", old_string="first_value", path="a/b.py")
        builder.set_request(builder.add_message("assistant", [given]), model=OPUS)
        builder.add_message("user", result(name, "done"))
    (_, second) = find_references(builder.build()).uses
    assert set(second) == {"first_value", "a/b.py"}


def test_identifiers_are_taken_from_escaped_json_and_prose_alike() -> None:
    assert find_identifiers(r'{"path":"src\/a.py","text":"one\nrun_all()\n"}') >= {"run_all"}
    assert find_identifiers("It costs 12345 at `some place`, see docs/a-b/c.md.") == {"12345", "some place", "docs/a-b/c.md"}
    assert find_identifiers("Plain words, and a number: 12.") == set()


planted = st.dictionaries(st.integers(0, 29), st.sampled_from(FACTS), min_size=1, max_size=6)


@settings(max_examples=examples(25))
@given(planted, planted, st.sampled_from(["result", "prompt"]))
def test_whatever_is_planted_is_lost_where_no_block_of_the_request_says_it_and_only_there(
    facts: dict[int, str], uses: dict[int, str], where: str
) -> None:
    session = asked(facts, uses, where=where)
    assert lost(session, "keep-everything")[1].hits == ()
    assert lost(session, "as-recorded")[1].hits == ()
    trace, found = lost(session, "last-20-messages")
    expected = {
        (n, fact)
        for n, fact in uses.items()
        if any(fact in block.text for block in session.blocks[: session.requests[n].cut])
        and not any(fact in text for text in _texts(trace, n))
    }
    assert {(hit.request, hit.text) for hit in found.hits if hit.text in FACTS} == expected


def _texts(trace: Trace, n: int) -> list[Any]:
    pieces = [*trace.plans[n].seen.pieces]
    whole = [block.text for p in pieces if p.body is None for block in trace.session.blocks[p.start : p.stop]]
    parts = [part for piece in pieces for part in piece.body or ()]
    return whole + [part.text if part.ref is None else trace.session.blocks[part.ref].text for part in parts]


def test_when_a_text_left_is_told_for_every_policy() -> None:
    session = asked({1: FACTS[0]}, {})
    kept, cut = find_departures([replay(session, "keep-everything"), replay(session, "last-20-messages")], FACTS[0])
    assert (kept.spans, kept.out) == ((Span(2, 30),), None)
    assert len(cut.spans) == 1
    assert cut.out is not None
    assert (cut.spans[0].start, cut.out.since, cut.out.state) == (2, cut.spans[0].stop, "absent")
    assert "keep_last_messages" in cut.out.sentence
    assert find_departures([replay(session)], "said nowhere")[0].spans == ()


def test_a_block_is_asked_for_by_its_number_and_nothing_else_is_taken_for_one() -> None:
    session = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    traces = [replay(session, name) for name in ("keep-everything", "last-5-pairs")]
    kept, cut = find_departures(traces, "#3")
    assert kept.spans == next(traces[0].iter_shown_spans([3]))
    assert (kept.out, cut.spans) == (None, next(traces[1].iter_shown_spans([3])))
    assert cut.out == traces[1].explain(3, cut.spans[-1].stop)
    for text in ("#999999", "#", "#x", "3"):
        assert find_blocks(session, text) == tuple(block.at for block in session.blocks if text in block.text)


def test_each_loss_names_the_place_of_the_decision_that_put_it_out() -> None:
    session = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    trace = replay(session, "last-5-pairs")
    found = find_losses(trace, find_references(session))
    assert {hit.by for hit in found.hits} == found.decisions.keys()
    for number, (request, step) in found.decisions.items():
        assert trace.plans[request].decisions[step - 1] is trace.get_decision(number)


def test_a_loss_is_a_plain_tuple() -> None:
    assert LostReference(3, "a/b.py", 9, 2, 4)._asdict() == {"request": 3, "text": "a/b.py", "answer": 9, "block": 2, "by": 4}
