"""Laws of what fresh rules do: what they do to one request and not to the next stands again, what they repeat is told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from msgspec import structs
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.difference import build_lapse_edits
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx, Edits, Memory, Rule
from turnscope.planning import assemble
from turnscope.planning.assemble import replay
from turnscope.planning.policy import REPAIRS, Policy, Step, list_policies, load
from turnscope.planning.render import render
from turnscope.planning.trace import Trace, trace
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Part, Session, Span
from turnscope.views.parameters import apply_changes


@dataclass(frozen=True, slots=True)
class Cut:
    """What is done to a request: a share of the conversation, that many blocks, and what stands for them ("" = nothing)."""

    at: float
    blocks: int
    text: str


@dataclass(frozen=True, slots=True)
class Cuts:
    """What is done to each request, by its number; `at_once`: as one tuple of edits, without the notes."""

    cuts: Mapping[int, Cut] = field(default_factory=dict)
    at_once: bool = False


def _drop_conversations(envelope: Envelope, ctx: Ctx, params: Cuts) -> Edits:
    cut = params.cuts.get(ctx.request.n)
    if cut is None:
        return
    start, made = int(ctx.request.cut * cut.at), list[Edit]()
    for span in ctx.index.find_conversation_spans(start, min(start + cut.blocks, ctx.request.cut)):
        if all(envelope.find_piece(at).body is None for at in range(*span)):
            made.append(Edit("truncate" if cut.text else "drop", "law", span, (Part(text=cut.text),) if cut.text else ()))
            if not params.at_once:
                yield made.pop()
                yield Edit("insert", "law", Span(span.start, span.start), (Part(text="note"),), slot="note")
    yield tuple(made)


CUTS = st.dictionaries(
    st.integers(0, 6), st.builds(Cut, st.floats(0, 0.9), st.integers(1, 5), st.sampled_from(["", "in short"])), max_size=5
)
MEMORIES = st.lists(st.sampled_from(["fresh", "monotone", "remembers"]), min_size=1, max_size=2)


def make_plans(session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory], *, at_once: bool = False) -> list[Plan]:
    steps = tuple(
        Step(Rule("cut", "Cut.", _drop_conversations, Cuts, memory), Cuts(cut, at_once))
        for cut, memory in zip(cuts, memories, strict=False)
    )
    return [*replay(session, Policy("law", "", "", "", "", budget=BudgetParams(), rules=steps), ledger_of(session))]


@given(sessions, st.lists(CUTS, min_size=2, max_size=2), MEMORIES)
def test_the_model_sees_what_is_sent_where_its_server_leaves_nothing_out(
    session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory]
) -> None:
    left_out = False
    for plan in make_plans(session, cuts, memories):
        left_out = left_out or bool(plan.server)
        assert left_out or render(plan.seen, session) == render(plan.after, session)
        assert left_out or plan.seen.counts == plan.after.counts


@given(sessions, st.lists(CUTS, min_size=2, max_size=2), MEMORIES)
def test_what_lapsed_is_told_by_edits_that_put_it_back(
    session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory]
) -> None:
    ledger = ledger_of(session)
    for old, new in pairwise(make_plans(session, cuts, memories)):
        stands = old.after.grow(new.request.cut, ledger)
        for edit in build_lapse_edits(old.after, new.before):
            stands = stands.replace(edit, 0, ledger)[0]
        assert render(stands, session) == render(new.before, session)
        assert stands.counts == new.before.counts


# --- what is repeated -------------------------------------------------------------------------------------------------------

FRESH = [
    name
    for name in list_policies()
    if any(p.rule.memory == "fresh" and not p.rule.sends and p.rule.name not in REPAIRS for p in load(name).rules)
]  # what repairs finds nothing to do in a session that is whole
IN_TOKENS = {"multi-turn-summary-listing": {"2.above": 4_000}}  # what is no share of a window, made for a small session
LONG = make([[("tool", 400), ("think", 60), ("tool", 900)], [("say", 200)]] * 14, system=True)


def agree(session: Session, told: list[Plan], anew: list[Plan]) -> None:
    """Two replays send the same, think the same of it, and each says how it came about."""
    for one, two in zip(told, anew, strict=True):
        assert render(one.after, session) == render(two.after, session)
        assert render(one.seen, session) == render(two.seen, session)
        assert (one.after.counts, one.seen.counts) == (two.after.counts, two.seen.counts)
        assert (one.verdict, one.model, one.states, one.calibration) == (two.verdict, two.model, two.states, two.calibration)
        assert (one.kept.counts, one.base.counts) == (two.kept.counts, two.base.counts)
        stands = one.before
        for decision in one.decisions:
            assert decision.before == stands.tokens
            stands = stands.redo(decision.splice) if decision.splice else stands
            assert decision.after == stands.tokens
        assert [*stands.pieces] == [*one.after.pieces]
    numbers = [decision.seq for plan in told for decision in plan.decisions]
    assert numbers == [*range(len(numbers))]


@given(sessions, st.lists(CUTS, min_size=2, max_size=2), MEMORIES, st.booleans())
def test_what_is_sent_does_not_depend_on_what_is_told_again(
    session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory], at_once: bool
) -> None:
    with patch.object(assemble, "continue_previous", lambda *_: None):
        anew = make_plans(session, cuts, memories, at_once=at_once)
    agree(session, make_plans(session, cuts, memories, at_once=at_once), anew)


def test_edits_that_repeat_those_of_the_request_before_are_not_applied_anew() -> None:
    builder, applied, apply = Builder("a", "a"), list[int](), Envelope.replace_each
    for n in range(60):
        builder.add_message("user", f"One question, number {n}.")
        builder.add_message("user", f"And one more, number {n}.")
        builder.set_request(builder.add_message("assistant", f"Answer {n}."), model="m")

    def count(self: Envelope, edits: Sequence[Edit], *given: Any) -> Any:
        applied.append(len(edits))
        return apply(self, edits, *given)

    session = builder.build()
    with patch.object(Envelope, "replace_each", count):
        plans = [*replay(session, load("jan"), ledger_of(session))]
    assert len(plans[-1].fresh_edits or ()) == 60
    assert sum(len(plan.decisions) for plan in plans) == 60
    assert sum(applied) < 5


def replay_twice(name: str) -> tuple[Trace, Trace]:
    """The long session under a policy in a window that it outgrows, as told and with everything decided again."""
    policy, ledger = apply_changes(load(name), IN_TOKENS.get(name, {})), ledger_of(LONG)
    small = structs.replace(LONG, window=ledger.total[-1] // 4)
    told = trace(small, policy, ledger)
    with patch.object(assemble, "continue_previous", lambda *_: None):
        return told, trace(small, policy, ledger)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", FRESH)
def test_a_shipped_policy_sends_the_same_and_never_tells_more(name: str) -> None:
    told, anew = replay_twice(name)
    agree(told.session, [*told.plans], [*anew.plans])
    many, few = (sum(bool(d.splice) for plan in t.plans for d in plan.decisions) for t in (anew, told))
    assert 0 < few <= many
    for n in range(6, len(told.plans), 33):  # each looks back through all requests before it
        for at in range(told.plans[n].request.cut):
            one, two = told.explain(at, n), anew.explain(at, n)
            assert (one.state, one.since, one.by) == (two.state, two.since, two.by)
            assert (one.decision is None) == (two.decision is None)
            if one.decision and two.decision:
                assert one.decision.action == two.decision.action
                assert one.since <= one.decision.request <= two.decision.request <= n


def test_what_is_out_since_a_request_is_out_by_its_decision() -> None:
    told, anew = replay_twice("last-5-pairs")
    repeats = [n for n, (a, b) in enumerate(zip(told.plans, anew.plans, strict=True)) if b.is_changed and not a.is_changed]
    assert repeats, "no request only repeats what the one before decided"
    for n in (repeats[0], repeats[len(repeats) // 2], repeats[-1]):
        out = [why for why in (told.explain(at, n) for at in range(told.plans[n].request.cut)) if why.state == "absent"]
        assert out
        for why in out:
            assert why.decision
            assert why.since == why.decision.request < n


def test_what_lapses_without_a_word_stands_again() -> None:
    cut = Cut(0.3, 2, "")
    plans = make_plans(LONG, [{1: cut, 2: cut, 3: cut}], ["fresh"])
    assert plans[1].is_changed
    assert not plans[5].is_changed
    assert plans[4].fresh_edits == ()
    assert all(a.request.cut <= b.request.cut for a, b in pairwise(plans))
    assert [piece.body for piece in plans[5].after.pieces] == [None]
