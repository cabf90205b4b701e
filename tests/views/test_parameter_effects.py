"""Changed parameters that cannot have an effect: which they are, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest
import turnscope
from conftest import ROOT
from turnscope.planning.policy import load
from turnscope.views import parameter_effects, parameters
from turnscope.views.stepper import build_steps


def explain(sample: str, name: str, changes: dict[str, Any]) -> dict[str, str]:
    """The reasons for a sample."""
    session, base = turnscope.load(ROOT / "sample_sessions" / f"{sample}.jsonl"), load(name)
    record = turnscope.replay(session)
    changed = turnscope.replay(session, parameters.apply_changes(base, changes))
    steps = build_steps(changed)
    others = {
        key: build_steps(turnscope.replay(session, without))
        for key, without in parameter_effects.take_back_each(changed.policy, base, record).items()
    }
    idle = [key for key, other in others.items() if (other.sizes, other.verdicts) == (steps.sizes, steps.verdicts)]
    acted = list(dict.fromkeys(cursor.request for cursor in steps.changes))
    explained = parameter_effects.explain_without_effect(changed, base, record, sizes=steps.sizes, idle=idle, changed=acted)
    return dict(explained)


def test_a_rule_that_acts_nowhere_says_so_with_the_size_of_the_largest_request() -> None:
    reasons = explain("thinking-grows", "clear-tool-results", {"1.keep": 50})
    said = "every request comes out as without it; the rule acts nowhere; the largest request, number 40, has "
    assert list(reasons) == ["1.keep"]
    assert reasons["1.keep"].startswith(said)
    assert reasons["1.keep"].endswith(" of 200,000 tokens")


def test_a_rule_that_acts_and_does_the_same_says_where() -> None:
    reasons = explain("tool-results-eat-the-window", "claude-code", {"1.files_tokens": 90_000})
    assert list(reasons) == ["1.files_tokens"]
    assert re.match(r"every request comes out as without it: the rule acts at request \d+", reasons["1.files_tokens"])
    assert "the threshold is 167,000" in reasons["1.files_tokens"]


def test_another_limit_that_changes_no_request_names_both_limits() -> None:
    reasons = explain("thinking-grows", "clear-tool-results", {"budget.margin": 0.01})
    assert reasons == {
        "budget.margin": "the limit becomes 198,000 tokens instead of 200,000, and no rule does anything else for it"
    }


def test_a_threshold_that_only_warns_earlier_has_an_effect() -> None:
    assert explain("tool-results-eat-the-window", "ladder", {"1.share": 0.5}) == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget.tokens": 5}, "the limit is found by the formula “window”, which does not read it"),
        ({"budget.fallback_window": 9_000}, "the window of every model here is known: 200,000 tokens"),
        ({"budget.window": 200_000}, "it is the window that the model has anyway"),
        ({"budget.slots": {"memory": 0.1}}, "no rule of this policy reads it; it is for hold shares"),
    ],
)
def test_a_budget_that_changes_no_limit_says_why(changes: dict[str, Any], said: str) -> None:
    assert list(explain("cache-goes-cold", "clear-tool-results", changes).values()) == [said]


def test_a_parameter_with_an_effect_is_not_named() -> None:
    assert explain("tool-results-eat-the-window", "clear-tool-results", {"1.keep": 1}) == {}


@pytest.mark.thorough
def test_of_several_changes_only_those_without_an_effect_are_named() -> None:
    said = {
        "budget.margin": "the limit becomes 198,000 tokens instead of 200,000, and no rule does anything else for it",
        "budget.window": "the limit becomes 100,000 tokens instead of 200,000, and no rule does anything else for it",
    }
    for key, value in {"budget.margin": 0.01, "budget.window": 100_000}.items():
        assert explain("tool-results-eat-the-window", "clear-tool-results", {key: value, "1.keep": 1}) == {key: said[key]}
