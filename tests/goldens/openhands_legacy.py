"""OpenHands 0.62: its view and its condensers over events; `test_openhands_policy` replays the sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnscope.ports.openhands.legacy import Event, View, build_view, condense

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
    """The condenser on the view of all events so far, after every event that is no action."""
    history: list[Event] = []
    steps: list[dict[str, Any]] = []
    made = 0
    recent = given["condenser"]["type"] == "recent"
    for event in given["events"]:
        history.append(event)
        if event["id"] in (given.get("requests_after") or ()):
            history.append({"id": event["id"], "type": "request"})
        if event["type"] in ("action", "request"):
            continue
        found = condense(build_view(history), given["condenser"], lambda _previous, _events: f"T: summary {made}")  # noqa: B023
        step: dict[str, Any] = {"after_event": event["id"]}
        if isinstance(found, View):
            step["sent"] = _ids(found.events) if recent else len(found.events)
        else:
            history.append(found.build_event(1000 + made))
            made += 1
            ids = {} if found.span else {"forgotten_ids": [*(found.ids or ())]}
            step |= {"forgotten_range": found.span and [*found.span], **ids, "sent": _ids(build_view(history).events)}
        steps.append(step)
    return {"steps": steps}
