"""OpenHands 0.62: what its view shows of a history of events, and what each condenser forgets of it.

Pure functions, ported from `openhands/memory/view.py` and `openhands/memory/condenser/impl` (PyPI openhands-ai 0.62.0). An
event is a mapping with `id` (a rising number), `type`, and optionally `cause`, `url`, `text`; a condensation has `forgotten`
ids or `forgotten_range`, `summary`, `summary_offset`. Events that a condenser inserts have the id -1, as in the original.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]
Ask = Callable[[str, tuple[Event, ...]], str]
"""What a model answers to the previous summary and the events that are to be forgotten."""

INSERTED = -1
MASK = "<MASKED>"
NOTHING = "No events summarized"
OBSERVED = ("observation", "browser", "recall_result", "inserted")


@dataclass(frozen=True, slots=True)
class View:
    """The events that are sent, in order. `pending`: a condensation was requested since the newest one."""

    events: tuple[Event, ...]
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Condensation:
    """What is forgotten: `ids`, or the whole `span` from its first to its last id."""

    ids: tuple[int, ...] | None = None
    span: tuple[int, int] | None = None
    summary: str | None = None
    offset: int | None = None
    saw: tuple[str, tuple[Event, ...]] | None = None  # what the summariser read

    def build_event(self, id: int) -> Event:
        """Return the condensation as an event of the history."""
        event: dict[str, Any] = {"id": id, "type": "condensation", "summary": self.summary, "summary_offset": self.offset}
        return event | ({"forgotten_range": self.span} if self.span else {"forgotten": self.ids or ()})


def build_view(events: Sequence[Event]) -> View:
    """Return what a history shows: without what was forgotten, with the newest summary. ValueError: a bad condensation."""
    gone: set[int] = set()
    spans: list[tuple[int, int]] = []
    placed: tuple[str, int] | None = None
    pending = False
    for event in events:
        if event["type"] == "condensation":
            _check(event)
            pending = False
            gone.update(event.get("forgotten") or ())
            if event.get("forgotten_range"):
                spans.append(tuple(event["forgotten_range"]))
            if event.get("summary") is not None and event.get("summary_offset") is not None:
                placed = event["summary"], event["summary_offset"]
        pending = pending or event["type"] == "request"
    kept = [
        event
        for event in events
        if event["type"] not in ("condensation", "request")
        and event["id"] not in gone
        and not any(first <= event["id"] <= last for first, last in spans)
    ]
    if placed:
        kept.insert(placed[1], insert_text(placed[0]))
    return View(tuple(kept), pending)


def _check(event: Event) -> None:
    by_id, by_range = event.get("forgotten") is not None, event.get("forgotten_range") is not None
    if by_id == by_range or (event.get("summary") is None) != (event.get("summary_offset") is None):
        raise ValueError("a condensation names ids or a range, and a summary with its place")


def insert_text(text: str) -> Event:
    """Return the event that a condenser inserts in place of others."""
    return {"id": INSERTED, "type": "inserted", "text": text}


def condense(view: View, options: Mapping[str, Any], ask: Ask) -> View | Condensation:
    """Return what a condenser makes of a view.

    Args:
        view: The view.
        options: The `type` of the condenser, and its options.
        ask: Asks a model.

    Raises:
        ValueError, IndexError: The original raises them too.
    """
    run, known = CONDENSERS[options["type"]]
    settings = {**known, **{name: value for name, value in options.items() if name != "type"}}
    return run(view, settings, ask)


def _keep_recent(view: View, options: Mapping[str, Any], _ask: Ask) -> View:
    head = view.events[: options["keep_first"]]
    tail = max(0, options["max_events"] - len(head))
    return View((*head, *view.events[-tail:]))  # a defect of the original: a tail of 0 takes the whole list


def _is_due(view: View, options: Mapping[str, Any]) -> bool:
    """Return whether a condenser that waits for a size must act now. Raise ValueError if its options leave no room."""
    first, most = options["keep_first"], options["max_size"]
    if first >= most // 2 or first < 0 or most < 1:
        raise ValueError("keep_first must be less than half of max_size")
    return len(view.events) > most or view.pending


def _forget_amortized(view: View, options: Mapping[str, Any], _ask: Ask) -> View | Condensation:
    if not _is_due(view, options):
        return view
    head = view.events[: options["keep_first"]]
    tail = view.events[-(options["max_size"] // 2 - len(head)) :]
    kept = {event["id"] for event in (*head, *tail)}
    ids = [event["id"] for event in view.events if event["id"] not in kept]
    return Condensation(span=(min(ids), max(ids)))


def _summarise(view: View, options: Mapping[str, Any], ask: Ask) -> View | Condensation:
    if not _is_due(view, options):
        return view
    first, events = options["keep_first"], view.events
    tail = options["max_size"] // 2 - len(events[:first]) - 1
    before = events[first]
    previous = (before["text"] or "") if before["type"] == "inserted" else NOTHING
    gone = tuple(event for event in events[first:-tail] if event["type"] != "inserted")
    ids = [event["id"] for event in gone]
    return Condensation(span=(min(ids), max(ids)), summary=ask(previous, gone), offset=first, saw=(previous, gone))


def _choose_by_attention(view: View, options: Mapping[str, Any], ask: Ask) -> View | Condensation:
    if not _is_due(view, options):
        return view
    head = [event["id"] for event in view.events[: options["keep_first"]]]
    room = options["max_size"] // 2 - len(head)
    chosen = [id for id in _read_ids(ask("", view.events)) if id not in head][:room]
    for event in reversed(view.events):
        if len(chosen) >= room:
            break
        if event["id"] not in chosen:
            chosen.append(event["id"])
    return Condensation(ids=tuple(e["id"] for e in view.events if e["id"] not in chosen and e["id"] not in head))


def _read_ids(reply: str) -> list[int]:
    """Read the ids that a model chose. Raise ValueError for a reply that has none."""
    found = json.loads(reply)
    ids = found.get("ids") if isinstance(found, dict) else None
    if not isinstance(ids, list):
        raise ValueError("a list of ids was expected")  # noqa: TRY004 - as in the original
    return [int(id) for id in ids]


def _mask_observations(view: View, options: Mapping[str, Any], _ask: Ask) -> View:
    stop = len(view.events) - options["attention_window"]
    return View(tuple(insert_text(MASK) if i < stop and e["type"] in OBSERVED else e for i, e in enumerate(view.events)))


def _mask_browser(view: View, options: Mapping[str, Any], _ask: Ask) -> View:
    found, seen = [], 0
    for event in reversed(view.events):
        shown = event["type"] == "browser"
        old = shown and seen >= options["attention_window"]
        found.append(insert_text(f"Visited URL {event['url']}\nContent omitted") if old else event)
        seen += shown and not old
    return View(tuple(found[::-1]))


def _forget_half(view: View, _options: Mapping[str, Any], _ask: Ask) -> View | Condensation:
    if not view.pending:
        return view
    events = view.events
    task = next((i for i, event in enumerate(events) if event["type"] == "user"), None)
    if task is None:
        return Condensation(ids=())
    kept = {*[event["id"] for event in events if event["type"] == "system"][:1], events[task]["id"]}
    for event in events[task + 1 :]:
        if event["type"] == "recall" and event.get("text") == events[task].get("text"):
            kept.add(event["id"])
            answers = (e["id"] for e in events if e["type"] in OBSERVED and e.get("cause") == event["id"])
            kept |= {*list(answers)[:1]}
            break
    recent = [*events[max(0, len(events) - max(1, (len(events) - len(kept)) // 2)) :]]
    while recent and recent[0]["type"] in OBSERVED:
        recent.pop(0)
    kept |= {event["id"] for event in recent}
    ids = tuple(sorted({event["id"] for event in events} - kept))
    if len(ids) > 1 and ids[-1] - ids[0] + 1 == len(ids):
        return Condensation(span=(ids[0], ids[-1]))
    return Condensation(ids=ids)


def _run_pipeline(view: View, options: Mapping[str, Any], ask: Ask) -> View | Condensation:
    for condenser in options["condensers"]:
        found = condense(view, condenser, ask)
        if isinstance(found, Condensation):
            return found
        view = found
    return view


Condenser = Callable[[View, Mapping[str, Any], Ask], "View | Condensation"]
CONDENSERS: Mapping[str, tuple[Condenser, Mapping[str, Any]]] = {
    "recent": (_keep_recent, {"keep_first": 1, "max_events": 10}),
    "amortized": (_forget_amortized, {"keep_first": 0, "max_size": 100}),
    "mask": (_mask_observations, {"attention_window": 5}),
    "browser": (_mask_browser, {"attention_window": 1}),
    "window": (_forget_half, {}),
    "summary": (_summarise, {"keep_first": 1, "max_size": 100, "max_event_length": 10_000}),
    "attention": (_choose_by_attention, {"keep_first": 1, "max_size": 100}),
    "pipeline": (_run_pipeline, {"condensers": ()}),
}
