"""The plans of a large replay: planned again they are the same, whoever reads them, in any order."""

from __future__ import annotations

import pickle
import random

import pytest
import turnscope
from conftest import ROOT
from covering import select_covering
from turnscope.library import begin_replay, replay_record
from turnscope.planning import held_plans, policy
from turnscope.planning.trace import Trace
from turnscope.views.comparison import SharedFacts, build_row
from turnscope.views.stepper import build_steps

SAMPLES = ROOT / "sample_sessions"
STRETCH = 5


@pytest.fixture(scope="module", params=["cache-goes-cold", "thinking-grows", "tool-results-eat-the-window"])
def recorded(request: pytest.FixtureRequest) -> Trace:
    return turnscope.replay(turnscope.load(SAMPLES / f"{request.param}.jsonl"))


@pytest.fixture
def short() -> Trace:
    return turnscope.replay(turnscope.load(SAMPLES / "cache-goes-cold.jsonl"))


def replay_large(recorded: Trace, name: str, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """As if nothing but the first plan of every stretch fitted into memory."""
    monkeypatch.setattr(held_plans, "STRETCH", STRETCH)
    monkeypatch.setattr(held_plans, "MAX_BYTES", 0)
    monkeypatch.setattr(held_plans, "MAX_STRETCHES", 2)
    return replay_record(recorded, policy.load(name))


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("name", select_covering(policy.list_policies()))
def test_planned_again_every_plan_is_the_same(recorded: Trace, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replay_record(recorded, policy.load(name))
    large = replay_large(recorded, name, monkeypatch)
    count = len(whole.plans)
    assert [*large.plans] == [*whole.plans]
    order = random.Random(name).sample(range(count), min(count, 5))
    assert [large.plans[n] for n in order] == [whole.plans[n] for n in order]
    assert [*large.outlines] == [*whole.outlines]
    assert all(
        getattr(a, field) == getattr(b, field)
        for a, b in zip(large.outlines, whole.plans, strict=True)
        for field in a.__struct_fields__
    )


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize("name", ["balanced", "librechat-agents", "clear-tool-results", "jan"])
def test_whoever_reads_it_finds_the_same(short: Trace, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, shared = replay_record(short, policy.load(name)), SharedFacts.from_trace(short)
    expected = build_row(whole, shared), build_steps(whole)
    large = replay_large(short, name, monkeypatch)
    assert (build_row(large, shared), build_steps(large)) == expected
    last = len(whole.plans) - 1
    for at in range(0, len(short.session.blocks), 7):
        assert large.explain(at, last) == whole.explain(at, last)
    assert large.plans[3:9] == whole.plans[3:9]
    assert large.plans[: last // 2] == tuple(whole.plans)[: last // 2]
    assert large.plans[-1] == whole.plans[last]
    with pytest.raises(IndexError):
        large.plans[last + 1]


def test_only_the_first_of_each_stretch_and_what_was_read_last_is_held(short: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replay_large(short, "balanced", monkeypatch)
    first, second = large.plans[0], large.plans[1]
    assert large.plans[1] is second
    assert large.plans[-1] is large.plans[-1]
    for plan in large.plans:
        assert large.plans[plan.request.n] is plan, "whoever reads in step with another reads the same plans"
    assert large.plans[0] is first
    assert large.plans[1] is not second


def test_one_made_in_another_process_is_planned_again_here(short: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replay_large(short, "balanced", monkeypatch)
    assert large.held
    arrived: held_plans.HeldPlans = pickle.loads(pickle.dumps(large.held))
    arrived.take_over(begin_replay(short, policy.load("balanced"))[0].held or arrived)
    assert held_plans.PlanSequence(arrived) == large.plans


def test_a_small_replay_is_held_whole_until_it_is_let_go(short: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_plans, "STRETCH", STRETCH)
    trace = replay_record(short, policy.load("balanced"))
    assert trace.held
    plans, size = [*trace.plans], trace.held.size
    assert all(a is b for a, b in zip(plans, trace.plans, strict=True))
    trace.held.compact()
    assert trace.held.size < size
    assert [*trace.plans] == plans
    assert sum(a is b for a, b in zip(plans, trace.plans, strict=True)) < len(plans) / 2
