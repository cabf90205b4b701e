"""OpenHands' agent SDK: what its view shows of a history of events, where a view may be cut, and what its condenser forgets.

Pure functions, ported from `openhands/sdk/context/{view,condenser}` (PyPI openhands-sdk 1.58.0). An event is a mapping with
`id`, `type` (system, user, agent, action, observation, error, condensation, request; the model does not see others). Actions
and results have `call`; actions have `batch` (the answer that they came in) and `thinking`; a condensation has `forgotten`,
`summary`, `summary_offset`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Event = Mapping[str, Any]
Count = Callable[[Sequence[Event]], int]
Ask = Callable[[Sequence[Event]], str | None]
"""The summary of some events; None where it could not be made."""

SHOWN = ("system", "user", "agent", "action", "observation", "error", "summary")
RESULTS = ("observation", "error")


class NoCondensation(Exception):
    """Something must be forgotten, but nothing can be."""


@dataclass(frozen=True, slots=True)
class View:
    """The events that are sent, in order. `pending`: a condensation was requested since the newest one."""

    events: tuple[Event, ...]
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The condenser's options, with its defaults."""

    max_size: int = 240
    max_tokens: int | None = None
    keep_first: int = 2
    minimum_progress: float = 0.1
    hard_context_reset_max_retries: int = 5
    hard_context_reset_context_scaling: float = 0.8  # of the longest text, after each failure; the caller cuts the texts

    def __post_init__(self) -> None:
        shares = 0 < self.minimum_progress < 1 and 0 < self.hard_context_reset_context_scaling < 1
        if not shares or self.keep_first < 0 or self.hard_context_reset_max_retries < 1:
            raise ValueError("an option is out of its range")
        if self.max_size // 2 - self.keep_first - 1 <= 0:
            raise ValueError("max_size leaves no room beside keep_first")


@dataclass(frozen=True, slots=True)
class Condensation:
    """What is forgotten, the summary that replaces it, and the place of the summary in what is left."""

    forgotten: tuple[str, ...]
    summary: str
    offset: int


def build_view(events: Sequence[Event]) -> View:
    """Return what a history shows. Raise KeyError if a result comes before its call."""
    shown: list[Event] = []
    pending = False
    for event in events:
        if event["type"] == "condensation":
            gone = {*(event.get("forgotten") or ())}
            shown = [e for e in shown if e["id"] not in gone]
            if event.get("summary") is not None and event.get("summary_offset") is not None:
                summary = {"id": f"{event['id']}-summary", "type": "summary", "text": event["summary"]}
                shown.insert(event["summary_offset"], summary)
            pending = False
        elif event["type"] == "request":
            pending = True
        elif event["type"] in SHOWN:
            shown.append(event)
    while gone := _find_torn(shown, events):
        shown = [event for event in shown if event["id"] not in gone]
    return View(tuple(shown), pending)


def _find_torn(shown: Sequence[Event], events: Sequence[Event]) -> set[str]:
    """Return the ids that must not stay, by the first property of the view that is violated."""
    there = {event["id"] for event in shown}
    batches: dict[str, set[str]] = {}
    for event in events:
        if event["type"] == "action":
            batches.setdefault(event["batch"], set()).add(event["id"])
    if gone := {id for batch in batches.values() if not batch <= there for id in batch & there}:
        return gone
    answered: set[str] = set()
    for event in shown:
        if event["type"] in RESULTS:
            if event["call"] in answered:
                gone.add(event["id"])
            answered.add(event["call"])
    if gone:
        return gone
    calls = {event["call"] for event in shown if event["type"] == "action"}
    pairs = {"action": answered, "observation": calls, "error": calls}
    if gone := {e["id"] for e in shown if e["type"] in pairs and e["call"] not in pairs[e["type"]]}:
        return gone
    return {id for loop in _find_loops(events) if not loop <= there for id in loop & there}


def _find_loops(events: Sequence[Event]) -> list[set[str]]:
    """Return tool loops: from a call with thinking, all calls and results up to the next such call or any other event."""
    loops: list[set[str]] = []
    inside = False
    for event in events:
        if event["type"] == "action" and event.get("thinking"):
            loops.append(set())
            inside = True
        elif event["type"] not in ("action", *RESULTS):
            inside = False
        if inside:
            loops[-1].add(event["id"])
    return loops


def find_safe_indices(events: Sequence[Event]) -> list[int]:
    """Return where a view may be cut, both ends included: outside of pairs, batches and thinking loops.

    Raises:
        KeyError: A result comes before its call.
    """
    loop_of = {id: number for number, loop in enumerate(_find_loops(events)) for id in loop}
    open_calls: set[str] = set()
    safe: list[int] = []
    before: Event | None = None
    for i, event in enumerate(events):
        loop = loop_of.get(event["id"])
        same_loop = before is not None and loop is not None and loop == loop_of.get(before["id"])
        same_batch = before is not None and before["type"] == event["type"] == "action" and before["batch"] == event["batch"]
        if not open_calls and not same_loop and not same_batch:
            safe.append(i)
        if event["type"] == "action":
            open_calls.add(event["call"])
        elif event["type"] in RESULTS:
            open_calls.remove(event["call"])
        before = event
    return safe if open_calls else [*safe, len(events)]


Requirement = Literal["hard", "soft"] | None


def find_requirement(view: View, settings: Settings, limit: int | None, total: int) -> Requirement:
    """Return whether something must be forgotten (hard), should be (soft), or need not be.

    Args:
        view: The view.
        settings: The options.
        limit: Tokens that the view may have; None = any number.
        total: Tokens of the view.
    """
    if view.pending or (limit is not None and total > limit):
        return "hard"
    return "soft" if len(view.events) > settings.max_size else None


def find_span_to_forget(view: View, settings: Settings, limit: int | None, count: Count, total: int) -> tuple[int, int]:
    """Return the part of the view that is forgotten, moved to places where the view may be cut.

    Args:
        view: The view.
        settings: The options.
        limit: Tokens that the view may have; None = any number.
        count: Counts the tokens of events.
        total: Tokens of the view.

    Raises:
        NoCondensation: Nothing, or too little, can be forgotten.
    """
    events, first = view.events, settings.keep_first
    suffixes: list[int] = []
    if view.pending:
        suffixes.append(len(events) // 2 - first - 1)
    if len(events) > settings.max_size:
        suffixes.append(settings.max_size // 2 - first - 1)
    if limit is not None and total > limit:
        suffixes.append(len(events[first:]) - _find_prefix(events, first, count, total - limit // 2))
    safe = find_safe_indices(events)
    system = next((i + 1 for i, event in enumerate(events) if event["type"] == "system"), 0)
    start, stop = (_find_next(safe, at) for at in (max(first, system), len(events) - min(suffixes)))
    if stop <= start or stop - start < len(events) * settings.minimum_progress:
        raise NoCondensation
    return start, stop


def _find_prefix(events: Sequence[Event], first: int, count: Count, tokens: int) -> int:
    """Return how many events after the first few have more than so many tokens; all, if no number has."""
    size, head = max(0, len(events) - first), count(events[:first])
    return bisect_left(range(size), True, lo=min(1, size), key=lambda n: count(events[: first + n]) - head > tokens)


def _find_next(safe: Sequence[int], at: int) -> int:
    place = bisect_left(safe, at)
    if place == len(safe):  # a request may ask for a shorter end than there is
        raise NoCondensation
    return safe[place]


def condense(view: View, settings: Settings, limit: int | None, count: Count, ask: Ask) -> Condensation | None:
    """Return what the condenser forgets of a view; None if nothing needs to be.

    Args:
        view: The view.
        settings: The options.
        limit: Tokens that the view may have; None = any number.
        count: Counts the tokens of events.
        ask: Asks a model.

    Raises:
        NoCondensation: Something must be forgotten, but nothing can be.
    """
    total = count(view.events) if limit is not None else 0
    need = find_requirement(view, settings, limit, total)
    if need is None:
        return None
    start = stop = 0
    try:
        start, stop = find_span_to_forget(view, settings, limit, count, total)
        summary = ask(view.events[start:stop])
    except NoCondensation:
        summary = None
    if summary is None:
        return None if need == "soft" else _reset(view, settings, ask)
    return Condensation(tuple(event["id"] for event in view.events[start:stop]), summary, start)


def _reset(view: View, settings: Settings, ask: Ask) -> Condensation:
    """Forget everything after the system prompt. After each failure the original reads less of each event."""
    start = next((i + 1 for i, event in enumerate(view.events) if event["type"] == "system"), 0)
    gone = view.events[start:]
    for _ in range(settings.hard_context_reset_max_retries if gone else 0):
        if (summary := ask(gone)) is not None:
            return Condensation(tuple(event["id"] for event in gone), summary, start)
    raise NoCondensation
