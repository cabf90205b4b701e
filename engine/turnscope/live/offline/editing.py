"""Context edits and compaction of the built-in model, as the Messages API documents them: what is read of what was sent.

Bodies in, bodies out; nothing is remembered. What the API rejects of an edit is `strict_edits`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from turnscope.planning.extract import extract
from turnscope.session.content import extract_text

JSON = Any
Sized = Callable[[Mapping[str, JSON]], int]  # input tokens of a body
CLEARED = "[cleared to save context]"
SUMMARY = 800  # tokens of a summary, at most
TRIGGER, KEEP, COMPACT_AT = 100_000, 3, 150_000  # documented defaults


def visible(messages: list[JSON]) -> list[JSON]:
    """Messages from the newest compaction block on: what stands before it is not read. One without content changes nothing."""
    for i in range(len(messages) - 1, -1, -1):
        content = messages[i].get("content")
        if isinstance(content, list):
            for j in range(len(content) - 1, -1, -1):
                if isinstance(content[j], dict) and content[j].get("type") == "compaction" and content[j].get("content"):
                    return [{**messages[i], "content": content[j:]}, *messages[i + 1 :]]
    return messages


def edited(body: dict[str, JSON], sized: Sized) -> tuple[dict[str, JSON], list[JSON]]:
    """The body after its own `context_management` edits, and those that were applied, in order."""
    applied: list[JSON] = []
    for edit in edits(body):
        read = {**body, "messages": visible(body["messages"])}
        if edit.get("type") == "clear_tool_uses_20250919":
            made, cleared = _clear_uses(read, edit, sized)
            name = "cleared_tool_uses"
        elif edit.get("type") == "clear_thinking_20251015":
            made, cleared = _clear_thinking(read, edit)
            name = "cleared_thinking_turns"
        else:
            continue
        if cleared:
            applied.append({"type": edit["type"], name: cleared, "cleared_input_tokens": sized(read) - sized(made)})
            body = made
    return body, applied


def due(body: Mapping[str, JSON], size: int) -> Mapping[str, JSON] | None:
    """The compaction edit whose trigger a prompt of so many tokens has reached; None where there is none."""
    wanted = (edit for edit in edits(body) if edit.get("type") == "compact_20260112")
    return next((edit for edit in wanted if size >= (edit.get("trigger") or {}).get("value", COMPACT_AT)), None)


def summary(body: Mapping[str, JSON], most: int = SUMMARY) -> str:
    """The summary of all that is read of a body."""
    return extract(transcript(visible(body["messages"])), min(most, SUMMARY))


def transcript(messages: list[JSON]) -> str:
    """Messages as `role: text` lines."""
    return "\n".join(f"{message['role']}: {extract_text(message.get('content'))}" for message in messages)


def edits(body: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    """The edits that a body asks for."""
    return (body.get("context_management") or {}).get("edits") or []


def blocks(message: JSON) -> Iterator[dict[str, JSON]]:
    """The blocks of a message whose content is a list."""
    content = message.get("content")
    return (b for b in content if isinstance(b, dict)) if isinstance(content, list) else iter(())


def _clear_uses(body: dict[str, JSON], edit: Mapping[str, JSON], sized: Sized) -> tuple[dict[str, JSON], int]:
    names = {b["id"]: b.get("name") for m in body["messages"] for b in blocks(m) if b.get("type") == "tool_use"}
    ids = [b["tool_use_id"] for m in body["messages"] for b in blocks(m) if b.get("type") == "tool_result"]
    trigger, keep = edit.get("trigger") or {}, (edit.get("keep") or {}).get("value", KEEP)
    by_uses = trigger.get("type") == "tool_uses"
    if (len(ids) if by_uses else sized(body)) <= trigger.get("value", TRIGGER):
        return body, 0
    spared = set(edit.get("exclude_tools") or ())
    old = {i for i in (ids[:-keep] if keep else ids) if names.get(i) not in spared}
    inputs = edit.get("clear_tool_inputs") or False
    emptied = {i for i in old if inputs is True or (inputs and names.get(i) in inputs)}
    made = _mapped(body, lambda block: _without(block, old, emptied))
    least = (edit.get("clear_at_least") or {}).get("value", 0)
    return (body, 0) if least and sized(body) - sized(made) < least else (made, len(old))


def _without(block: JSON, old: Collection[str], emptied: Collection[str]) -> JSON:
    if isinstance(block, dict) and block.get("type") == "tool_result" and block.get("tool_use_id") in old:
        return {**block, "content": CLEARED}
    if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("id") in emptied:
        return {**block, "input": {}}
    return block


def _clear_thinking(body: dict[str, JSON], edit: Mapping[str, JSON]) -> tuple[dict[str, JSON], int]:
    """A turn is all that is answered to one message of the user's that holds more than results."""
    keep = edit.get("keep", {"type": "thinking_turns", "value": 1})
    if keep == "all" or keep.get("type") == "all":
        return body, 0
    turn, turns = 0, []
    for message in body["messages"]:
        said = message["role"] == "user" and (
            isinstance(message["content"], str) or any(b.get("type") != "tool_result" for b in blocks(message))
        )
        turn += said
        turns.append(turn)
    thought = dict.fromkeys(t for t, m in zip(turns, body["messages"], strict=True) if any(map(_thinks, blocks(m))))
    old = set([*thought][: -keep["value"]])
    messages = [
        {**m, "content": [b for b in m["content"] if not _thinks(b)]} if t in old and isinstance(m["content"], list) else m
        for t, m in zip(turns, body["messages"], strict=True)
    ]
    return {**body, "messages": messages}, len(old)


def _thinks(block: JSON) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def _mapped(body: dict[str, JSON], change: Callable[[JSON], JSON]) -> dict[str, JSON]:
    messages = [
        {**m, "content": [change(b) for b in m["content"]]} if isinstance(m["content"], list) else m for m in body["messages"]
    ]
    return {**body, "messages": messages}
