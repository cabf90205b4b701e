"""OpenHands 0.62: its view of events and its condensers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.ports.openhands.legacy import Condensation, Event, View, condense, view_of

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
    view = view_of(given["events"])
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
        "after": _ids(view_of([*given["events"], found.event(9999)]).events),
    }


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    history: list[Event] = []
    steps: list[dict[str, Any]] = []
    made = 0
    for event in given["events"]:
        history.append(event)
        if event["type"] == "action":
            continue
        found = condense(view_of(history), given["condenser"], lambda _previous, _events: f"T: summary {made}")  # noqa: B023
        step: dict[str, Any] = {"after_event": event["id"]}
        if isinstance(found, Condensation):
            history.append(found.event(1000 + made))
            made += 1
            step["forgotten_range"] = found.span and [*found.span]
            step["sent"] = _ids(view_of(history).events)
        else:
            whole = given["condenser"]["type"] == "recent"
            step["sent"] = _ids(found.events) if whole else len(found.events)
        steps.append(step)
    return {"steps": steps}
