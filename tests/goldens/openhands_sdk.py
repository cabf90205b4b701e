"""OpenHands' agent SDK: its view and its condenser over events; `test_openhands_policy` replays the sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnscope.ports.openhands.sdk import (
    Condensation,
    Event,
    NoCondensation,
    Settings,
    View,
    build_view,
    condense,
    find_requirement,
    find_safe_indices,
)

SYSTEM = "openhands-sdk"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    try:
        if case["kind"] == "sequence":
            return {
                "steps": [_shorten_step(*both) for both in zip(_sequence(case["input"]), case["expect"]["steps"], strict=True)]
            }
        return {"view": _view, "condense": _condense}[case["kind"]](case["input"])
    except KeyError:
        return {"error": "missing_key"}


def _shorten_step(step: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The step with the number of what is sent where a case tells no more of it, which it does of some quiet steps."""
    return step if isinstance(told["sent"], list) else {**step, "sent": len(step["sent"])}


def _ids(events: Sequence[Event]) -> list[str]:
    return [event["id"] for event in events]


def _view(given: dict[str, Any]) -> dict[str, Any]:
    view = build_view(given["events"])
    return {"events": _ids(view.events), "pending_request": view.pending, "safe_indices": find_safe_indices(view.events)}


def _count(events: Sequence[Event]) -> int:
    """The counter of the cases: calls of one batch that stand together are one message."""
    total, batch = 0, None
    for event in events:
        if event["type"] == "action":
            total += 10 if event["batch"] == batch else 13 + -(-len(event.get("text") or "") // 4)
        else:
            total += 3 + -(-len(event.get("text") or "") // 4)
        batch = event.get("batch")
    return total


def _limit(given: dict[str, Any], settings: Settings) -> int | None:
    limits = [n for n in (settings.max_tokens, given.get("agent_max_input_tokens")) if n is not None]
    return min(limits) if limits else None


def _condense(given: dict[str, Any]) -> dict[str, Any]:
    try:
        settings = Settings(**(given.get("options") or {}))
    except ValueError:
        return {"error": "invalid_config"}
    calls = 0

    def ask(_events: Sequence[Event]) -> str | None:
        nonlocal calls
        calls += 1
        summary: str | None = given["fake_summary"]
        return None if calls <= given.get("failing_calls", 0) else summary

    view, limit = build_view(given["events"]), _limit(given, settings)
    try:
        found = condense(view, settings, limit, _count, ask)
    except NoCondensation:
        return {"error": "no_condensation_available", "calls": calls}
    said: dict[str, Any] = {
        "requirement": find_requirement(view, settings, limit, _count(view.events)),
        "condensed": bool(found),
    }
    if not found:
        return {**said, "calls": calls}
    after = build_view([*given["events"], _event(found, "C")])
    return {
        **said,
        "forgotten": [*found.forgotten],
        "summary": found.summary,
        "summary_offset": found.offset,
        "calls": calls,
        "after": ["SUMMARY" if id == "C-summary" else id for id in _ids(after.events)],
    }


def _event(found: Condensation, id: str) -> Event:
    return {
        "id": id,
        "type": "condensation",
        "forgotten": found.forgotten,
        "summary": found.summary,
        "summary_offset": found.offset,
    }


def _sequence(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The condenser on the view of all events so far, after every event that is no action."""
    settings = Settings(**(given.get("options") or {}))
    history: list[Event] = []
    steps: list[dict[str, Any]] = []
    made = 0
    for event in given["events"]:
        history.append(event)
        if event["id"] in (given.get("requests_after") or ()):
            history.append({"id": f"q{event['id']}", "type": "request"})
        if event["type"] == "action":
            continue
        view: View = build_view(history)
        found = condense(view, settings, _limit(given, settings), _count, lambda _events: f"T: summary {made}")  # noqa: B023
        step = {"after_event": event["id"], "condensation": None, "forgotten": [], "sent": _ids(view.events)}
        if found:
            made += 1
            history.append(_event(found, f"C{made}"))
            step |= {"condensation": f"C{made}", "forgotten": [*found.forgotten], "sent": _ids(build_view(history).events)}
        steps.append(step)
    return steps
