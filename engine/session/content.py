"""Reading provider content: the text in a block or message of whatever shape.

Shapes are Anthropic's, with OpenAI's image parts. Words for kinds that providers know nothing of stand here too. Holds no types
of our own and never raises on odd data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

# What a tool puts in beside the prompt, by kind: all of it goes out as text of messages, whatever it is about.
PUT_IN = {
    "agents": "agents",
    "skills": "skills",
    "deferred_tools": "deferred tools",
    "mcp_instructions": "MCP instructions",
    "memory": "memory",
    "files": "files put in",
    "reminder": "reminders",
    "hooks": "hooks",
}

_MEDIA = ("image", "document", "image_url", "input_image", "file", "input_file", "redacted_thinking")


def text_of(content: Any) -> str:
    """The readable text of a message's or tool result's content. Media have none, nor has what nests too deep to be read."""
    try:
        return _text(content)
    except RecursionError:
        return ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, (dict, Mapping)):  # a dict is found out ten times as fast
        for key in ("text", "thinking", "content"):
            if key in content:
                return _text(content[key])
        if content.get("type") not in _MEDIA:
            return dumps(content)
        source = content.get("source")  # a document may bring its own text
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return _text(source.get("data") or source.get("content"))
        return ""
    return "" if content is None else dumps(content)


def block_text(kind: str, raw: Any) -> str:
    """What a tokenizer would count of one block: a tool call's name and input, a tool's whole definition, else its text."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, (dict, Mapping)):
        if kind == "tool_use":
            return f"{raw.get('name', '')} {dumps(raw.get('input'))}"
        if kind == "tool":
            return dumps(raw)
    return text_of(raw)


def dumps(value: Any) -> str:
    """Compact JSON text of any value, lone surrogates and huge numbers included; "" of what nests too deep to be written."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return _lenient(value)


def encoded(value: Any) -> bytes:
    """The same as UTF-8, halves of characters as they are."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return _lenient(value).encode("utf-8", "surrogatepass")


def _lenient(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), default=str)
    except RecursionError:
        return ""


def well_formed(text: str) -> str:
    """A text without halves of characters: two that belong together become one, a lone one U+FFFD, as tiktoken has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
