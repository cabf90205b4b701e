"""Laws of rules that are left out where a request only grew: every plan is the one that they would have made."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from weakref import ref

import pytest
import turnscope
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from msgspec import structs
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits
from turnscope.planning import policy as policies
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, Step, add_repairs
from turnscope.session.index import Index, get_index
from turnscope.session.model import Session

from tests.laws.test_policies import NAMES, limits, tight

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "sample_sessions").glob("*.jsonl"))
IDLING = [name for name in NAMES if any(part.rule.idle_from for part in add_repairs(policies.load(name)).rules)]


def run_always(policy: Policy) -> Policy:
    """The policy with rules that run at every request."""
    return replace(policy, rules=tuple(replace(part, rule=replace(part.rule, idle_from=None)) for part in policy.rules))


@settings(max_examples=examples(100))
@given(sessions, limits, st.sampled_from(IDLING))
def test_a_rule_that_is_left_out_would_have_done_nothing(session: Session, limit: int, name: str) -> None:
    policy, ledger = add_repairs(tight(name, limit)), ledger_of(session)
    assert [*replay(session, policy, ledger)] == [*replay(session, run_always(policy), ledger)]


@pytest.mark.parametrize(("name", "file"), [*zip(IDLING, cycle(SAMPLES), strict=False)])
def test_the_same_holds_on_a_whole_session(name: str, file: Path) -> None:
    session, policy = turnscope.load(file), add_repairs(policies.load(name))
    ledger = ledger_of(session)
    assert [*replay(session, policy, ledger)] == [*replay(session, run_always(policy), ledger)]


def test_most_requests_of_a_session_that_nothing_cuts_leave_such_rules_out() -> None:
    session, ran = turnscope.load(SAMPLES[0].with_name("cache-goes-cold.jsonl")), list[int]()
    policy = policies.load("keep-everything")

    def watch(part: Step) -> Step:
        def edits(envelope: Envelope, ctx: Ctx, params: object) -> Edits:
            ran.append(ctx.request.n)
            return part.rule.edits(envelope, ctx, params)

        return replace(part, rule=replace(part.rule, edits=edits)) if part.rule.idle_from else part

    watched = replace(policy, rules=tuple(map(watch, policy.rules)))
    assert [*replay(session, watched, ledger_of(session))] == [*replay(session, policy, ledger_of(session))]
    often = sum(part.rule.idle_from is not None for part in policy.rules) * len(session.requests)
    assert often
    assert len(ran) < often / 4


def test_what_is_read_of_a_session_is_read_once_for_its_replays_and_keeps_no_session_alive() -> None:
    session, read = turnscope.load(SAMPLES[0]), list[str]()

    @memoize
    def note(_session: Session, _index: Index) -> str:
        read.append("once")
        return "known"

    def edits(envelope: Envelope, ctx: Ctx, params: object) -> Edits:
        assert note(ctx) == "known"
        yield from ()

    policy = policies.load("keep-everything")
    step = policy.rules[0]
    asking = replace(policy, rules=(replace(step, rule=replace(step.rule, edits=edits, idle_from=None)),))
    for _ in range(3):
        assert [*replay(session, asking, ledger_of(session))]
    assert read == ["once"]
    assert get_index(session) == get_index(structs.replace(session)) == Index.build(session)
    assert get_index(session).shared is get_index(session).shared is not get_index(structs.replace(session)).shared
    gone = ref(session)
    del session
    gc.collect()
    assert gone() is None
