"""Recorded calls become sessions: which calls belong together, which are retries, what each session is called.

Knows calls in Anthropic's shape (`Call`); `align` lays the bodies of one conversation along each other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from engine.reading.align import Alignment
from engine.reading.body import Msg, take_apart
from engine.reading.calls import Exchange, Records, exchanges, failure
from engine.session.builder import Builder
from engine.session.content import text_of
from engine.session.model import JSON, Note, Session

TITLE = 80  # characters of the first prompt that make a title
TELLING = 64  # characters from which on a message that two calls share is no coincidence


@dataclass(slots=True)
class Call:
    """One call in Anthropic's shape. `about`: fields of `model.Request`."""

    body: dict[str, JSON]
    answer: dict[str, JSON] | None
    about: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    line: int = 0


@dataclass(slots=True)
class _Found:
    """Conversations found so far, and which messages each knows."""

    stem: str
    source: str
    all: list[Alignment] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    knows: dict[Hashable, set[int]] = field(default_factory=dict)

    def take(self, call: Call) -> None:
        body = take_apart(call.body)
        messages = body.messages
        at = self._home(messages)
        if at is None:
            at = len(self.all)
            name = self.stem if not at else f"{self.stem}~{at}"
            self.all.append(Alignment(Builder(name, self.source, _title(messages))))
            self.calls.append(0)
        about = dict(call.about)
        if call.error:
            self.all[at].builder.note("warning", call.line, f"the request was not answered: {call.error}")
            about.setdefault("stop_reason", "error")
        said = {"role": "assistant", "content": (call.answer or {}).get("content") or []}
        answer = take_apart({"messages": [said]}).messages[0] if call.answer else None
        self.all[at].request(body, answer, **about)
        self.calls[at] += 1
        for message in (*messages, answer) if answer else messages:
            self.knows.setdefault(message.key, set()).add(at)

    def _home(self, messages: list[Msg]) -> int | None:
        """The conversation that shares the most with a body: its first message, or one that is no coincidence."""
        first = self.knows.get(messages[0].key, ()) if messages else ()
        if len(first) == 1:
            return next(iter(first))
        shared: dict[int, int] = {}
        for number, message in enumerate(messages):
            telling = number == 0 or message.role == "assistant" or len(text_of(message.parts)) >= TELLING
            for at in self.knows.get(message.key, ()) if telling else ():
                shared[at] = shared.get(at, 0) + 1
        return max(shared, key=lambda at: (shared[at], at)) if shared else None


def read_calls(records: Records, stem: str, source: str, convert: Callable[[Exchange], Call]) -> tuple[Session, ...]:
    """Every session in a file of recorded calls, the one with the most calls first. Notes go to the first."""
    notes: list[Note] = []
    found = _Found(stem, source)
    failed: list[Call] = []

    def calls() -> Iterable[Call]:
        for item in exchanges(records):
            if isinstance(item, Note):
                notes.append(item)
            else:
                item.error = item.error or failure(item)
                yield from _converted(item, convert, notes)

    for call in calls():
        if failed and failed[-1].body == call.body:  # a retry: the same body sent again
            call.about["attempts"] = 1 + len(failed)
        else:
            for lost in failed[-1:]:
                found.take(lost)
            failed = []
        if call.error:
            failed.append(call)
        else:
            found.take(call)
            failed = []
    for lost in failed[-1:]:
        found.take(lost)
    order = sorted(range(len(found.all)), key=lambda at: (-found.calls[at], at))
    sessions = [found.all[at].build() for at in order]
    if sessions:
        sessions[0] = structs.replace(sessions[0], notes=(*sessions[0].notes, *notes))
    return tuple(sessions)


def _converted(item: Exchange, convert: Callable[[Exchange], Call], notes: list[Note]) -> Iterable[Call]:
    """The call, without its response where that has no known shape, or nothing where the body has none either."""
    for response in (item.response, None):
        try:
            yield convert(replace(item, response=response))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            part = "body" if response is None else "response"
            notes.append(Note("error", item.line, f"the {part} of a call has no known shape and was left out: {error}"))
        else:
            return


def _title(messages: list[Msg]) -> str:
    prompts = (" ".join(text_of(message.parts).split()) for message in messages if message.role == "user")
    return next((text[:TITLE] for text in prompts if text), "")
