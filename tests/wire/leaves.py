"""Request bodies of four APIs as texts, so that two of them can be compared whatever their shape.

A body becomes three lists: the texts of its system prompt, of its tools and of its messages, in order. A tool call is its name
and its input as compact JSON; a picture is the digest of its data. Cache marks, ids and settings are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

Leaves = dict[str, list[str]]
SYSTEM_ROLES = ("system", "developer")


def leaves(body: Mapping[str, Any]) -> Leaves:
    """The texts of a body by part: `system`, `tools`, `messages`."""
    found: Leaves = {"system": [], "tools": [], "messages": []}
    found["system"] += _texts(body.get("system")) or _texts((body.get("systemInstruction") or {}).get("parts"))
    found["system"] += [body["instructions"]] if isinstance(body.get("instructions"), str) else []
    for tool in body.get("tools") or ():
        found["tools"] += [_tool(one) for one in (tool.get("functionDeclarations") or [tool])]
    for message in body.get("messages") or body.get("input") or body.get("contents") or ():
        system = message.get("role") in SYSTEM_ROLES
        found["system" if system else "messages"] += _message(message)
    return {part: [text for text in texts if text] for part, texts in found.items()}


def _message(message: Mapping[str, Any]) -> Iterator[str]:
    kind = message.get("type")
    if kind in ("function_call", "custom_tool_call"):
        yield _call(message.get("name"), message.get("arguments", message.get("input")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield from _texts(message.get("output"))
    elif kind == "reasoning":
        yield from _texts(message.get("summary"))
        yield from _texts(message.get("content"))
    else:
        yield from _texts(message.get("reasoning_content") or message.get("reasoning"))
        yield from _texts(message.get("content", message.get("parts")))
        for call in message.get("tool_calls") or ():
            yield _call(call["function"]["name"], call["function"].get("arguments"))


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text for part in content or () for text in _part(part)] if isinstance(content, list) else []


def _part(part: Any) -> list[str]:
    if not isinstance(part, Mapping):
        return [str(part)]
    kind = part.get("type")
    if kind == "tool_use":
        return [_call(part.get("name"), part.get("input"))]
    if kind == "tool_result":
        return _texts(part.get("content"))
    if kind == "thinking":
        return [part.get("thinking") or part.get("signature") or ""]
    if "functionCall" in part:
        return [_call(part["functionCall"].get("name"), part["functionCall"].get("args"))]
    if "functionResponse" in part:
        response = part["functionResponse"].get("response") or {}
        return [text if isinstance(text, str) else _json(text) for text in response.values()]
    for key in ("source", "image_url", "inlineData"):
        if part.get(key):
            return [sha256(_data(part[key]).encode()).hexdigest()]
    return [part["text"]] if isinstance(part.get("text"), str) else []


def _data(picture: Any) -> str:
    """The data of a picture, or its address."""
    held = picture if isinstance(picture, Mapping) else {"url": picture}
    return str(held.get("data") or held.get("url")).partition(";base64,")[2] or str(held.get("data") or held.get("url"))


def _call(name: Any, given: Any) -> str:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return f"{name} {given}"
    return f"{name} {_json(given)}"


def _tool(tool: Mapping[str, Any]) -> str:
    own = tool.get("function") or tool
    schema = own.get("input_schema") or own.get("parameters") or own.get("parametersJsonSchema") or {}
    return f"{own.get('name')} {own.get('description')} {_json(schema)}"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
