"""Fewer policies for tests of what is every rule's business: together they use every rule that the named ones use."""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.planning.policy import load


def select_covering(names: Sequence[str]) -> list[str]:
    """Of `names` so many that no rule is left out, the policy with most rules not yet seen first."""
    used = {name: {part.rule.name for part in load(name).rules} for name in names}
    wanted, chosen = set().union(*used.values()), list[str]()
    while wanted:
        chosen.append(max(names, key=lambda name: len(used[name] & wanted)))
        wanted -= used[chosen[-1]]
    return chosen
