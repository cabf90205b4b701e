"""Changed parameters that cannot have an effect: which they are, and why."""

from __future__ import annotations

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
    changed = turnscope.replay(session, parameters.apply_changes(base, changes))
    before = turnscope.replay(session, base)
    sizes, sizes_before = build_steps(changed).sizes, build_steps(before).sizes
    record = turnscope.replay(session)
    return dict(parameter_effects.explain_without_effect(changed, base, record, sizes=sizes, sizes_before=sizes_before))


def test_a_rule_that_acts_nowhere_says_what_it_found_at_the_largest_request() -> None:
    reasons = explain("thinking-grows", "clear-tool-results", {"1.keep": 50})
    assert reasons == {
        "1.keep": "every request comes out as without it; at the largest request, number 40, the rule decides nothing"
    }


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
    assert explain("tool-results-eat-the-window", "clear-tool-results", {"budget.window": 100_000, "1.keep": 1}) == {}
