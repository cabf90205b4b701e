"""A session as Jan's messages: each with the results of its calls, counted once."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.ports.chats import chat_of
from turnscope.ports.jan.messages import TOOL, Unit, asks, estimated, part_of
from turnscope.ports.rows import remembered
from turnscope.reading.jan_threads import waves
from turnscope.session.index import Index
from turnscope.session.model import Session


class Chat(NamedTuple):
    """Messages with their results, where they begin, running sums of tokens, and numbers of those in which a user asks."""

    units: list[Unit]
    starts: list[int]
    sums: list[int]
    asking: list[int]


@remembered
def gathered(session: Session, _index: Index, _own: Ledger) -> Chat:
    """The session at hand as Jan's messages, read once."""
    found = Chat([], [], [0], [])
    groups: list[tuple[int, int, dict[str, Any]]] = []
    for one in chat_of(session, TOOL).said:
        if one.message["role"] == "tool" and groups:
            groups[-1] = (groups[-1][0], one.stop, groups[-1][2])
        else:
            groups.append((one.start, one.stop, one.message))
    for number, (start, stop, stored) in enumerate(groups):
        parts = stored.get("parts")
        if parts is None:
            parts = [part for b in session.blocks[start:stop] if (part := part_of(b, session))]
        message = {"id": stored.get("id"), "role": stored["role"], "parts": parts, "metadata": stored.get("metadata")}
        found.units.append(Unit(start, stop, message))
        found.starts.append(start)
        found.sums.append(found.sums[-1] + sum(estimated(wave) for wave in waves([message])))
        if asks(message):
            found.asking.append(number)
    return found
