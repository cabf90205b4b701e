"""What the screen of Cline or Roo Code showed, beside the messages that went to the model.

The tool keeps two files: `ui_messages.json` for the screen and `api_conversation_history.json` for the API. The screen's is
read again from the task's folder, because a session holds what was sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from turnscope.importers.task_folder.folder import as_string
from turnscope.importers.task_folder.screen import ScreenEvent, read_events
from turnscope.importers.task_folder.timeline import NAME
from turnscope.planning.trace import Trace
from turnscope.reading.calls import parse_time
from turnscope.reading.containers import open_source
from turnscope.reading.contents import locate_entry
from turnscope.session.model import Session
from turnscope.views.transcript import State, list_states

MAX_TEXT = 400  # characters of a text on its line


@dataclass(frozen=True, slots=True)
class ScreenMessage:
    """A message of the screen.

    Attributes:
        number: its position in the file, from 0.
        kind: "say" or "ask".
        name: what is said or asked, such as "tool".
        text: what was shown; of a request, the message that it sent.
        sent_at: seconds since the epoch; None = unknown.
        index: its `conversationHistoryIndex`, the newest message of the API's history when it was shown; None = not recorded.
        request: the request that was newest; -1 = before the first.
        message: number of the session's message that it belongs to; -1 = none.
    """

    number: int
    kind: str
    name: str
    text: str
    sent_at: float | None
    index: int | None
    request: int
    message: int


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message of the API's history in one request.

    Attributes:
        start: address of its first block.
        stop: address behind its last one.
        role: its role.
        tokens: of its blocks, as the provider counts.
        states: how its blocks stand in the request, each once.
        text: its beginning.
    """

    start: int
    stop: int
    role: str
    tokens: int
    states: tuple[State, ...]
    text: str


def has_screen(session: Session) -> bool:
    """Whether a session comes from a tool that keeps the messages of its screen."""
    return session.source == NAME


def read_screen(path: Path, entry: str = "") -> tuple[ScreenMessage, ...]:
    """Read the messages of a task's screen; () where its file is missing.

    Args:
        path: the file or folder that the session was read from.
        entry: the conversation in it; "" = the main one.

    Raises:
        TurnscopeError: it can no longer be read.
    """
    source, _, _ = locate_entry(open_source(path), entry)
    return tuple(_convert_event(number, found) for number, found in enumerate(read_events(source)))


def _convert_event(number: int, found: ScreenEvent) -> ScreenMessage:
    event = found.event
    index = event.get("conversationHistoryIndex")
    return ScreenMessage(
        number,
        as_string(event.get("type")),
        found.name,
        found.text,
        parse_time(event.get("ts")),
        index if isinstance(index, int) and not isinstance(index, bool) else None,
        found.request,
        found.message,
    )


def describe_messages(trace: Trace, n: int, messages: Collection[int]) -> dict[int, SentMessage]:
    """Describe messages of the API's history as they stand in a request, by their numbers.

    Args:
        trace: the session as recorded.
        n: number of the request.
        messages: numbers of the messages; those that the session does not hold are left out.
    """
    states, terms, session = list_states(trace, n), trace.get_terms(n), trace.session
    found = {}
    for number in messages:
        if not 0 <= number < len(session.messages):
            continue
        message = session.messages[number]
        blocks = session.blocks[message.start : message.stop]
        found[number] = SentMessage(
            message.start,
            message.stop,
            message.role,
            terms.convert(trace.ledger.count_by_bucket(message.start, message.stop)),
            tuple(dict.fromkeys(states[message.start : message.stop])),
            "\n".join(block.text[:MAX_TEXT] for block in blocks)[:MAX_TEXT],
        )
    return found
