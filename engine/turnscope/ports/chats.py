"""A session as chat apps hold it: messages as plain mappings, each with its blocks; and back.

The rows are those of `ports.rows`. What an app stores with a message outside of its content (items, usage, summaries) lies
in `Session.about["stored"]`, by tool and message id. Only the rules of that tool read it. This module decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from turnscope.envelope.rule import Ctx
from turnscope.ports.rows import build_content, memoize_by_ledger, read_rows
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON, Block, Part, Session


class ChatMessage(NamedTuple):
    """One message of the conversation: the blocks `start:stop`, and its mapping."""

    start: int
    stop: int
    message: dict[str, Any]


class Chat(NamedTuple):
    """The messages of the conversation, without system prompt and tools: where each begins and ends, and its mapping."""

    chat_messages: tuple[ChatMessage, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    messages: tuple[dict[str, Any], ...]


def find_stored(session: Session, tool: str) -> Mapping[str, Any]:
    """Return what a tool stored with messages, by message id.

    Args:
        session: The session.
        tool: The name of the tool.
    """
    stored = session.about.get("stored")
    chat = stored.get(tool) if isinstance(stored, Mapping) else None
    return chat if isinstance(chat, Mapping) else {}


def find_stored_id(name: str, stored: Mapping[str, Any]) -> str:
    """Return the id of the stored message that a message was made of; "" = none.

    One stored message may make several (`id`, `id:1`, ...).

    Args:
        name: The id of the session's message.
        stored: What the tool stored, by id.
    """
    of = name.rpartition(":")[0]
    return of if of in stored and name not in stored else ""


def read_chat(session: Session, tool: str = "") -> Chat:
    """Read a session as a chat. Tool results become messages of role `tool`.

    Args:
        session: The session.
        tool: Whose stored data is merged into the messages. Stored data with a role replaces the message.
    """
    stored = find_stored(session, tool)
    found: list[ChatMessage] = []
    for row in read_rows(session).rows:
        if row.role == "system" and not session.messages[session.blocks[row.start].message].fence:
            continue  # the system prompt; a system message inside the conversation is fenced
        blocks = session.blocks[row.start : row.stop]
        name = session.messages[blocks[0].message].id
        if found and (of := find_stored_id(name, stored)) and found[-1].message.get("id") == of:
            found[-1] = ChatMessage(found[-1].start, row.stop, found[-1].message)
            continue
        message: dict[str, Any] = {"role": row.role, "content": build_content(session, row)}
        if row.role == "tool":
            message |= {"tool_call_id": _get_id(blocks[0], "tool_use_id"), "content": extract_text(message["content"] or "")}
        if calls := [build_call(block) for block in blocks if block.kind == "tool_use"]:
            message["tool_calls"] = calls
        if row.framed and name:
            facts = stored.get(name, {})
            message = {**({} if "role" in facts else message), "id": name, **facts}
        found.append(ChatMessage(row.start, row.stop, message))
    starts, stops = tuple(one.start for one in found), tuple(one.stop for one in found)
    return Chat(tuple(found), starts, stops, tuple(one.message for one in found))


@cache
def _memoize_reading(tool: str) -> Callable[[Ctx], Chat]:
    return memoize_by_ledger(lambda session, _index, _own: read_chat(session, tool))


def get_chat(ctx: Ctx, tool: str = "") -> Chat:
    """Return the session as a chat with the stored data of a tool. It is read once.

    Args:
        ctx: The context of the request.
        tool: The name of the tool; "" = no stored data.
    """
    return _memoize_reading(tool)(ctx)


def find_leading_end(ctx: Ctx) -> int:
    """Return where the system prompt and the tools at the start end."""
    static, cut = ctx.index.static, ctx.request.cut
    return next((n for n, at in enumerate(static) if n != at or at >= cut), min(len(static), cut))


def _get_id(block: Block, key: str) -> str:
    return str(block.raw.get(key) or "") if isinstance(block.raw, Mapping) else ""


def build_call(block: Block) -> dict[str, Any]:
    """Return a call in the form of chat completions."""
    arguments = block.raw.get("input") if isinstance(block.raw, Mapping) else None
    written = arguments if isinstance(arguments, str) else dumps(arguments if arguments is not None else {})
    return {"id": _get_id(block, "id"), "type": "function", "function": {"name": block.name, "arguments": written}}


def build_parts(messages: Iterable[Mapping[str, Any]]) -> Iterator[Part]:
    """Return chat messages as the parts of a placeholder."""
    for message in messages:
        role, content = str(message.get("role")), message.get("content")
        if role == "tool":
            raw = {"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": content}
            yield Part("user", "tool_result", extract_text(content), raw)
            continue
        for key in ("thinking", "reasoning_content"):
            if message.get(key):
                yield Part(role, "thinking", message[key], {"type": "thinking", "thinking": message[key]})
        if isinstance(content, str) and (content or not message.get("tool_calls")):
            yield Part(role, "text", content, content)
        for raw in content if isinstance(content, list) else ():
            kind = str(raw.get("type", "text")) if isinstance(raw, Mapping) else "text"
            yield Part(role, "image" if "image" in kind else kind, "" if "image" in kind else extract_text(raw), raw)
        for made in message.get("tool_calls") or ():
            function = made.get("function") or {}
            name, written = function.get("name", ""), function.get("arguments", "")
            raw = {"type": "tool_use", "id": made.get("id", ""), "name": name, "input": parse_arguments(written)}
            yield Part(role, "tool_use", f"{name} {written}", raw)


def parse_arguments(written: str) -> JSON:
    """Parse the arguments of a call; empty if they are no JSON object."""
    try:
        found = json.loads(written)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
