"""OpenHands 0.62: sequences are replayed under its policy; single views and condensers are functions over events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnscope.ports.openhands.legacy import Event, View, build_view, condense

from tests.goldens._events import answered_plans, events_session, newly_forgotten, standing, with_params

SYSTEM = "openhands-legacy"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    try:
        return _sequence(given) if case["kind"] == "sequence" else _once(given)
    except ValueError:
        return {"error": "invalid"}
    except IndexError:
        return {"error": "index"}


def _ids(events: Sequence[Event]) -> list[Any]:
    return [{"inserted": event["text"]} if event["type"] == "inserted" else event["id"] for event in events]


def _once(given: dict[str, Any]) -> dict[str, Any]:
    view = build_view(given["events"])
    said = {"view": _ids(view.events), "pending_request": view.pending}
    if "condenser" not in given:
        return said
    found = condense(view, given["condenser"], lambda _previous, _events: given.get("fake_reply", ""))
    if isinstance(found, View):
        return {**said, "condensed": False, "events": _ids(found.events)}
    saw = {"summariser_sees": {"previous_summary": found.saw[0], "events": _ids(found.saw[1])}} if found.saw else {}
    return {
        **said,
        "condensed": True,
        "forgotten_ids": None if found.ids is None else [*found.ids],
        "forgotten_range": found.span and [*found.span],
        "summary": found.summary,
        "summary_offset": found.offset,
        **saw,
        "after": _ids(build_view([*given["events"], found.build_event(9999)]).events),
    }


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    """Replayed under the policy with the condenser's options; one request after every event that is no action."""
    options = {key: value for key, value in given["condenser"].items() if key != "type"}
    told = events_session(given["events"], SYSTEM)
    chosen = with_params("openhands-legacy", **options)
    steps: list[dict[str, Any]] = []
    for event, plan in zip(told.asked, answered_plans(told.session, chosen), strict=True):
        step: dict[str, Any] = {"after_event": event["id"]}
        shown = [int(one) if isinstance(one, str) else one for one in standing(told, plan.after)]
        if forgotten := newly_forgotten(told, plan):
            step["forgotten_range"] = [int(forgotten[0]), int(forgotten[-1])]
            step["sent"] = shown
        else:
            step["sent"] = len(shown)
        steps.append(step)
    return {"steps": steps}
