"""Replays that go on one after another in a thread: cancelled and gone on with, left alone, and failing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import sleep

import pytest
import turnscope
from conftest import ROOT
from turnscope.envelope.plan import Plan
from turnscope.library import ComparisonBasis, ComparisonJob, ReplayTask, begin_replay, comparison_job, row_worker
from turnscope.library.job import start_worker
from turnscope.library.opening import load_policy
from turnscope.planning.trace import Trace
from turnscope.views.comparison import Row, SharedFacts, build_row

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
NAMES = ("keep-everything", "last-5-pairs", "half-in-pairs")


@pytest.fixture(scope="module")
def record() -> Trace:
    return turnscope.replay(turnscope.load(COLD))


def test_each_replay_is_handed_over_as_if_it_had_been_made_alone(record: Trace) -> None:
    made: dict[str, Trace] = {}

    def make_task(name: str) -> ReplayTask:
        return ReplayTask(
            lambda: begin_replay(record, load_policy(name)), lambda trace: made.update({name: trace}), lambda: name == NAMES[2]
        )

    job = ComparisonJob([make_task(name) for name in NAMES], len(record.plans))
    job.poll()
    job.wait(30)
    assert (job.state, job.made, job.done) == ("done", 3, job.count)
    assert [*made] == [*NAMES[:2]]  # the third was there already
    for name, trace in made.items():
        assert trace.plans == turnscope.replay(record.session, name).plans


def test_what_is_cancelled_stops_amid_a_replay_and_goes_on_there(record: Trace) -> None:
    made: list[Trace] = []
    planned: list[int] = []

    def begin() -> tuple[Trace, Iterator[Plan]]:
        whole, plans = begin_replay(record, load_policy("last-5-pairs"))

        def iter_plans() -> Iterator[Plan]:
            for plan in plans:
                if plan.request.n == 10:
                    job.cancel()
                planned.append(plan.request.n)
                yield plan

        return whole, iter_plans()

    job = ComparisonJob(
        [ReplayTask(begin, made.append), ReplayTask(lambda: (record, record.plans), made.append)], len(record.plans)
    )
    job.poll()
    job.wait(30)
    assert (job.state, job.done, job.made, made) == ("cancelled", 11, 0, [])
    job.poll()
    assert job.state == "cancelled"  # a look alone does not begin it again
    job.resume()
    job.wait(30)
    assert (job.state, job.made) == ("done", 2)
    assert planned == [*range(len(record.plans))]  # none of them twice
    assert made[0].plans == turnscope.replay(record.session, "last-5-pairs").plans
    assert made[1] is record


def compare_in_two(
    record: Trace, read_facts: Callable[[], SharedFacts] | None = None
) -> tuple[ComparisonJob, dict[str, tuple[Trace, Row]], list[str]]:
    """A job whose rows another process may make; rows by policy, and which were made there."""
    made: dict[str, tuple[Trace, Row]] = {}
    there: list[str] = []
    shared = SharedFacts.from_trace(record)

    def wanted(name: str) -> ReplayTask:
        def take(trace: Trace) -> None:
            sleep(0.5)  # so that the other process has its turn
            made[name] = trace, build_row(trace, shared)

        def take_row(trace: Trace, row: Row) -> None:
            there.append(name)
            made[name] = trace, row

        policy = load_policy(name)
        return ReplayTask(lambda: begin_replay(record, policy), take, policy=policy, take_row=take_row)

    names = (*NAMES, "last-20-messages", "clear-tool-results", "strip-thinking", "cline-classic", "balanced")
    job = ComparisonJob([*map(wanted, names)], len(record.plans), ComparisonBasis(record, "", {}, read_facts))
    return job, made, there


def test_rows_of_another_process_are_those_that_this_one_makes(record: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_job, "FORK_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    job, made, there = compare_in_two(record)
    job.poll()
    job.wait(60)
    assert (job.state, job.made, job.done) == ("done", len(job.tasks), job.count)
    assert there
    for name, (trace, row) in made.items():
        alone = turnscope.replay(record.session, name)
        assert trace.plans == alone.plans
        assert row == build_row(alone, SharedFacts.from_trace(record))


def test_another_process_is_told_what_all_replays_share(record: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_job, "FORK_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    known = SharedFacts.from_trace(record)
    told = replace(known, references=replace(known.references, uses=tuple({} for _ in known.references.uses)))
    job, made, there = compare_in_two(record, lambda: told)
    job.poll()
    job.wait(60)
    assert (job.state, job.made) == ("done", len(job.tasks))
    assert there
    for name in there:
        trace, row = made[name]
        assert row == build_row(turnscope.replay(record.session, name), told)  # it has not read the references itself
        assert not row.losses.hits
        assert trace.plans == turnscope.replay(record.session, name).plans


@pytest.mark.thorough
def test_rows_that_another_process_does_not_make_are_made_here(record: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_job, "FORK_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(row_worker, "start_worker", lambda _: start_worker("turnscope.no_such_module"))
    job, made, there = compare_in_two(record)
    job.poll()
    job.wait(60)
    assert (job.state, job.made, job.done, there) == ("done", len(job.tasks), job.count, [])
    assert len(made) == len(job.tasks)


@pytest.mark.thorough
def test_what_is_cancelled_ends_the_other_process_and_goes_on(record: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_job, "FORK_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    started: list[subprocess.Popen[bytes]] = []

    def start(module: str) -> subprocess.Popen[bytes]:
        started.append(start_worker(module))
        return started[-1]

    monkeypatch.setattr(row_worker, "start_worker", start)
    job, made, _ = compare_in_two(record)
    job.poll()
    job.wait(0.7)
    job.cancel()
    job.wait(30)
    assert job.state == "cancelled"
    assert [process.poll() is None for process in started] == [False]
    job.resume()
    job.wait(60)
    assert (job.state, job.made, job.done, len(made)) == ("done", len(job.tasks), job.count, len(job.tasks))


def test_what_goes_wrong_is_told_to_whoever_looks() -> None:
    def begin() -> tuple[Trace, Iterator[Plan]]:
        raise turnscope.TurnscopeError("no such thing", hint="none")

    job = ComparisonJob([ReplayTask(begin, print)], 1)

    def watch() -> None:
        for _ in range(2):
            job.poll()
            job.wait(30)

    with pytest.raises(turnscope.TurnscopeError, match="no such thing"):
        watch()
    assert job.state == "failed"
