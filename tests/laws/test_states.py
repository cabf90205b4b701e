"""Laws of what rules remember from request to request, and of the facts of their decisions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
import turnscope
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from msgspec import structs
from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan, StepState
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.errors import RuleError
from turnscope.planning import policy as policies
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan, replay
from turnscope.planning.policy import Policy, Step
from turnscope.planning.rule_registry import find_rule
from turnscope.planning.trace import build_own_ledger
from turnscope.ports.librechat.cuts import unpack, widen
from turnscope.session.model import Edit, Session, Usage

from tests.laws.test_fold import first
from tests.laws.test_policies import NAMES, limits, tight

SAMPLES = Path(__file__).resolve().parents[2] / "sample_sessions"
FILES = sorted(path.name for path in SAMPLES.glob("*.jsonl"))
STATEFUL = [name for name in NAMES if any(part.rule.state is not None for part in policies.load(name).rules)]


def fold_plans(session: Session, policy: Policy, basis: Basis, between: Callable[[Plan], Plan]) -> Iterator[Plan]:
    """Plan request by request; each starts from what `between` makes of the plan before."""
    previous: Plan | None = None
    for request in session.requests:
        plan = plan_step(previous, session, request, policy, basis)
        yield plan
        previous = reconcile_plan(between(plan))


def keep_plan(plan: Plan) -> Plan:
    return plan


def restore_plan(plan: Plan) -> Plan:
    """The plan with its states as they come back from their stored form; they are equal, parameters too."""
    back = tuple(_restore_state(known) for known in plan.states)
    assert back == plan.states
    return structs.replace(plan, states=back)


def _restore_state(known: StepState) -> StepState:
    rule = find_rule(known.rule)
    for codec in (msgspec.json, msgspec.msgpack):
        params = codec.decode(codec.encode(known.params), type=rule.params)
        state = codec.decode(codec.encode(known.state), type=rule.state | None)
        known = StepState(known.rule, params, state)
    return known


@cache
def sample(name: str) -> Session:
    session: Session = turnscope.load(SAMPLES / name)
    return session


@cache
def ledger_of_sample(name: str) -> Ledger:
    return turnscope.replay(sample(name), "as-recorded").ledger


def test_the_policies_that_ported_tools_and_ours_need_memory() -> None:
    assert {"balanced", "cline-classic", "librechat-agents", "roo", "ladder"} <= set(STATEFUL)


def agree(session: Session, policy: Policy, basis: Basis) -> None:
    """The plans are the same where each goes on from stored states, and the facts of their decisions are JSON."""
    plans = list(fold_plans(session, policy, basis, keep_plan))
    again = fold_plans(session, policy, basis, restore_plan) if any(plan.states for plan in plans) else iter(plans)
    for plan in plans:
        assert plan == next(again)
        facts = {id(d.edit.facts): d.edit.facts for d in (*plan.decisions, *plan.server)}
        assert all(json.loads(json.dumps(told, allow_nan=False)) == told for told in facts.values()), plan.decisions


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize(("name", "file"), [*zip(NAMES, cycle(FILES), strict=False)])
def test_over_the_samples_states_are_stored_and_go_on_to_the_same_plans_and_facts_are_json(name: str, file: str) -> None:
    session, policy, ledger = sample(file), policies.load(name), ledger_of_sample(file)
    for chosen in (policy, tight(name, ledger.total[-1] // 3)):
        agree(session, chosen, Basis.of(session, ledger, build_own_ledger(session, chosen)))


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(16))
@given(session=sessions, limit=limits)
def test_states_are_stored_and_go_on_to_the_same_plans_and_facts_are_json(name: str, session: Session, limit: int) -> None:
    agree(session, tight(name, limit), Basis.of(session, ledger_of(session)))


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", STATEFUL)
@settings(max_examples=examples(14))
@given(session=sessions, limit=limits, data=st.data())
def test_the_first_requests_alone_leave_the_same_states(name: str, session: Session, limit: int, data: st.DataObject) -> None:
    policy = tight(name, limit)
    n = data.draw(st.integers(1, len(session.requests)))
    alone = first(session, n)
    whole, part = (list(replay(s, policy, ledger_of(s)))[:n] for s in (session, alone))
    assert [(plan.after, plan.states) for plan in part] == [(plan.after, plan.states) for plan in whole]


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", STATEFUL)
@settings(max_examples=examples(14))
@given(session=sessions, limit=limits, data=st.data())
def test_a_chat_that_is_resumed_goes_on_from_the_states_that_its_replay_ends_with(
    name: str, session: Session, limit: int, data: st.DataObject
) -> None:
    """As live chat resumes: what was sent so far is replayed, then `step` goes on, over a session that grows block by block."""
    bare = structs.replace(session, requests=tuple(structs.replace(r, usage=None) for r in session.requests))
    policy, whole = tight(name, limit), list(replay(bare, tight(name, limit), ledger_of(bare)))
    n = data.draw(st.integers(1, len(whole)))
    *_, last = replay(first(bare, n), policy, ledger_of(first(bare, n)))
    previous = reconcile_plan(last)
    for request in bare.requests[n:]:
        there = first(bare, request.n + 1)
        previous = reconcile_plan(plan_step(previous, there, request, policy, Basis.of(there, ledger_of(there))))
        assert (previous.after, previous.states) == (whole[request.n].after, whole[request.n].states)


def test_a_text_that_a_cut_left_with_half_a_character_is_stored_as_it_is() -> None:
    """LibreChat counts UTF-16 units, so that its cuts can part a character outside the basic plane."""
    session = make([[("tool", 10)] * 3] * 2)
    blocks = [
        structs.replace(b, content={**b.raw, "content": "\U0001f600" * 900 + "\n"}) if b.kind == "tool_result" else b
        for b in session.blocks
    ]
    session = structs.replace(session, blocks=tuple(blocks))
    halves, whole = 0, widen("\U0001f600" * 900 + "\n")
    for limit in range(1_900, 2_000, 7):
        policy, basis = tight("librechat-agents", limit), Basis.of(session, ledger_of(session))
        agree(session, policy, basis)
        plans = fold_plans(session, policy, basis, keep_plan)
        texts = [text for plan in plans for text in plan.get_state("prune_by_pressure").held.texts if text]
        halves += sum(len(unpack(text, whole)[:-1].split("\n\n…")[0]) % 2 for text in texts)
    assert halves, "no cut parted a character"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["cline-classic", "librechat-agents"])
def test_no_decision_is_there_for_its_memory_alone(name: str) -> None:
    trace = turnscope.replay(sample("tool-results-eat-the-window.jsonl"), name)
    made = [decision for plan in trace.plans for decision in plan.decisions]
    assert made
    assert all(decision.splice for decision in made), (
        "on this session every look of these rules that did nothing says nothing new"
    )
    assert all(plan.states for plan in trace.plans)


# --- whose state is whose ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Params:
    by: int = 1


def _count(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    counted: int = (ctx.state or 0) + params.by
    yield Edit("keep", f"counted to {counted}")
    return counted


COUNT = Rule("count", "Count.", _count, Params, state=int)
TALK = make([[("say", 10)], [("say", 10)], [("tool", 10)]], usage=False)


def list_counts(plan: Plan) -> list[tuple[int, int]]:
    return [(known.params.by, known.state) for known in plan.states]


def make_counting(*by: int) -> Policy:
    return Policy("test", "t", "d", "s", "f", rules=tuple(Step(COUNT, Params(n)) for n in by))


def test_each_step_of_a_policy_has_a_state_of_its_own_also_where_one_rule_stands_in_it_twice() -> None:
    *_, last = replay(TALK, make_counting(1, 10, 1), ledger_of(TALK))
    n = len(TALK.requests)
    assert list_counts(last) == [(1, n), (10, 10 * n), (1, n)]


def test_of_a_policy_that_changed_on_the_way_only_the_same_steps_go_on() -> None:
    def choose_policy(request: Any) -> Policy:
        return make_counting(1, 10) if request.n < 2 else make_counting(10, 5)

    plans = list(replay(TALK, choose_policy, ledger_of(TALK)))
    assert list_counts(plans[1]) == [(1, 2), (10, 20)]
    assert list_counts(plans[2]) == [(10, 30), (5, 5)]


def test_a_rule_that_did_not_run_at_the_previous_request_starts_anew() -> None:
    def choose_policy(request: Any) -> Policy:
        return make_counting() if request.n == 1 else make_counting(1)

    plans = list(replay(TALK, choose_policy, ledger_of(TALK)))
    assert [list_counts(plan) for plan in plans[:3]] == [[(1, 1)], [], [(1, 1)]]


def test_two_equal_steps_keep_their_places_where_the_first_of_them_forgets() -> None:
    def forgetful(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
        if ctx.request.n == 0:
            asked.append(ctx)
            return "first" if len(asked) == 1 else "second"
        yield Edit("keep", str(ctx.state))
        return None if ctx.state == "first" else ctx.state

    asked: list[Ctx] = []
    rule = Rule("forgetful", "Forget.", forgetful, Params, state=str)
    twice = Policy("test", "t", "d", "s", "f", rules=(Step(rule, Params()), Step(rule, Params())))
    plans = list(replay(TALK, twice, ledger_of(TALK)))
    assert [[d.edit.because for d in plan.decisions] for plan in plans[1:3]] == [["first", "second"], ["None", "second"]]


def test_a_rule_that_returns_a_state_has_to_say_of_which_type() -> None:
    undeclared = Rule("count", "Count.", _count, Params)
    with pytest.raises(RuleError, match="declares none") as error:
        list(replay(TALK, Policy("test", "t", "d", "s", "f", rules=(Step(undeclared, Params()),)), ledger_of(TALK)))
    assert error.value.hint == "Set `state` in its RULE."


def test_a_refusal_tells_what_was_billed_so_far_also_where_requests_between_were_sent() -> None:
    session = make([[("say", 4_000)]] * 6)
    session = structs.replace(
        session, requests=tuple(structs.replace(r, usage=Usage(input_tokens=100, output_tokens=7)) for r in session.requests)
    )
    refusing = Step(find_rule("refuse_when_over"), find_rule("refuse_when_over").params())

    def choose_policy(request: Any) -> Policy:
        limit = 1_000_000 if request.n % 3 == 2 else 10
        return Policy("test", "t", "d", "s", "f", budget=BudgetParams(formula="fixed", tokens=limit), rules=(refusing,))

    told = {
        plan.request.n: d.edit.facts["usage_so_far"]
        for plan in replay(session, choose_policy, ledger_of(session))
        for d in plan.decisions
        if d.action == "refuse"
    }
    assert len(told) > 4
    assert told == {n: 107 * n for n in told}
