"""Changed parameters of a policy that cannot have an effect, each with the reason.

Compares a replay under the changed policy with one under the policy as its file says it. `parameters` says what parameters are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.envelope.budget import BudgetParams, compute_budget
from turnscope.errors import PolicyError
from turnscope.numbering import format_request
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.views.parameters import find_changes

_SHARES = {"slots": "hold_shares", "caps": "hold_shares"}  # parameters of the budget that a rule reads
_TRIED = (1_000, 0.37)  # a change of a number of tokens, and of a share, that a formula which reads it cannot miss


def explain_unread(policy: Policy, base: Policy, windows: Iterable[int | None]) -> dict[str, str]:
    """Explain which changes of a budget change no limit, whatever the session.

    Args:
        policy: the changed policy.
        base: the policy before.
        windows: windows of the models that answered, in tokens; None = unknown.

    Returns:
        Reasons by key of the parameter, as in `parameters.group_parameters`.

    >>> from turnscope.views.parameters import apply_changes
    >>> base = next(policy for policy in turnscope.policies() if policy.name == "balanced")
    >>> changed = apply_changes(base, {"budget.fallback_window": 8_000, "budget.reserve": 5})
    >>> for key, reason in explain_unread(changed, base, [200_000]).items():
    ...     print(f"{key}: {reason}")
    budget.fallback_window: the window of every model here is known: 200,000 tokens
    budget.reserve: the limit is found by the formula “window”, which does not read it
    """
    known = {*windows}
    reasons = {}
    for key in find_changes(policy, base):
        group, _, name = key.partition(".")
        if group == "budget" and (reason := _explain_budget(policy, base, name, known)):
            reasons[key] = reason
    return reasons


def _explain_budget(policy: Policy, base: Policy, name: str, windows: set[int | None]) -> str:
    """Why a parameter of the budget changes no limit; "" where it does."""
    params = policy.budget
    if name in _SHARES:
        missing = _SHARES[name] not in {part.rule.name for part in policy.rules}
        return f"no rule of this policy reads it; it is for {_SHARES[name].replace('_', ' ')}" if missing else ""
    before: BudgetParams = replace(params, **{name: getattr(base.budget, name)})
    if _compute_limits(params, windows) != _compute_limits(before, windows):
        return ""
    if name == "fallback_window":
        if params.window:
            return f"the policy sets the window itself: {params.window:,} tokens"
        sizes = " and ".join(f"{window:,}" for window in sorted(filter(None, windows)))
        return f"the window of every model here is known: {sizes} tokens"
    if name == "window":
        return "it is the window that the model has anyway"
    value = getattr(params, name)
    tried: dict[str, Any] = {name: value + _TRIED[isinstance(value, float)] if isinstance(value, (int, float)) else value}
    if _compute_limits(replace(params, **tried), windows) == _compute_limits(params, windows):
        return f"the limit is found by the formula “{params.formula}”, which does not read it"
    return "the limit comes out the same"


def _compute_limits(params: BudgetParams, windows: set[int | None]) -> list[object]:
    try:
        return [compute_budget(params, window) for window in sorted(windows, key=lambda window: window or 0)]
    except PolicyError:
        return []


def explain_without_effect(
    trace: Trace, base: Policy, record: Trace, *, sizes: Sequence[int], sizes_before: Sequence[int]
) -> Mapping[str, str]:
    """Explain which changes have no effect on this session.

    Args:
        trace: the whole replay under the changed policy.
        base: the policy before.
        record: the session as recorded, whose windows are the models' own.
        sizes: tokens of each request under the changed policy.
        sizes_before: the same under the policy before.

    Returns:
        Reasons by key of the parameter; empty where each may have had an effect.
    """
    windows = {plan.budget.window if plan.budget.known else None for plan in record.outlines}
    changes = find_changes(trace.policy, base)
    reasons = explain_unread(trace.policy, base, windows)
    if tuple(sizes) != tuple(sizes_before):
        return reasons
    largest = max(range(len(sizes)), key=sizes.__getitem__, default=-1)
    return {key: reasons.get(key) or _explain_rule(trace, key, largest) for key in changes}


def _explain_rule(trace: Trace, key: str, largest: int) -> str:
    """Why a parameter made no difference: what its rule reported for the largest request, where it changed nothing there."""
    group = key.partition(".")[0]
    if largest < 0 or not group.isdigit():
        return "every request comes out as without it"
    name = trace.policy.rules[int(group) - 1].rule.name
    made = [decision for decision in trace.plans[largest].decisions if decision.rule == name]
    at = f"at the largest request, number {format_request(largest)}"
    if not made:
        return f"every request comes out as without it; {at}, the rule decides nothing"
    return f"every request comes out as without it; {at}: {made[-1].edit.because}"
