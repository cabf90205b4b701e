"""The overflow ladder as a tree, and what of a session would be refused, in words."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import turnscope
from turnscope.planning.lint import Problem, lint
from turnscope.planning.policy import load
from turnscope.planning.refusals import find_judge, select_refused
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import PRICES
from turnscope.views.overflow_tree import build_tree, find_over_limit
from turnscope.views.rejections import Rejections, classify_problem, find_rejections, format_problems

SAMPLES = Path(__file__).parents[2] / "sample_sessions"


@cache
def trace(policy: str, sample: str = "tool-results-eat-the-window") -> Trace:
    return turnscope.replay(turnscope.load(SAMPLES / f"{sample}.jsonl"), policy)


def path(made: Trace, request: int) -> list[str]:
    return [f"{node.step}{'!' if node.applies else ''}" for node in build_tree(made, request) if node.reached]


def test_a_request_that_is_compacted_leaves_the_ladder_there_with_its_decision() -> None:
    made = trace("ladder")
    for request in find_over_limit(made):
        projected, compaction, fallback, refuse = build_tree(made, request)
        assert path(made, request) == ["projected", "compaction!"]
        assert projected.tokens > projected.limit >= made.plans[request].expected_tokens
        decision = made.plans[request].decisions[compaction.decision]
        assert (decision.rule, decision.action, compaction.because) == ("compact_when_over", "condense", decision.edit.because)
        assert compaction.after < compaction.tokens == projected.tokens
        assert not fallback.reached
        assert not refuse.reached
    assert find_over_limit(made)


def test_a_policy_without_rules_overflows_and_every_step_says_that_there_is_none() -> None:
    made = trace("keep-everything")
    request = find_over_limit(made)[-1]
    assert path(made, request) == ["projected", "compaction", "fallback", "refuse"]
    assert [node.decision for node in build_tree(made, request)] == [-1] * 4
    assert "refuses nothing" in build_tree(made, request)[-1].because
    assert made.plans[request].verdict == "overflow"


def _ladder(*left_out: str, window: int) -> Trace:
    policy = load("ladder")
    budget = replace(policy.budget, formula="fixed", tokens=window)
    rules = tuple(part for part in policy.rules if part.rule.name not in left_out)
    policy = replace(policy, budget=budget, rules=rules)
    return turnscope.replay(turnscope.load(SAMPLES / "cache-goes-cold.jsonl"), policy)


def test_a_request_that_nothing_can_save_is_refused_in_so_many_words() -> None:
    made = _ladder("compact_when_over", "fall_back_to_larger_window", window=60_000)
    request = find_over_limit(made)[0]
    assert path(made, request) == ["projected", "compaction", "fallback", "refuse!"]
    last = build_tree(made, request)[-1]
    assert made.plans[request].decisions[last.decision].action == "refuse"


@pytest.mark.thorough
def test_every_request_over_its_limit_has_a_ladder_and_no_other_has() -> None:
    made = trace("last-5-pairs")
    over = {n for n, plan in enumerate(made.plans) if plan.verdict in ("overflow", "refuse")}
    assert over <= {*find_over_limit(made)}
    assert all(bool(build_tree(made, n)) == (n in find_over_limit(made)) for n in range(len(made.plans)))


def test_what_would_be_refused_is_counted_and_said_in_one_sentence() -> None:
    found = find_rejections(trace("chatbot-ui"))
    said = "the first message must be a user's (126); a result has no call before it (14)"
    assert found.sentence == f"140 of 325 requests would be rejected by the API: {said}"
    assert (found.first_request, found.count) == (184, 140)
    assert format_problems(found.requests[184]) == "messages.0: the first message must be a user's"
    assert classify_problem(found.requests[184][0]) == "the first message must be a user's"
    assert find_rejections(trace("balanced")).sentence == ""


def test_each_reported_refusal_is_told_by_lint_in_the_words_that_its_provider_is_judged_by() -> None:
    """Bodies that OpenAI and Google were reported to refuse, and some that they take."""
    call = {"type": "tool_use", "id": "c1", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    ask, call_it, told, on = (
        {"role": role, "content": content}
        for role, content in (("user", "go"), ("assistant", [call]), ("user", [result]), ("user", "and on"))
    )
    twins = {"messages": [ask], "tools": [{"name": "run", "input_schema": {}}] * 2}
    bodies: dict[str, tuple[dict[str, Any], str]] = {
        "unanswered": ({"messages": [ask, call_it, on]}, "OpenAI Google"),
        "no call": ({"messages": [ask, told]}, "OpenAI Google"),
        "torn": ({"messages": [ask, call_it, ask, {"role": "assistant", "content": "hm"}, told]}, "OpenAI Google"),
        "empty": ({"messages": []}, "OpenAI Google"),
        "blank": ({"messages": [{"role": "user", "content": ""}]}, "Google"),
        "twins": (twins, "Google"),
        "first": ({"messages": [{"role": "assistant", "content": "hi"}, ask]}, ""),
        "right": ({"messages": [ask, call_it, told]}, ""),
    }
    for name, (body, by) in bodies.items():
        found = lint(body, "gpt-4o")
        assert " ".join(rules for rules in ("OpenAI", "Google") if select_refused(found, rules)) == by, name


def test_a_request_is_judged_by_the_rules_of_its_own_provider() -> None:
    """A chat with a model of OpenAI may begin with an answer; a result without its call it refuses too."""
    openai = find_rejections(trace("as-recorded", "chat-forgets-first-instruction"))
    assert ({*openai.rules}, openai.count, openai.sentence) == ({"OpenAI"}, 0, "")
    stray = Problem("messages.0", "no call before this result has the id c1")
    first = Problem("messages.0", "the first message must be a user's")
    assert select_refused((first, stray), "OpenAI") == select_refused((first, stray), "Google") == (stray,)
    assert select_refused((first, stray), "Anthropic") == (first, stray)
    assert select_refused((first, stray), find_judge("a-model-nobody-knows", PRICES)) == ()
    assert Rejections(((stray,), ()), (("x", 1),), ("OpenAI", "")).sentence == (
        "1 of 2 requests would be rejected by the API (rules of OpenAI): x; "
        "1 of 2 requests are not judged: their provider's rules are not known here"
    )
