"""Overflow handling of one request as a tree: does it fit, can it be made smaller, does a larger window take it, is it refused?

Reads the decisions of a plan, under every policy. A step that no rule of the policy takes says so. The order is the published
one: projected > window, compaction, fallback, typed refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.policy import CHECKS, REPAIRS, WISHES
from turnscope.planning.trace import Trace

Step = Literal["projected", "compaction", "fallback", "refuse"]
CUT_ACTIONS = ("condense", "drop", "clear", "strip", "truncate")  # actions that save tokens
FALLBACK = "fall_back_to_larger_window"
QUESTIONS: dict[Step, tuple[str, str]] = {  # a question, and what becomes of a request whose answer is yes
    "projected": ("Does it fit as it comes?", "sent as it is"),
    "compaction": ("Can it be made smaller?", "sent, cut to fit"),
    "fallback": ("Does a larger window take it?", "sent to a larger model"),
    "refuse": ("Is it refused?", "not sent: ContextWindowExceededError"),
}
NumberedDecisions = Sequence[tuple[int, Decision]]  # the decisions of a step, each with its number in the request


@dataclass(frozen=True, slots=True)
class Node:
    """One question of the tree, and what becomes of a request whose answer is yes (`leaf`).

    Attributes:
        reached: whether the request came to the question.
        applies: whether its answer was yes, so that the request stopped here.
        tokens, after: provider tokens before and after the step, as planned.
        limit: the limit that applied.
        rule, decision: the rule and the number (from 0) of the last decision of the step; -1 = no rule decided.
        because: why.
        more_decisions: how many further decisions the step took.
    """

    step: Step
    question: str
    leaf: str
    reached: bool
    applies: bool
    tokens: int
    after: int
    limit: int
    rule: str = ""
    decision: int = -1
    because: str = ""
    more_decisions: int = 0


def build_tree(trace: Trace, request: int) -> tuple[Node, ...]:
    """Build the tree of a request, from the first question to the last. Empty where the request never exceeded its limit.

    No node `applies` where the request overflowed.

    Args:
        trace: the replay.
        request: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    if not is_over_limit(trace, request):
        return ()
    rules = {part.rule.name for part in trace.policy.rules}
    return tuple(_build_nodes(trace.plans[request], rules, trace.count_tokens(request)))


def is_over_limit(trace: Trace, request: int) -> bool:
    """Whether a request exceeded its limit before its policy acted, or does so now, as planned or as it would be sent.

    Args:
        trace: the replay.
        request: number of the request.
    """
    plan = trace.plans[request]
    before = _predict_size(plan, plan.before.tokens) > _find_limit(plan)
    return before or max(plan.expected_tokens, trace.count_tokens(request)) > plan.budget.limit


def find_over_limit(trace: Trace) -> tuple[int, ...]:
    """List the requests that have a tree."""
    return tuple(n for n in range(len(trace.plans)) if is_over_limit(trace, n))


def find_largest_cut(trace: Trace, request: int) -> int:
    """Find the decision that saved most of a request's tokens; its number in the request, -1 where none saved any.

    Args:
        trace: the replay.
        request: number of the request.
    """
    cuts = _find_decisions(trace.plans[request], *CUT_ACTIONS)
    return max(cuts, key=lambda found: found[1].before - found[1].after)[0] if cuts else -1


def _build_nodes(plan: Plan, rules: set[str], sent: int) -> Iterator[Node]:
    """The nodes of a request of which `sent` tokens would be sent."""
    limit, size, end = _find_limit(plan), _predict_size(plan, plan.before.tokens), plan.expected_tokens
    cuts, looks = (
        _find_decisions(plan, *CUT_ACTIONS),
        [found for found in _find_decisions(plan, "keep") if found[1].rule != FALLBACK],
    )
    moved, stayed = (
        _find_decisions(plan, "fallback"),
        [found for found in _find_decisions(plan, "keep") if found[1].rule == FALLBACK],
    )
    refused = _find_decisions(plan, "refuse")
    smaller = _predict_size(plan, cuts[-1][1].after) if cuts else size
    within_limit = sent <= plan.budget.limit
    fits = within_limit and (size <= limit or not (cuts or moved or refused))
    elsewhere, within = bool(moved) and not refused and within_limit, within_limit and not (fits or moved or refused)
    more = f" (±{plan.calibration.error:.0%}), {sent:,} would be sent" if size <= limit < sent else ""
    fit = f"{size:,} tokens are projected{more}, the limit is {limit:,}"
    yield _build_node("projected", (True, fits), sizes=(size, size), limit=limit, found=[], otherwise=fit)
    nothing = "no rule of this policy found anything to cut" if rules - _IDLE else "no rule of this policy cuts anything"
    yield _build_node(
        "compaction", (not fits, within), sizes=(size, smaller), limit=limit, found=cuts or looks, otherwise=nothing
    )
    larger = "no larger model was requested" if FALLBACK in rules else "this policy names no model with a larger window"
    on = not fits and not within
    yield _build_node(
        "fallback",
        (on, elsewhere),
        sizes=(smaller, end),
        limit=plan.budget.limit if moved else limit,
        found=moved or stayed,
        otherwise=larger,
    )
    nowhere = "this policy refuses nothing: it is sent over its limit"
    yield _build_node(
        "refuse",
        (on and not elsewhere, bool(refused)),
        sizes=(end, end),
        limit=plan.budget.limit,
        found=refused,
        otherwise=nowhere,
    )


def _build_node(
    step: Step, path: tuple[bool, bool], sizes: tuple[int, int], limit: int, found: NumberedDecisions, otherwise: str
) -> Node:
    """Build a node.

    Args:
        step: the question.
        path: whether the request reached the question, and whether its answer was yes.
        sizes: provider tokens before and after the step.
        limit: the limit that applied.
        found: decisions of the step.
        otherwise: the reason where no rule decided.
    """
    question, leaf = QUESTIONS[step]
    (reached, applies), (tokens, after) = path, sizes
    node = Node(
        step=step, question=question, leaf=leaf, reached=reached, applies=applies, tokens=tokens, after=after, limit=limit
    )
    if not reached:
        return replace(node, applies=False)
    if not found:
        return replace(node, because=otherwise)
    number, last = found[-1]
    return replace(node, rule=last.rule, decision=number, because=last.edit.because, more_decisions=len(found) - 1)


def _predict_size(plan: Plan, tokens: int) -> int:
    """Provider tokens of counted tokens, without what the provider itself removes from this request."""
    return plan.calibration.predict(tokens - plan.after.tokens + plan.seen.tokens)


def _find_decisions(plan: Plan, *actions: str) -> list[tuple[int, Decision]]:
    """The decisions with one of these actions and their numbers; of `CUT_ACTIONS` those that saved tokens."""
    found = ((n, d) for n, d in enumerate(plan.decisions) if d.action in actions)
    return [(n, d) for n, d in found if d.action not in CUT_ACTIONS or (d.splice and d.after < d.before)]


def _find_limit(plan: Plan) -> int:
    """The limit of the model that the request was meant for."""
    limits = (decision.edit.facts.get("limit") for _, decision in _find_decisions(plan, "fallback"))
    limit_reported = next((limit for limit in limits if isinstance(limit, int)), None)
    return plan.budget.limit if limit_reported is None else min(plan.budget.limit, plan.calibration.predict(limit_reported))


_IDLE = {*CHECKS, *REPAIRS, WISHES, FALLBACK}  # rules that save no tokens
