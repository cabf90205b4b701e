"""Replays of one session share what no policy changes: its counts, and the fold over what was really sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import turnscope
from turnscope import library
from turnscope.counting import ledger
from turnscope.library import opened_session, opening
from turnscope.planning import assemble, policy

from tests.goldens import ROOT

FIVE = ("last-20-messages", "balanced", "claude-code", "codex", "cline-classic")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a request was planned, by policy."""
    told: Counter[str] = Counter()
    step = assemble.plan_step

    def count_step(previous: Any, session: Any, request: Any, chosen: Any, *rest: Any) -> Any:
        told[chosen.name] += 1
        return step(previous, session, request, chosen, *rest)

    monkeypatch.setattr(assemble, "plan_step", count_step)
    return told


def test_five_replays_follow_the_record_once_and_count_the_session_once(
    steps: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    counted: list[str] = []
    build = ledger.build_ledger

    def count(session: Any, *rest: Any, **more: Any) -> Any:
        counted.append(session.id)
        return build(session, *rest, **more)

    monkeypatch.setattr(opening, "build_ledger", count)
    traces = [turnscope.replay(session, name) for name in FIVE]
    record = turnscope.replay(session)
    requests = len(session.requests)
    assert steps == dict.fromkeys(("as-recorded", *FIVE), requests)
    assert counted == [session.id]
    for found in traces:
        alone = turnscope.replay(session, found.policy, opening.count_session(session))  # a ledger of its own shares nothing
        assert (found.plans, found.fits) == (alone.plans, alone.fits)
    assert record.plans == turnscope.replay(session, ledger=opening.count_session(session)).plans


def test_a_replay_that_somebody_watches_takes_the_record_that_is_shown(steps: Counter[str]) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    recorded = turnscope.replay(session)
    steps.clear()
    whole, plans = library.begin_replay(recorded, policy.load("balanced"))
    made = [*plans]
    assert steps == {"balanced": len(session.requests)}
    assert (made, whole.fits) == ([*turnscope.replay(session, "balanced").plans], turnscope.replay(session, "balanced").fits)


def test_the_record_of_an_opened_session_is_planned_once_as_far_as_a_replay_needs_it(steps: Counter[str]) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    whole = turnscope.replay(session)
    lazy = opened_session.replay_record(session, opening.count_session(session), whole.fits)
    steps.clear()
    _, plans = library.begin_replay(lazy, policy.load("balanced"))
    for _ in range(10):
        next(plans)
    assert steps == {"balanced": 10, "as-recorded": 10}
    assert lazy.count_tokens(20) == whole.count_tokens(20)
    assert steps["as-recorded"] == 21
    for name in ("balanced", "last-5-pairs"):
        assert library.replay_record(lazy, policy.load(name)).plans == turnscope.replay(session, name).plans
    assert steps["as-recorded"] == len(session.requests)
    assert lazy.plans == whole.plans
    assert lazy.plans[-1] == whole.plans[-1]
    assert lazy.plans[5:8] == tuple(whole.plans[5:8])


def test_another_session_or_other_prices_share_nothing(steps: Counter[str]) -> None:
    paths = [ROOT / "sample_sessions" / f"{name}.jsonl" for name in ("chat-forgets-first-instruction", "thinking-grows")]
    one, two = map(turnscope.load, paths)
    for session in (one, two, one):
        turnscope.replay(session, "balanced")
    assert steps["as-recorded"] == 2 * len(one.requests) + len(two.requests)
