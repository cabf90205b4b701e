"""Replays of one session share what no policy changes: its counts, and the fold over what was really sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import turnscope
from turnscope import library
from turnscope.library import opening
from turnscope.planning import assemble, policy

from tests.goldens import ROOT

FIVE = ("last-20-messages", "balanced", "claude-code", "codex", "cline-classic")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a request was planned, by policy."""
    told: Counter[str] = Counter()
    step = assemble.plan_step

    def counted(previous: Any, session: Any, request: Any, chosen: Any, *rest: Any) -> Any:
        told[chosen.name] += 1
        return step(previous, session, request, chosen, *rest)

    monkeypatch.setattr(assemble, "plan_step", counted)
    return told


def test_five_replays_follow_the_record_once_and_count_the_session_once(
    steps: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    counted: list[str] = []
    build = opening.build_ledger

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


def test_another_session_or_other_prices_share_nothing(steps: Counter[str]) -> None:
    paths = [ROOT / "sample_sessions" / f"{name}.jsonl" for name in ("chat-forgets-first-instruction", "thinking-grows")]
    one, two = map(turnscope.load, paths)
    for session in (one, two, one):
        turnscope.replay(session, "balanced")
    assert steps["as-recorded"] == 2 * len(one.requests) + len(two.requests)
