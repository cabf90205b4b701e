"""A session as OpenHands' events: the system prompt, texts, calls and results, one event each."""

from __future__ import annotations

from typing import NamedTuple

from turnscope.session.model import Bucket, Session


class Piece(NamedTuple):
    """One event: the blocks `start:stop`. `call` is the id of its call, `batch` the message that it came in."""

    start: int
    stop: int
    type: str  # system | user | agent | action | observation
    batch: int
    call: str = ""
    thinking: bool = False


def read_pieces(session: Session) -> tuple[Piece, ...]:
    """Return the events of a session, in order. The text of an answer before its first call belongs to that call."""
    found: list[Piece] = []
    for number, message in enumerate(session.messages):
        start, thinking = message.start, False
        for block in session.blocks[message.start : message.stop]:
            thinking = thinking or (block.bucket is Bucket.THINKING and not block.in_tags)
            if block.kind == "tool_use":
                found.append(Piece(start, block.at + 1, type="action", batch=number, call=str(block.at), thinking=thinking))
                start, thinking = block.at + 1, False
            elif block.bucket is Bucket.TOOL_RESULTS:
                if start < block.at:
                    found.append(Piece(start, block.at, _get_source(message.role), number))
                found.append(Piece(block.at, block.at + 1, type="observation", batch=number, call=str(block.pair)))
                start = block.at + 1
        if start < message.stop:
            found.append(Piece(start, message.stop, _get_source(message.role), number))
    return tuple(found)


def _get_source(role: str) -> str:
    return {"user": "user", "assistant": "agent"}.get(role, "system")
