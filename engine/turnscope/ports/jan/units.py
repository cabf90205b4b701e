"""A session as Jan's messages, each with the results of its calls, counted once."""

from __future__ import annotations

from typing import Any, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.ports.chats import read_chat
from turnscope.ports.jan.messages import TOOL, Unit, build_part, estimate_message, is_question
from turnscope.ports.rows import memoize_by_ledger
from turnscope.reading.jan_threads import split_waves
from turnscope.session.index import Index
from turnscope.session.model import Session


class Chat(NamedTuple):
    """Messages with their results: where they begin, running sums of tokens, and the numbers of the user's prompts."""

    units: list[Unit]
    starts: list[int]
    sums: list[int]
    asking: list[int]


@memoize_by_ledger
def get_chat(session: Session, _index: Index, _own: Ledger) -> Chat:
    """Return the session as Jan's messages. It is read once."""
    found = Chat([], [], [0], [])
    groups: list[tuple[int, int, dict[str, Any]]] = []
    for one in read_chat(session, TOOL).chat_messages:
        if one.message["role"] == "tool" and groups:
            groups[-1] = (groups[-1][0], one.stop, groups[-1][2])
        else:
            groups.append((one.start, one.stop, one.message))
    for number, (start, stop, stored) in enumerate(groups):
        parts = stored.get("parts")
        if parts is None:
            parts = [part for b in session.blocks[start:stop] if (part := build_part(b, session))]
        message = {"id": stored.get("id"), "role": stored["role"], "parts": parts, "metadata": stored.get("metadata")}
        found.units.append(Unit(start, stop, message))
        found.starts.append(start)
        found.sums.append(found.sums[-1] + sum(estimate_message(wave) for wave in split_waves([message])))
        if is_question(message):
            found.asking.append(number)
    return found
