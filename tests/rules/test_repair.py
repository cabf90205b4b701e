"""Repair after rules that tear: whatever they cut, the rendered request is one that a provider accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
import turnscope
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.difference import find_changed_spans, find_changes
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Memory, NoParams, Rule
from turnscope.planning.assemble import replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import Policy, Step, add_repairs, load
from turnscope.planning.render import render
from turnscope.planning.rule_registry import load_rules
from turnscope.rules import repair
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Session, Span

MODEL = "claude-opus-4-5"
SAMPLES = Path(__file__).resolve().parents[2] / "sample_sessions"


@dataclass(frozen=True, slots=True)
class Cuts:
    """Shares of the conversation at which one span is dropped, and how many blocks it has."""

    at: float
    blocks: int


def _tear(envelope: Envelope, ctx: Ctx, params: Cuts) -> Edits:
    start = int(ctx.request.cut * params.at)
    for span in ctx.index.find_conversation_spans(start, min(start + params.blocks, ctx.request.cut - 1)):
        if all(envelope.find_piece(at).body is None for at in range(*span)):
            yield Edit("drop", "torn on purpose", span)


def torn(cuts: list[Cuts], memory: Memory) -> Policy:
    rule = Rule("tear", "Drop blocks wherever they stand.", _tear, Cuts, memory)
    repair = Step(load_rules()["repair"], load_rules()["repair"].params())
    return Policy("torn", "", "", "", "", budget=BudgetParams(), rules=(*(Step(rule, cut) for cut in cuts), repair))


cuts = st.lists(st.builds(Cuts, st.floats(0, 0.9), st.integers(1, 6)), min_size=1, max_size=3)


@given(sessions, cuts, st.sampled_from(["fresh", "remembers", "monotone"]))
def test_what_is_torn_by_blocks_is_accepted_after_repair(session: Session, cut: list[Cuts], memory: Memory) -> None:
    for plan in replay(session, torn(cut, memory), ledger_of(session)):
        assert lint(render(plan.after, session), MODEL) == (), plan.decisions


@given(sessions, cuts, st.sampled_from(["fresh", "remembers", "monotone"]))
def test_changes_between_two_envelopes_are_found_block_by_block(session: Session, cut: list[Cuts], memory: Memory) -> None:
    plans = [*replay(session, torn(cut, memory), ledger_of(session))]
    for old, new in pairwise(plans):
        said = {at for span in find_changed_spans(old.after, new.after) for at in range(*span)}
        true = {at for at in range(new.after.stop) if at >= old.after.stop or _state(old.after, at) != _state(new.after, at)}
        assert said == true


def _state(envelope: Envelope, at: int) -> object:
    piece = envelope.find_piece(at)
    told = all(part.ref is None and part.raw is None for part in piece.body or ())
    return piece.body if not piece.body else () if told else (piece.body, piece.start)


def test_a_result_whose_call_was_cut_is_left_out() -> None:
    session = _call_and_result()
    policy = torn([Cuts(0.45, 1)], "remembers")  # the call, block 1 of 3 and of 5
    plans = [*replay(session, policy, ledger_of(session))]
    mended = [d.edit.because for plan in plans for d in plan.decisions if d.action == "repair"]
    assert "the call of this result was dropped" in mended
    assert all(lint(render(plan.after, session), MODEL) == () for plan in plans)


def test_a_synthetic_result_goes_once_the_true_one_is_there() -> None:
    builder = Builder("late", "test")
    builder.add_message("user", "go")
    builder.set_request(
        builder.add_message("assistant", [{"type": "tool_use", "id": "a", "name": "Run", "input": {}}]), model=MODEL
    )
    builder.add_unanswered(model=MODEL)  # sent before the result was there
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "a", "content": "42"}])
    builder.set_request(builder.add_message("assistant", "done"), model=MODEL)
    session = builder.build()
    plans = [*replay(session, torn([Cuts(0.99, 1)], "fresh"), ledger_of(session))]
    sent = [render(plan.after, session)["messages"] for plan in plans]
    assert sent[1][-1]["content"][0]["content"] == "[No result of this call is shown.]"
    assert sent[2][-1]["content"] == [{"type": "tool_result", "tool_use_id": "a", "content": "42"}]


def test_repair_looks_at_what_changed_alone(monkeypatch: object) -> None:
    """A request that only grew makes repair look at new blocks: the number of looks does not grow with the session."""
    builder = Builder("long", "test")
    for n in range(400):
        builder.add_message("user", f"prompt {n}")
        builder.set_request(builder.add_message("assistant", f"answer {n}"), model=MODEL)
    session = builder.build()
    plans = [*replay(session, torn([], "fresh"), ledger_of(session))]
    for old, new in pairwise(plans):
        assert find_changed_spans(old.after, new.after) == [Span(old.after.stop, new.after.stop)]


def _call_and_result() -> Session:
    builder = Builder("pair", "test")
    builder.add_message("user", "go")
    builder.set_request(
        builder.add_message("assistant", [{"type": "tool_use", "id": "a", "name": "Run", "input": {}}]), model=MODEL
    )
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "a", "content": "42"}])
    builder.set_request(builder.add_message("assistant", "done"), model=MODEL)
    builder.add_message("user", "thanks")
    builder.set_request(builder.add_message("assistant", "sure"), model=MODEL)
    return builder.build()


@given(sessions, cuts, st.sampled_from(["fresh", "remembers", "monotone"]))
def test_a_rule_is_told_of_every_change_since_the_last_plan(session: Session, cut: list[Cuts], memory: Memory) -> None:
    def look(envelope: Envelope, ctx: Ctx, _params: NoParams) -> Edits:
        told = {at for span in find_changes(envelope, ctx) for at in range(*span)}
        seen = {
            at
            for span in find_changed_spans(ctx.previous.after if ctx.previous else Envelope(), envelope)
            for at in range(*span)
        }
        assert seen <= told
        yield from ()

    policy = torn(cut, memory)
    looks = Step(Rule("look", "Compare what is told with what is seen.", look, NoParams), NoParams())
    assert [*replay(session, replace(policy, rules=(looks, *policy.rules, looks)), ledger_of(session))]


def test_what_was_said_for_missing_calls_is_taken_back_when_they_stand_again() -> None:
    """A cut that is decided anew leaves a call, its result and the task out of the second request alone."""
    session = make([[("two", 0)], []], True, False)
    plans = [*replay(session, torn([Cuts(0.25, 3)], "fresh"), ledger_of(session))]
    assert [bool(plan.decisions) for plan in plans] == [False, True, True]
    assert [part.text for piece in plans[2].after.pieces for part in piece.body or () if part.kind == "text"] == []
    assert lint(render(plans[2].after, session), MODEL) == ()


def test_a_call_that_is_told_as_text_stays_text() -> None:
    """Its input was no object, which a provider would reject of a call; of a text it rejects nothing."""
    builder = Builder("patch", "test")
    builder.add_message("user", "go")
    call = {"type": "tool_use", "id": "a", "name": "patch", "input": "*** Begin Patch"}
    builder.set_request(builder.add_message("assistant", [call]), model=MODEL)
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "a", "content": "done"}])
    builder.set_request(builder.add_message("assistant", "It is patched."), model=MODEL)
    builder.add_message("user", "thanks")
    builder.set_request(builder.add_message("assistant", "You are welcome."), model=MODEL)
    session = builder.build()
    plans = [*replay(session, load("chainreview-today"), ledger_of(session))]
    told = render(plans[-1].after, session)["messages"][1]["content"]
    assert [(block["type"], block["text"]) for block in told] == [("text", "[patch] done"), ("text", "It is patched.")]
    assert all(lint(render(plan.after, session), MODEL) == () for plan in plans)


def test_what_came_whole_is_left_alone_as_when_each_block_of_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose end needs no repair is known by its span; reading it block by block finds the same."""
    names, samples = ("keep-everything", "last-20-messages", "clear-tool-results"), sorted(SAMPLES.glob("*.jsonl"))[:2]
    cases = [(load(name), session) for session in map(turnscope.load, samples) for name in names]
    quick = [[*replay(session, add_repairs(policy), ledger_of(session))] for policy, session in cases]
    asked = list[Span]()

    def read_each_block(_envelope: Envelope, _ctx: Ctx, span: Span) -> bool:
        asked.append(span)
        return False

    monkeypatch.setattr(repair, "_stands", read_each_block)
    slow = [[*replay(session, add_repairs(policy), ledger_of(session))] for policy, session in cases]
    assert quick == slow
    assert asked
