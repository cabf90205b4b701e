"""OpenHands' policies forget of a session what the golden sequences say that the originals forgot of their events.

Left out are condensers without a rule, and sequences in which somebody asks for a condensation: no log of a session tells it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.goldens import DEFAULT
from tests.goldens._events import events_session, list_standing, make_policy, newly_forgotten, replay_answered

LEGACY = {"summary": "openhands-legacy", "amortized": "openhands-legacy-amortized"}
KNOWN = {"max_size", "keep_first", "minimum_progress", "type"}


def cases(system: str) -> Iterator[dict[str, Any]]:
    path = DEFAULT / f"{system}.json"
    found = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else []
    for case in found:
        options = case["input"].get("condenser") or case["input"].get("options") or {}
        asked = case["input"].get("requests_after")
        if case["kind"] == "sequence" and not asked and options.keys() <= KNOWN and options.get("type", "summary") in LEGACY:
            yield case


@pytest.mark.parametrize("case", [*cases("openhands-legacy")], ids=lambda case: case["id"])
def test_the_policy_of_0_62_forgets_what_the_original_forgot(case: dict[str, Any]) -> None:
    options = {key: value for key, value in case["input"]["condenser"].items() if key != "type"}
    told = events_session(case["input"]["events"], "openhands-legacy")
    chosen = make_policy(LEGACY[case["input"]["condenser"]["type"]], **options)
    steps: list[dict[str, Any]] = []
    for event, plan in zip(told.asked, replay_answered(told.session, chosen), strict=True):
        step: dict[str, Any] = {"after_event": event["id"]}
        shown = [int(one) if isinstance(one, str) else one for one in list_standing(told, plan.after)]
        if forgotten := newly_forgotten(told, plan):
            step |= {"forgotten_range": [int(forgotten[0]), int(forgotten[-1])], "sent": shown}
        else:
            step["sent"] = len(shown)
        steps.append(step)
    assert steps == case["expect"]["steps"]


@pytest.mark.parametrize("case", [*cases("openhands-sdk")], ids=lambda case: case["id"])
def test_the_policy_of_the_sdk_forgets_what_the_original_forgot(case: dict[str, Any]) -> None:
    told = events_session(case["input"]["events"], "openhands-sdk")
    made, steps = 0, []
    chosen = make_policy("openhands-sdk", **case["input"]["options"])
    for event, plan in zip(told.asked, replay_answered(told.session, chosen), strict=True):
        gone, first = newly_forgotten(told, plan), made
        made += bool(gone)
        before = [f"C{first}-summary"] if gone and first else []
        shown = [f"C{made}-summary" if isinstance(one, dict) else one for one in list_standing(told, plan.after)]
        expected = case["expect"]["steps"][len(steps)]["sent"]
        sent = shown if isinstance(expected, list) else len(shown)
        named = f"C{made}" if gone else None
        steps.append({"after_event": event["id"], "condensation": named, "forgotten": [*before, *gone], "sent": sent})
    assert steps == case["expect"]["steps"]
