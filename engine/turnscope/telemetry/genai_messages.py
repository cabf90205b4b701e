"""A request's body and its answer as messages of the GenAI conventions. Pure functions.

A block without a part type there stays a block of Anthropic's Messages API, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.reading.content_blocks import as_mapping
from turnscope.session.model import JSON


def to_messages(body: Mapping[str, JSON]) -> list[JSON]:
    """`gen_ai.input.messages` of a body."""
    found: list[JSON] = []
    for message in body.get("messages") or ():
        written = to_parts(message["content"])
        results = bool(written) and all(part["type"] == "tool_call_response" for part in written)
        found.append({"role": "tool" if results else message["role"], "parts": written})
    return found


def to_answer(blocks: Sequence[JSON], reason: str) -> list[JSON]:
    """`gen_ai.output.messages` of an answer; empty without blocks.

    Args:
        blocks: the answer.
        reason: why it ended.
    """
    return [{"role": "assistant", "parts": to_parts(list(blocks)), "finish_reason": reason}] if blocks else []


def to_parts(content: Any) -> list[dict[str, JSON]]:
    """The parts of a message's content, which is a text or blocks."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    return [_to_part(block) if isinstance(block, Mapping) else {"type": "text", "content": block} for block in blocks]


def to_tools(body: Mapping[str, JSON]) -> list[JSON]:
    """`gen_ai.tool.definitions` of a body; a provider's own tools stay as they are."""
    found: list[JSON] = []
    for tool in body.get("tools") or ():
        rest = {key: value for key, value in tool.items() if key != "input_schema"}
        found.append({"type": "function", **rest, "parameters": tool["input_schema"]} if "input_schema" in tool else tool)
    return found


def _to_part(block: Mapping[str, Any]) -> dict[str, JSON]:
    rest = {key: value for key, value in block.items() if key not in _TAKEN.get(block.get("type", ""), ())}
    match block.get("type"):
        case "text":
            return {**rest, "type": "text", "content": block.get("text")}
        case "thinking":
            return {**rest, "type": "reasoning", "content": block.get("thinking")}
        case "tool_use":
            return {**rest, "type": "tool_call", "arguments": block.get("input")}
        case "tool_result":
            return {**rest, "type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}
        case "image" if as_mapping(block.get("source")).get("type") == "base64":
            source = block["source"]
            return {**rest, "type": "blob", "modality": "image", "mime_type": source["media_type"], "content": source["data"]}
    return dict(block)


_TAKEN = {
    "text": ("text",),
    "thinking": ("thinking",),
    "tool_use": ("input",),
    "tool_result": ("tool_use_id", "content"),
    "image": ("source",),
}
