"""Changed parameters of a policy that cannot have an effect, each with the reason.

Compares a replay under the changed policy with one for each change, without that change. `parameters` says what parameters are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnscope.envelope.budget import BudgetParams, compute_budget
from turnscope.envelope.pieces import Decision
from turnscope.errors import PolicyError
from turnscope.numbering import format_request
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.views.parameters import apply_changes, find_changes

_SHARES = {"slots": "hold_shares", "caps": "hold_shares"}  # parameters of the budget that a rule reads
SAME = "every request comes out as without it"
MAX_LOOKS = 200  # requests at which it is looked whether a rule acted
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


def take_back_each(policy: Policy, base: Policy, record: Trace) -> dict[str, Policy]:
    """Build, for each change that is read, the policy without it and with all others.

    Args:
        policy: the changed policy.
        base: the policy before.
        record: the session as recorded.

    >>> record = turnscope.replay("sample_sessions/cache-goes-cold.jsonl")
    >>> base = next(policy for policy in turnscope.policies() if policy.name == "clear-tool-results")
    >>> changed = apply_changes(base, {"1.keep": 9, "budget.window": 100_000, "budget.reserve": 5})
    >>> {key: find_changes(without, base) for key, without in take_back_each(changed, base, record).items()}
    {'budget.window': {'budget.reserve': 5, '1.keep': 9}, '1.keep': {'budget.window': 100000, 'budget.reserve': 5}}
    """
    changes, unread = find_changes(policy, base), explain_unread(policy, base, _find_windows(record))
    return {
        key: apply_changes(base, {other: changes[other] for other in changes if other != key})
        for key in changes
        if key not in unread
    }


def explain_without_effect(
    trace: Trace,
    base: Policy,
    record: Trace,
    *,
    sizes: Sequence[int],
    idle: Collection[str],
    changed: Sequence[int] = (),
) -> Mapping[str, str]:
    """Explain which changes have no effect on this session.

    Args:
        trace: the whole replay under the changed policy.
        base: the policy before.
        record: the session as recorded, whose windows are the models' own.
        sizes: tokens of each request under the changed policy.
        idle: keys of the changes without which sizes, models and verdicts of all requests are the same; see `take_back_each`.
        changed: the requests at which the changed policy decides something that it had not decided before, in order.

    Returns:
        Reasons by key of the parameter; empty where each may have had an effect.
    """
    reasons = explain_unread(trace.policy, base, _find_windows(record))
    if not sizes:
        return reasons | dict.fromkeys(idle, SAME)
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    acts = _list_acts(trace, changed) if idle else {}
    for key in idle:
        group, _, name = key.partition(".")
        rule = trace.policy.rules[int(group) - 1].rule.name if group.isdigit() else ""
        if rule:
            explained = _explain_rule(trace, rule, largest, acts.get(rule, []))
        else:
            explained = _explain_limit(trace, base, name, largest, record)
        reasons[key] = explained or f"{SAME}; {_describe_largest(trace, largest, sizes[largest])}"
    return reasons


def _find_windows(record: Trace) -> set[int | None]:
    """The windows of the models that answered, in tokens; None = unknown."""
    return {plan.budget.window if plan.budget.known else None for plan in record.outlines}


def _list_acts(trace: Trace, changed: Sequence[int]) -> dict[str, list[int]]:
    """The requests at which each rule changed something anew, by its name; of very many the first are looked at."""
    found: dict[str, list[int]] = {}
    for n in changed[:MAX_LOOKS]:
        for rule in {decision.rule for decision in trace.plans[n].decisions if _is_act(decision)}:
            found.setdefault(rule, []).append(n)
    return found


def _is_act(decision: Decision) -> bool:
    return bool(decision.splice) or decision.action in ("warn", "fallback", "refuse")


def _explain_rule(trace: Trace, rule: str, largest: int, acts: Sequence[int]) -> str:
    """Why a parameter made no difference, by what its rule did or said; "" where it did nothing and said nothing."""
    if acts:
        n = acts[0]
        because = next(d.edit.because for d in trace.plans[n].decisions if d.rule == rule and _is_act(d))
        where = f"request {format_request(n)}" + (f" and {len(acts) - 1:,} more" if len(acts) > 1 else "")
        return f"{SAME}: the rule acts at {where}, and does the same there ({because})"
    looked = [decision for decision in trace.plans[largest].decisions if decision.rule == rule]
    if not looked:
        return ""
    return f"{SAME}: the rule acts nowhere; at the largest request, number {format_request(largest)}: {looked[-1].edit.because}"


def _explain_limit(trace: Trace, base: Policy, name: str, largest: int, record: Trace) -> str:
    """Why another limit made no difference; "" where the limit is the same."""
    budget = trace.plans[largest].budget
    try:
        window = record.outlines[largest].budget.window
        before = compute_budget(replace(trace.policy.budget, **{name: getattr(base.budget, name)}), window)
    except (PolicyError, AttributeError):
        return ""
    if before.limit == budget.limit:
        return ""
    return f"the limit becomes {budget.limit:,} tokens instead of {before.limit:,}, and no rule does anything else for it"


def _describe_largest(trace: Trace, n: int, tokens: int) -> str:
    """How large the largest request is, as nothing was found to do there."""
    of = f"{tokens:,} of {trace.plans[n].budget.limit:,} tokens"
    return f"the rule acts nowhere; the largest request, number {format_request(n)}, has {of}"
