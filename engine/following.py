"""A policy that follows a person's wishes first: what was condensed, edited or undone by hand (`envelope.wishes`)."""

from __future__ import annotations

from dataclasses import replace

from engine.envelope.rule import NoParams
from engine.policy import Policy, Step, find

RULE = "follow_wishes"


def following(policy: Policy) -> Policy:
    """The policy with wishes followed before anything else."""
    if policy.rules and policy.rules[0].rule.name in (RULE, "follow_the_record"):  # the record holds what was wished
        return policy
    return replace(policy, rules=(Step(find(RULE), NoParams()), *policy.rules))


def alone(policy: Policy) -> Policy:
    """A policy of the same budget that follows wishes and does nothing else."""
    return replace(policy, rules=(Step(find(RULE), NoParams()),))
