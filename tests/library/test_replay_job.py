"""Replays under way: what is there is the beginning of the whole, whoever looks shares it, and nothing grows unseen."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import turnscope
from conftest import ROOT
from covering import select_covering
from turnscope.envelope.plan import Plan
from turnscope.library import ReplayCache, ReplayJob, begin_replay, job, replay_job
from turnscope.library.replay_job import AHEAD
from turnscope.planning import held_plans, policy
from turnscope.planning.trace import Trace
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import get_index
from turnscope.views.overflow_tree import find_over_limit
from turnscope.views.rejections import find_rejections, select_rejections
from turnscope.views.stepper import build_steps

SAMPLE = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return turnscope.replay(turnscope.load(SAMPLE))


@pytest.fixture(scope="module")
def short() -> Trace:
    return turnscope.replay(turnscope.load(SAMPLE.with_name("cache-goes-cold.jsonl")))


class Gate:
    """Plans that come as far as a test lets them."""

    def __init__(self, recorded: Trace, name: str = "balanced") -> None:
        self.whole, self._plans = begin_replay(recorded, policy.load(name))
        self._open = threading.Semaphore(0)
        self.requested = self.taken = 0

    def let(self, many: int) -> None:
        self._open.release(many)

    def plans(self) -> Iterator[Plan]:
        for plan in self._plans:
            self.requested += 1
            self._open.acquire()
            self.taken += 1
            yield plan


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.005)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", select_covering(policy.list_policies()))
def test_at_its_end_it_is_what_a_replay_gives(short: Trace, name: str) -> None:
    run = ReplayJob("k", *begin_replay(short, policy.load(name)))
    run.poll()
    run.wait(60)
    run.poll()
    stage = run.stage
    whole = turnscope.replay(short.session, name, short.ledger)
    assert (run.state, run.done) == ("done", len(whole.plans))
    assert stage
    assert (stage.trace.plans, stage.trace.fits) == (whole.plans, whole.fits)
    assert stage.steps == build_steps(whole)


def test_a_session_without_usage_is_fitted_the_same(recorded: Trace) -> None:
    from msgspec import structs

    bare = tuple(structs.replace(request, usage=None) for request in recorded.session.requests)
    trace = turnscope.replay(structs.replace(recorded.session, requests=bare))
    whole, _ = begin_replay(trace, policy.load("balanced"))
    assert whole.fits == turnscope.replay(trace.session, "balanced").fits


def test_a_replay_leaves_the_counts_of_its_session_as_they_are(recorded: Trace) -> None:
    before = len(recorded.ledger.memo)
    run = ReplayJob("k", *begin_replay(recorded, policy.load("one-line-calls")))
    run.poll()
    run.wait(60)
    assert run.stage
    assert any(plan.is_changed for plan in run.stage.trace.plans)
    assert len(recorded.ledger.memo) == before


def test_what_is_there_is_the_beginning_of_the_whole(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_job, "FIRST_STAGE", 0.0)
    gate = Gate(recorded)
    run = ReplayJob("k", gate.whole, gate.plans())
    run.poll()
    assert run.stage is None
    gate.let(150)
    until(lambda: gate.taken == 150 and run.stage)
    run.poll()
    stage = run.stage
    assert stage
    assert 0 < len(stage) <= 150 < run.count
    whole = turnscope.replay(recorded.session, "balanced", recorded.ledger)
    assert stage.trace.plans == whole.plans[: len(stage)]
    assert [stage.trace.count_tokens(n) for n in range(len(stage))] == [whole.count_tokens(n) for n in range(len(stage))]
    last = whole.session.blocks[-1].at
    assert stage.trace.explain(last, len(stage) - 1).state == "later"
    run.cancel()
    gate.let(1)
    run.wait(20)


def test_cancelled_it_keeps_what_is_there_and_can_go_on(recorded: Trace) -> None:
    gate = Gate(recorded)
    run = ReplayJob("k", gate.whole, gate.plans())
    run.poll()
    gate.let(99)
    until(lambda: gate.requested == 100)  # else it may look for what interrupts it before it takes another plan
    run.cancel()
    gate.let(1)
    run.wait(20)
    assert (run.state, run.done) == ("cancelled", 100)
    run.poll()
    stage = run.stage
    assert stage
    assert len(stage) == 100
    assert run.state == "cancelled", "to look at it does not begin it again"
    run.resume()
    gate.let(run.count)
    run.wait(60)
    assert run.state == "done"
    assert run.stage
    assert run.stage.trace.plans == turnscope.replay(recorded.session, "balanced", recorded.ledger).plans


def test_it_waits_while_nobody_looks(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "IDLE_TIMEOUT", 0.05)
    gate = Gate(recorded)
    run = ReplayJob("k", gate.whole, gate.plans())
    run.poll()
    time.sleep(0.1)
    gate.let(1)
    until(lambda: run.state == "waiting")
    assert run.done == 1
    monkeypatch.setattr(job, "IDLE_TIMEOUT", 60.0)
    run.poll()
    gate.let(run.count)
    run.wait(60)
    assert run.state == "done"


def test_a_large_replay_comes_to_its_end_and_holds_less(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ReplayJob("k", *begin_replay(recorded, policy.load("balanced")))
    small.poll()
    small.wait(60)
    monkeypatch.setattr(held_plans, "STRETCH", 4)
    monkeypatch.setattr(held_plans, "MAX_BYTES", 200_000)
    run = ReplayJob("k", *begin_replay(recorded, policy.load("balanced")))
    run.poll()
    run.wait(60)
    assert (run.state, run.done) == ("done", run.count)
    assert run.stage
    assert small.stage
    assert run.stage.steps == small.stage.steps
    assert run.stage.trace.plans == small.stage.trace.plans
    assert run.held - len(run.stage.steps.data) < (small.held - len(small.stage.steps.data)) / 2


def test_a_large_replay_is_planned_once_for_all_that_its_stages_hold(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = turnscope.replay(recorded.session, "condense-oldest", recorded.ledger)
    expected = build_steps(whole), find_rejections(whole).requests, whole.find_offline_asks(), find_over_limit(whole)
    assert expected[2]

    def refuse(*_: object) -> Iterator[Plan]:
        raise AssertionError("a plan was made again")

    monkeypatch.setattr(held_plans, "STRETCH", 4)
    monkeypatch.setattr(held_plans, "MAX_BYTES", 0)
    monkeypatch.setattr(held_plans, "replay_from", refuse)
    monkeypatch.setattr(replay_job, "FIRST_STAGE", 0.0)
    run = ReplayJob("k", *begin_replay(recorded, policy.load("condense-oldest")))
    run.poll()
    run.wait(60)
    run.poll()
    stage = run.stage
    assert stage
    rejected = select_rejections(stage.trace, stage.problems).requests
    assert (stage.steps, rejected, stage.offline_asks, stage.over_limit) == expected


def test_a_request_that_somebody_wants_to_see_is_shown_once_it_is_planned_and_some_behind_it(
    recorded: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_job, "FIRST_STAGE", 1e9)
    gate = Gate(recorded)
    run = ReplayJob("k", gate.whole, gate.plans())
    run.want(17)
    run.poll()
    gate.let(17 + AHEAD)
    until(lambda: run.done == 17 + AHEAD)
    assert run.stage is None
    gate.let(1)
    until(lambda: run.stage)
    assert run.stage
    assert len(run.stage) == 18 + AHEAD
    run.cancel()
    gate.let(1)
    run.wait(20)


def test_what_goes_wrong_reaches_whoever_looks(recorded: Trace) -> None:
    go = threading.Event()
    whole, plans = begin_replay(recorded, policy.load("balanced"))

    def raise_error() -> Iterator[Plan]:
        yield next(plans)
        go.wait(20)
        raise ZeroDivisionError("in a rule")

    run = ReplayJob("k", whole, raise_error())
    run.poll()
    go.set()
    run.wait(20)
    assert run.state == "failed"
    with pytest.raises(ZeroDivisionError, match="in a rule"):
        run.poll()


def test_whoever_asks_for_the_same_gets_the_same(recorded: Trace) -> None:
    shelf = ReplayCache(10**9)
    asked = [shelf.get("a", lambda: ReplayJob("a", *begin_replay(recorded, policy.load("balanced")))) for _ in range(2)]
    assert asked[0] is asked[1]
    shelf.drop("a")
    assert shelf.get("a", lambda: ReplayJob("a", *begin_replay(recorded, policy.load("balanced")))) is not asked[0]


def test_the_shelf_gives_up_what_nobody_asked_for_longest(recorded: Trace) -> None:
    def make(key: str) -> Callable[[], ReplayJob]:
        return lambda: ReplayJob(key, *begin_replay(recorded, policy.load("balanced")))

    def finish_job(shelf: ReplayCache, key: str) -> ReplayJob:
        run = shelf.get(key, make(key))
        run.poll()
        run.wait(60)
        return run

    shelf = ReplayCache(10**12)
    one = finish_job(shelf, "1")
    finish_job(shelf, "2")
    finish_job(shelf, "1")
    shelf.most = shelf.size
    three = finish_job(shelf, "3")
    assert shelf.get("3", make("3")) is three
    assert shelf.get("1", make("1")) is one
    assert len(shelf) == 2
    assert shelf.size <= shelf.most


def test_one_that_is_given_up_ends(recorded: Trace) -> None:
    gate = Gate(recorded)
    shelf = ReplayCache(0)
    run = shelf.get("1", lambda: ReplayJob("1", gate.whole, gate.plans()))
    run.poll()
    gate.let(3)
    until(lambda: run.done == 3)
    shelf.get("2", lambda: ReplayJob("2", *begin_replay(recorded, policy.load("balanced"))))
    gate.let(1)
    run.wait(20)
    assert run.state == "cancelled"


def test_one_that_is_given_up_is_freed_though_a_page_still_shows_it(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_plans, "STRETCH", 4)
    shelf = ReplayCache(0)
    run = shelf.get("1", lambda: ReplayJob("1", *begin_replay(recorded, policy.load("balanced"))))
    run.poll()
    run.wait(60)
    shown = run.stage
    assert shown
    before = [*shown.trace.plans]
    shelf.get("2", lambda: ReplayJob("2", *begin_replay(recorded, policy.load("balanced"))))
    kept = [*shown.trace.plans]
    assert sum(a is b for a, b in zip(before, kept, strict=True)) < len(before) / 2
    assert kept == before


def test_what_rules_remember_of_a_replay_goes_with_it(recorded: Trace) -> None:
    class Reading:
        """What a rule read."""

    recall = memoize_by_ledger(lambda _session, _index, _ledger: Reading())
    ctx = SimpleNamespace(session=recorded.session, index=get_index(recorded.session), own=recorded.ledger)
    found = recall(ctx)
    assert recall(ctx) is found
    assert (
        recall(SimpleNamespace(session=recorded.session, index=get_index(recorded.session), own=recorded.ledger)) is not found
    )
    gone = weakref.ref(found)
    del ctx, found
    gc.collect()
    assert gone() is None


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["balanced", "one-line-calls"])
def test_what_it_says_it_holds_is_about_what_is_allocated(recorded: Trace, name: str) -> None:
    list(begin_replay(recorded, policy.load(name))[1])  # what is loaded for the first replay is no part of it
    gc.collect()
    tracemalloc.start()
    try:
        whole, plans = begin_replay(recorded, policy.load(name))
        memo = tracemalloc.get_traced_memory()[0]  # of the session's own counts
        run = ReplayJob("k", whole, plans)
        run.poll()
        run.wait(60)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - memo
    finally:
        tracemalloc.stop()
    assert run.state == "done"
    assert 0.5 < run.held / held < 2.0, f"{run.held:,} said, {held:,} allocated"
