"""Replays that go on one after another in a thread: cancelled and gone on with, left alone, and failing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import turnscope
from conftest import ROOT
from turnscope.envelope.plan import Plan
from turnscope.library import ComparisonJob, ReplayTask, begin_replay
from turnscope.library.opening import load_policy
from turnscope.planning.trace import Trace

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
NAMES = ("keep-everything", "last-5-pairs", "half-in-pairs")


@pytest.fixture(scope="module")
def record() -> Trace:
    return turnscope.replay(turnscope.load(COLD))


def test_each_replay_is_handed_over_as_if_it_had_been_made_alone(record: Trace) -> None:
    made: dict[str, Trace] = {}

    def wanted(name: str) -> ReplayTask:
        return ReplayTask(
            lambda: begin_replay(record, load_policy(name)), lambda trace: made.update({name: trace}), lambda: name == NAMES[2]
        )

    job = ComparisonJob([wanted(name) for name in NAMES], len(record.plans))
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

        def each() -> Iterator[Plan]:
            for plan in plans:
                if plan.request.n == 10:
                    job.cancel()
                planned.append(plan.request.n)
                yield plan

        return whole, each()

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
