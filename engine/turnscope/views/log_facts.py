"""What a log says of a session besides its messages, as names and values: run ids, dates, settings, speeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.session.model import (
    BEGINS_MID_CONVERSATION,
    COUNT_REQUESTS,
    EXACT_REQUESTS,
    FORKED,
    JSON,
    MODEL_WINDOWS,
    PROMPT_PRIOR,
    SIDE,
    STATED_HIDDEN,
    STORED_INPUTS,
    STORED_RESULTS,
    UNRECORDED,
    Session,
)

MOST_FACTS = 40
MOST_CHARACTERS = 200  # of a value
DEPTH = 3  # objects inside objects that are opened
_OURS = {BEGINS_MID_CONVERSATION, EXACT_REQUESTS, FORKED, MODEL_WINDOWS, PROMPT_PRIOR, STATED_HIDDEN, STORED_INPUTS}
_OURS |= {COUNT_REQUESTS, SIDE, UNRECORDED}
_OURS |= {STORED_RESULTS, "stored"}  # forms that requests are built from


def list_log_facts(session: Session) -> list[tuple[str, str]]:
    """List what a log says of a session, by the names that the log has for it, at most `MOST_FACTS`.

    Settings are those of the newest request that has any. Lists are counted.
    """
    known: dict[str, JSON] = {key: value for key, value in session.about.items() if key not in _OURS and key[:1] != "_"}
    settings = next((request.settings for request in reversed(session.requests) if request.settings), {})
    known |= {key: value for key, value in settings.items() if key not in known and key[:1] != "_"}
    found = [(name, text) for key, value in known.items() for name, text in _iter_facts(key, value, DEPTH)]
    ended = Counter(request.stop_reason for request in session.requests if request.stop_reason)
    if ended:
        found.append(("answers ended with", ", ".join(f"{reason} ({count:,})" for reason, count in ended.most_common(8))))
    return found[:MOST_FACTS]


def _iter_facts(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items() if depth else ():
            yield from _iter_facts(f"{name}.{key}", inner, depth - 1)
    elif isinstance(value, (list, tuple)):
        yield name, f"{len(value):,} {'entry' if len(value) == 1 else 'entries'}"
    elif isinstance(value, bool) or (isinstance(value, str) and value):
        yield name, str(value)[:MOST_CHARACTERS] + "…" * (len(str(value)) > MOST_CHARACTERS)
    elif isinstance(value, (int, float)):
        yield name, f"{value:,}" if isinstance(value, int) else f"{value:g}"
