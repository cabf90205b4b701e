"""A link into the debugger that stands on a third decision, found and not written down, so that new counts do not break it."""

from __future__ import annotations

import turnscope
from conftest import ROOT
from turnscope.envelope.pieces import Decision
from turnscope.planning.policy import load
from turnscope.views import parameters


def find_linked() -> tuple[dict[str, int], Decision]:
    """Changed parameters of `clear-tool-results` under which request 17 of the first sample has three decisions; the third."""
    whole = turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    start = turnscope.replay(whole).fork(18)
    for trigger in range(20_000, 60_000, 500):
        changed = {"1.trigger": trigger}
        plan = turnscope.replay(start, parameters.apply_changes(load("clear-tool-results"), changed)).plans[17]
        if len(plan.decisions) >= 3:
            return changed, plan.decisions[2]
    raise AssertionError("no trigger makes the rule act at request 17")
