"""Context edits and compaction of the built-in model, as the Messages API documents them: what the model reads of a body.

Pure functions from bodies to bodies. `edit_validation` says which edits the API rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from turnscope.planning.extract import extract
from turnscope.session.content import extract_text

JSON = Any
CountTokens = Callable[[Mapping[str, JSON]], int]  # returns the input tokens of a body
CLEARED_RESULT = "[cleared to save context]"
MAX_SUMMARY = 800  # tokens
TRIGGER, KEEP, COMPACT_AT = 100_000, 3, 150_000  # the API's defaults: tokens, tool uses, tokens


def drop_compacted(messages: list[JSON]) -> list[JSON]:
    """Return the messages from the newest compaction block on. A block without content is ignored."""
    for i in range(len(messages) - 1, -1, -1):
        content = messages[i].get("content")
        if isinstance(content, list):
            for j in range(len(content) - 1, -1, -1):
                if isinstance(content[j], dict) and content[j].get("type") == "compaction" and content[j].get("content"):
                    return [{**messages[i], "content": content[j:]}, *messages[i + 1 :]]
    return messages


def apply_edits(body: dict[str, JSON], count_tokens: CountTokens) -> tuple[dict[str, JSON], list[JSON]]:
    """Apply the `context_management` edits of a body.

    Args:
        body: The request body.
        count_tokens: Counts the input tokens of a body.

    Returns:
        The body that the model reads, and the edits that changed something, as the response reports them.
    """
    applied: list[JSON] = []
    for edit in list_edits(body):
        read = {**body, "messages": drop_compacted(body["messages"])}
        if edit.get("type") == "clear_tool_uses_20250919":
            edited, cleared = _clear_tool_uses(read, edit, count_tokens)
            name = "cleared_tool_uses"
        elif edit.get("type") == "clear_thinking_20251015":
            edited, cleared = _clear_thinking(read, edit)
            name = "cleared_thinking_turns"
        else:
            continue
        if cleared:
            applied.append(
                {"type": edit["type"], name: cleared, "cleared_input_tokens": count_tokens(read) - count_tokens(edited)}
            )
            body = edited
    return body, applied


def find_due_compaction(body: Mapping[str, JSON], size: int) -> Mapping[str, JSON] | None:
    """Return the compaction edit whose trigger the prompt has reached; None if there is none.

    Args:
        body: The request body.
        size: Its input tokens.
    """
    wanted = (edit for edit in list_edits(body) if edit.get("type") == "compact_20260112")
    return next((edit for edit in wanted if size >= (edit.get("trigger") or {}).get("value", COMPACT_AT)), None)


def summarize(body: Mapping[str, JSON], max_tokens: int = MAX_SUMMARY) -> str:
    """Summarise what the model reads of a body.

    Args:
        body: The request body.
        max_tokens: The longest summary.
    """
    return extract(format_transcript(drop_compacted(body["messages"])), min(max_tokens, MAX_SUMMARY))


def format_transcript(messages: list[JSON]) -> str:
    """Format messages as lines of `role: text`."""
    return "\n".join(f"{message['role']}: {extract_text(message.get('content'))}" for message in messages)


def list_edits(body: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    """Return the edits of a body."""
    return (body.get("context_management") or {}).get("edits") or []


def list_blocks(message: JSON) -> Iterator[dict[str, JSON]]:
    """Yield the blocks of a message whose content is a list."""
    content = message.get("content")
    return (b for b in content if isinstance(b, dict)) if isinstance(content, list) else iter(())


def _clear_tool_uses(body: dict[str, JSON], edit: Mapping[str, JSON], count_tokens: CountTokens) -> tuple[dict[str, JSON], int]:
    names = {b["id"]: b.get("name") for m in body["messages"] for b in list_blocks(m) if b.get("type") == "tool_use"}
    ids = [b["tool_use_id"] for m in body["messages"] for b in list_blocks(m) if b.get("type") == "tool_result"]
    trigger, keep = edit.get("trigger") or {}, (edit.get("keep") or {}).get("value", KEEP)
    by_uses = trigger.get("type") == "tool_uses"
    if (len(ids) if by_uses else count_tokens(body)) <= trigger.get("value", TRIGGER):
        return body, 0
    spared = set(edit.get("exclude_tools") or ())
    old = {i for i in (ids[:-keep] if keep else ids) if names.get(i) not in spared}
    inputs = edit.get("clear_tool_inputs") or False
    emptied = {i for i in old if inputs is True or (inputs and names.get(i) in inputs)}
    edited = _map_blocks(body, lambda block: _clear_block(block, old, emptied))
    least = (edit.get("clear_at_least") or {}).get("value", 0)
    return (body, 0) if least and count_tokens(body) - count_tokens(edited) < least else (edited, len(old))


def _clear_block(block: JSON, old: Collection[str], emptied: Collection[str]) -> JSON:
    if isinstance(block, dict) and block.get("type") == "tool_result" and block.get("tool_use_id") in old:
        return {**block, "content": CLEARED_RESULT}
    if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("id") in emptied:
        return {**block, "input": {}}
    return block


def _clear_thinking(body: dict[str, JSON], edit: Mapping[str, JSON]) -> tuple[dict[str, JSON], int]:
    """Remove the thinking of old turns. A turn begins with a user message that holds more than tool results."""
    keep = edit.get("keep", {"type": "thinking_turns", "value": 1})
    if keep == "all" or keep.get("type") == "all":
        return body, 0
    turn, turns = 0, []
    for message in body["messages"]:
        is_prompt = message["role"] == "user" and (
            isinstance(message["content"], str) or any(b.get("type") != "tool_result" for b in list_blocks(message))
        )
        turn += is_prompt
        turns.append(turn)
    thought = dict.fromkeys(t for t, m in zip(turns, body["messages"], strict=True) if any(map(_is_thinking, list_blocks(m))))
    old = set([*thought][: -keep["value"]])
    messages = [
        {**m, "content": [b for b in m["content"] if not _is_thinking(b)]} if t in old and isinstance(m["content"], list) else m
        for t, m in zip(turns, body["messages"], strict=True)
    ]
    return {**body, "messages": messages}, len(old)


def _is_thinking(block: JSON) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def _map_blocks(body: dict[str, JSON], change: Callable[[JSON], JSON]) -> dict[str, JSON]:
    messages = [
        {**m, "content": [change(b) for b in m["content"]]} if isinstance(m["content"], list) else m for m in body["messages"]
    ]
    return {**body, "messages": messages}
