"""What the forms share: which blocks belong to one provider, texts of blocks, and events of a Messages API stream.

A chat's bodies have the form of the Messages API. What one provider alone understands (encrypted reasoning, signatures)
stands in a block under `provider`, with that provider's name. It goes back to that provider alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.live.stream_assembler import list_blocks, repair_text
from turnscope.session.model import JSON, Usage
from turnscope.session.usage import InvalidUsage

KEY = "provider"
TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Kinds of `tool_choice` as OpenAI's APIs name them."""


def mark(provider: str, **fields: JSON) -> dict[str, JSON]:
    """Return the field of a block that says whose block it is.

    Args:
        provider: The provider's name.
        **fields: What it wants back with the block.
    """
    return {KEY: {"name": provider} | {name: value for name, value in fields.items() if value}}


def get_fields(block: JSON, provider: str) -> Mapping[str, JSON]:
    """Return what a provider wants back with a block; nothing if the block is not its own.

    Args:
        block: The block.
        provider: The provider's name.
    """
    found = block.get(KEY)
    return found if isinstance(found, Mapping) and found.get("name") == provider else {}


def strip_foreign(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a body for the Messages API, without what belongs to other providers: their thinking and their fields."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(KEY in block for message in messages for block in list_content(message)):
        return dict(body)
    own = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            blocks = [block for block in content if not _is_foreign(block)]
            content = [_drop_key(block) for block in blocks] or [{"type": "text", "text": "[The model only thought.]"}]
        own.append({**message, "content": content})
    return {**body, "messages": own}


def _is_foreign(block: JSON) -> bool:
    return isinstance(block, Mapping) and KEY in block and block.get("type") == "thinking"


def _drop_key(block: JSON) -> JSON:
    if isinstance(block, Mapping) and KEY in block and block.get("type") == "compaction":
        return {"type": "text", "text": describe(block)}
    return {key: value for key, value in block.items() if key != KEY} if isinstance(block, Mapping) else block


def list_content(message: Mapping[str, JSON]) -> list[dict[str, Any]]:
    """Return the content of a message as blocks. What is no block is left out."""
    return [block for block in list_blocks(message.get("content")) if isinstance(block, dict)]


def list_messages(body: Mapping[str, JSON]) -> Sequence[Mapping[str, JSON]]:
    """Return the messages of a body."""
    return [message for message in body.get("messages") or () if isinstance(message, Mapping)]


def join_system(body: Mapping[str, JSON]) -> str:
    """Return the system prompt as one text; "" if there is none."""
    return "\n\n".join(text for block in list_blocks(body.get("system")) if (text := describe(block)))


def read_result(block: Mapping[str, JSON]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a tool's result, and its images."""
    parts = list_content(block)
    text = "\n".join(describe(part) for part in parts if part.get("type") != "image")
    return text or ("[no output]" if not parts else ""), [part for part in parts if part.get("type") == "image"]


def describe(block: Any) -> str:
    """Return a block as text: its own, or what it is where an API has no such block."""
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return ""
    match block.get("type"):
        case "text" | "input_text":
            return str(block.get("text") or "")
        case "thinking" | "redacted_thinking":
            return ""
        case "compaction":
            return str(block.get("content") or "")
        case "document" if (source := _get_source(block)).get("type") == "text":
            return str(source.get("data") or "")
        case _:
            return json.dumps(repair_text(block), ensure_ascii=False)


def get_data_url(block: Mapping[str, JSON]) -> str:
    """Return the image or document of a block as an address: a data URL, or the address that the block names; "" = none."""
    source = _get_source(block)
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url") or "")


def get_inline_data(block: Mapping[str, JSON]) -> tuple[str, str]:
    """Return the media type and the base64 data of an image or document; "" and "" where the block holds none."""
    source = _get_source(block)
    return (str(source.get("media_type")), str(source.get("data"))) if source.get("type") == "base64" else ("", "")


def _get_source(block: Mapping[str, JSON]) -> Mapping[str, JSON]:
    source = block.get("source")
    return source if isinstance(source, Mapping) else {}


def list_tools(body: Mapping[str, JSON]) -> list[dict[str, Any]]:
    """Return the tools of a body that have a schema. Tools that run at Anthropic have none and exist nowhere else."""
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    return [tool for tool in tools if isinstance(tool.get("input_schema"), Mapping)]


def get_choice(body: Mapping[str, JSON]) -> tuple[str, str]:
    """Return the kind of a body's `tool_choice` and the tool that it names; "" where there is none."""
    choice = body.get("tool_choice")
    return (str(choice.get("type") or ""), str(choice.get("name") or "")) if isinstance(choice, Mapping) else ("", "")


def get_effort(body: Mapping[str, JSON]) -> str:
    """Return how hard the model should think; "" where the body does not switch thinking on."""
    thinking, output = body.get("thinking"), body.get("output_config")
    if not isinstance(thinking, Mapping) or thinking.get("type") not in ("adaptive", "enabled"):
        return ""
    return str((output.get("effort") if isinstance(output, Mapping) else "") or "medium")


def write_arguments(block: Mapping[str, JSON]) -> str:
    """Return the arguments of a call as JSON text."""
    value = block.get("input")
    return json.dumps(repair_text(value if isinstance(value, Mapping) else {}), ensure_ascii=False)


def make_start(id: Any) -> JSON:
    """Return the event that begins an answer."""
    return {"type": "message_start", "message": {"id": id if isinstance(id, str) else ""}}


def make_text_delta(index: str, kind: str, text: Any) -> Iterator[JSON]:
    """Yield the event that adds text to a block.

    Args:
        index: The block.
        kind: text or thinking.
        text: The text; anything but a text that is not empty yields nothing.
    """
    if isinstance(text, str) and text:
        yield {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: text}}


def make_block(index: str, block: Mapping[str, JSON]) -> JSON:
    """Return the event that begins a block, or brings a whole one.

    Args:
        index: The block's place in the answer.
        block: The block as far as it is known.
    """
    return {"type": "content_block_start", "index": index, "content_block": block}


def make_fields(index: str, fields: Mapping[str, JSON]) -> JSON:
    """Return the event that adds fields to a block.

    Args:
        index: The block's place in the answer.
        fields: The fields.
    """
    return {"type": "content_block_delta", "index": index, "delta": {"type": "provider_delta", **fields}}


def make_end(reason: str, usage: Usage | None) -> Iterator[JSON]:
    """Yield the events of a stop reason and of a usage, as far as they are known.

    Args:
        reason: The stop reason; "" = none.
        usage: The usage; None = not reported.
    """
    if reason:
        yield {"type": "message_delta", "delta": {"stop_reason": reason}}
    if usage is not None:
        yield {"type": "message_delta", "usage": write_usage(usage)}


def write_usage(usage: Usage) -> JSON:
    """Return a usage under the names of the Messages API; one that cannot be right as it is, because its zeros mean nothing."""
    if isinstance(usage, InvalidUsage):
        return usage
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return {name: getattr(usage, name) for name in names}
