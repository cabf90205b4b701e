"""A session as LobeHub stores a topic: its messages, their token counts, and where the topic can be cut.

`Session.about["stored"]` holds what is stored with a message. Without it the log is used: calls by name, and the billed
tokens of an answer. Messages that were made of one stored message (`id`, `id:1`, ...) become one again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec.structs import replace

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.ports.chats import ChatMessage, find_stored, find_stored_id, parse_arguments, read_chat
from turnscope.ports.lobechat.messages import TOOL
from turnscope.ports.lobechat.tokens import GROUP, count_message, estimate_tokens
from turnscope.ports.lobechat.window import find_cuts
from turnscope.ports.rows import memoize_by_ledger
from turnscope.session.index import Index
from turnscope.session.model import Session

LISTED = "group "  # the start of the slots of listed summaries


class Topic(NamedTuple):
    """Stored messages with their blocks, where they begin, running sums of tokens, and which belong together.

    Attributes:
        plain: What each message is sent as if nothing changes it.
        cuts: Numbers at which the topic can be cut (see `window.find_cuts`).
        groups: Numbers of stored summaries.
        systems: Numbers of system messages.
        tools: Tokens of the first i tool definitions, which begin at `defined`.
    """

    units: Sequence[ChatMessage]
    plain: Sequence[list[dict[str, Any]]]
    starts: Sequence[int]
    sums: Sequence[int]
    cuts: Sequence[int]
    groups: Sequence[int]
    systems: Sequence[int]
    defined: Sequence[int]
    tools: Sequence[int]


def read_topic(session: Session) -> Topic:
    """Read a session as a stored topic."""
    stored = find_stored(session, TOOL)
    billed = {r.cut: r.usage.output_tokens for r in session.requests if r.usage and not r.output_stub}
    units: list[ChatMessage] = []
    plain: list[list[dict[str, Any]]] = []
    for one in read_chat(replace(session, about={})).chat_messages:
        name = session.messages[session.blocks[one.start].message].id
        if units and (of := find_stored_id(name, stored)) and units[-1].message["id"] == of:
            units[-1] = ChatMessage(units[-1].start, one.stop, units[-1].message)
            plain[-1].append(one.message)
            continue
        fields = stored.get(name) if "id" in one.message else None
        message = {**one.message, **fields} if fields else _store_message(one.message, billed.get(one.start, 0))
        units.append(ChatMessage(one.start, one.stop, {**message, "id": message.get("id") or f"#{len(units)}"}))
        plain.append([one.message])
    messages = [unit.message for unit in units]
    cuts = find_cuts(messages)
    defined = [block.at for block in session.blocks if block.kind == "tool"]
    return Topic(
        units,
        plain,
        starts=[unit.start for unit in units],
        sums=[0, *accumulate(map(count_message, messages))],
        cuts=cuts,
        groups=[n for n, message in enumerate(messages) if message["role"] == GROUP],
        systems=[n for n, message in enumerate(messages) if message["role"] == "system"],
        defined=defined,
        tools=[0, *accumulate(estimate_tokens(session.blocks[at].raw) for at in defined)],
    )


def _store_message(message: dict[str, Any], billed: int) -> dict[str, Any]:
    """Return a message of another tool's log as the app would have stored it."""
    calls = ((call.get("id"), call["function"]) for call in message.get("tool_calls") or ())
    tools = [{"id": id, "apiName": function["name"], "arguments": function["arguments"]} for id, function in calls]
    parts = message["content"] if isinstance(message["content"], list) else []
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    thoughts = [part for part in parts if part.get("type") == "thinking"]
    stored = dict(message)
    if parts and len(texts) < 2 and len(thoughts) < 2 and len(texts) + len(thoughts) == len(parts):
        stored["content"] = "".join(texts)
        for part in thoughts:
            stored["reasoning"] = {"content": part.get("thinking"), "signature": part.get("signature")}
    return {**stored, **({"tools": tools} if tools else {}), **({"usage": {"totalOutputTokens": billed}} if billed else {})}


@memoize_by_ledger
def get_topic(session: Session, _index: Index, _own: Ledger) -> Topic:
    """Return the session as a stored topic. It is read once."""
    return read_topic(session)


def find_stretch(found: Topic, number: int) -> int:
    """Return the stretch that a message belongs to; -1 = none.

    Args:
        found: The topic.
        number: The number of the message.
    """
    return bisect_left(found.cuts, number + 1) - 1


def iter_listed_summaries(envelope: Envelope) -> Iterator[Piece]:
    """Yield the summaries that a compression listed, oldest first."""
    return (piece for piece in envelope.pieces if piece.start == piece.stop and piece.slot.startswith(LISTED))


def are_same(sent: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether messages are sent verbatim, however their texts and arguments are written.

    Args:
        sent: Messages as they are sent.
        plain: Messages as they are sent if nothing changes them.
    """
    return [*map(_get_compared, sent)] == [*map(_get_compared, plain)]


def _get_compared(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the part of a message that is compared. Unsigned reasoning is stored outside of the content, and sent verbatim."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = [part for part in content if part.get("type") != "thinking" or part.get("signature")]
        content = [part for part in content if part.get("type") != "text" or part.get("text")]
        if not content or (len(content) == 1 and content[0].get("type") == "text"):
            content = "".join(part["text"] for part in content)
    functions = [(call.get("id"), call["function"]) for call in message.get("tool_calls") or ()]
    calls = [(id, function["name"], parse_arguments(function["arguments"])) for id, function in functions]
    return message["role"], content, calls, message.get("tool_call_id")
