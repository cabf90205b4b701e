"""Another policy than the record is planned with what the fit over the requests so far says, as its sizes are shown."""

from __future__ import annotations

import pytest
import turnscope
from msgspec import structs
from turnscope.counting.reconciliation import add_remainders, fit_requests
from turnscope.library.opening import begin_replay
from turnscope.planning.policy import load as load_policy
from turnscope.planning.session_fit import RunningFit
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage

from tests.conftest import shared

FILES = ["entire-b029-2compactions-apierrors", "entire-cd95-3compactions", "entire-d599-microcompact"]
POLICIES = ["keep-everything", "last-20-messages", "condense-oldest", "claude-code", "balanced"]


def talk(requests: int, hidden: int, scale: float, beside: int = 0) -> Session:
    """A session that is billed `hidden + scale x counted`, and `beside` more at each request."""
    builder = Builder("s", "elsewhere", "t")
    for n in range(requests):
        builder.add_message("user", f"part {n} " + "of a long task " * 400)
        builder.set_request(builder.add_message("assistant", "done " * 400), model="claude-sonnet-4-5", usage=Usage(1))
    session = builder.build()
    counts = [plan.seen.tokens for plan in turnscope.replay(session).plans]
    billed = [Usage(hidden + round(scale * size) + n * beside, output_tokens=400) for n, size in enumerate(counts)]
    made = (structs.replace(request, usage=usage) for request, usage in zip(session.requests, billed, strict=True))
    return structs.replace(session, requests=tuple(made))


def misses(made: Trace) -> list[tuple[float, float]]:
    """The miss of each plan and the error that it states, as shares of the size that is shown."""
    return [
        (abs(plan.expected_tokens / made.count_tokens(n) - 1), plan.calibration.error)
        for n, plan in enumerate(made.plans)
        if plan.calibration.seen
    ]


@pytest.mark.parametrize("name", ["keep-everything", "last-5-pairs"])
def test_a_policy_that_sends_less_is_planned_with_the_scale_and_the_hidden_part_of_the_fit(name: str) -> None:
    record = turnscope.replay(talk(40, 30_000, 1.25))
    made = turnscope.replay(record.session, name)
    assert max(miss for miss, _ in misses(made)[20:]) < 0.01
    assert all(miss <= stated for miss, stated in misses(made)[1:])


def test_no_plan_of_a_policy_depends_on_what_came_later() -> None:
    session = talk(30, 30_000, 1.25)
    cut = 17
    first = structs.replace(
        session,
        requests=session.requests[:cut],
        blocks=session.blocks[: session.requests[cut - 1].stop],
        messages=tuple(m for m in session.messages if m.stop <= session.requests[cut - 1].stop),
    )
    whole, part = (turnscope.replay(each, "last-5-pairs").plans for each in (session, first))
    assert [plan.calibration for plan in whole[:cut]] == [plan.calibration for plan in part]


def test_the_record_is_fitted_once_for_all_policies() -> None:
    record = turnscope.replay(talk(12, 30_000, 1.25))
    _, plans = begin_replay(record, load_policy("last-5-pairs"))
    alone = turnscope.replay(record.session, "last-5-pairs").plans
    assert [plan.calibration for plan in alone] == [plan.calibration for plan in plans]


def test_bills_of_something_else_than_what_was_counted_give_no_estimate() -> None:
    record = turnscope.replay(talk(12, 5_000, 1.0, beside=20_000)).record
    assert record[0].calibration.estimate is not None
    assert record[-1].calibration.estimate is None


def test_the_record_alone_is_not_fitted_request_by_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningFit, "learn", None)
    assert len(turnscope.replay(talk(12, 30_000, 1.25)).plans) == 12


def test_a_long_session_is_not_fitted_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    record, fitted = turnscope.replay(talk(200, 30_000, 1.0)), list[int]()

    def fit(sizes, *given, **more):  # type: ignore[no-untyped-def]
        fitted.append(len(sizes))
        return fit_requests(sizes, *given, **more)

    monkeypatch.setattr("turnscope.planning.session_fit.fit_requests", fit)
    running = RunningFit(record.session)
    for step in record.held.record:
        running.learn(step)
    assert fitted[:31] == [*range(1, 32)]
    assert len(fitted) < 80


def test_remainders_are_explained_once_for_the_record_and_not_for_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    session, explained = talk(40, 30_000, 1.0), list[int]()

    def explain(fits, sizes, *given):  # type: ignore[no-untyped-def]
        explained.append(len(sizes))
        return add_remainders(fits, sizes, *given)

    monkeypatch.setattr("turnscope.planning.session_fit.add_remainders", explain)
    record = turnscope.replay(session)
    assert begin_replay(record, load_policy("last-5-pairs"))[0].fits == record.fits
    assert explained == [40]


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_plans_of_real_sessions_miss_what_is_shown_by_no_more_than_they_state(name: str) -> None:
    found = list[tuple[float, float]]()
    for file in FILES:
        found += misses(turnscope.replay(turnscope.load(shared("data", "open", "claude-code", f"{file}.jsonl")), name))
    assert sum(miss <= stated for miss, stated in found) >= 0.95 * len(found)
    assert sorted(miss for miss, _ in found)[len(found) // 2] < 0.01
