"""Reads provider content: the text of a block or a message of any shape.

Shapes are Anthropic's, plus OpenAI's image parts. Kinds that only Turnscope knows have their words here. The module holds no
types of its own and never raises on odd data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

# What an agent injects into the prompt, by kind. All of it is sent as text of messages.
INJECTED_KINDS = {
    "agents": "agents",
    "skills": "skills",
    "deferred_tools": "deferred tools",
    "mcp_instructions": "MCP instructions",
    "memory": "memory",
    "files": "attached files",
    "reminder": "reminders",
    "hooks": "hooks",
}

UNRECORDED = "unrecorded"
"""Type of a content block whose content a log does not hold, only its `tokens` and its `bucket`."""
_MEDIA = (UNRECORDED, "image", "document", "image_url", "input_image", "file", "input_file", "redacted_thinking")
THOUGHTS = ("thinking", "redacted_thinking")
_THOUGHT = re.compile(r"<(think|thinking|thought)>")
_BLANK = re.compile(r"\s*")


class Thought(NamedTuple):
    """Thinking written in a text: the range `[start, stop)` with its tags and the white space after it, and its text."""

    start: int
    stop: int
    text: str


def find_thoughts(text: str) -> Iterator[Thought]:
    """Find the thinking between tags in a text, in order. A tag that is not closed counts as text. One pass over the text.

    >>> [thought.text for thought in find_thoughts("<think>add them</think>4")]
    ['add them']
    """
    at, unclosed = 0, set[str]()
    while opened := _THOUGHT.search(text, at):
        tag, at = opened[1], opened.end()
        stop = -1 if tag in unclosed else text.find(f"</{tag}>", at)
        if stop < 0:
            unclosed.add(tag)
            continue
        blank = _BLANK.match(text, stop + len(tag) + 3)
        words, at = text[at:stop], blank.end() if blank else stop
        yield Thought(opened.start(), at, words)


def split_thoughts(text: str) -> list[str]:
    """Split a text into pieces that make it up again. Each written thought is a piece, with the white space after it.

    >>> split_thoughts("<think>add them</think> 4")
    ['<think>add them</think> ', '4']
    """
    pieces: list[str] = []
    at = 0
    for thought in find_thoughts(text):
        before = text[at : thought.start]
        pieces += [before, text[thought.start : thought.stop]] if before.strip() else [text[at : thought.stop]]
        at = thought.stop
    return [*pieces, text[at:]] if at < len(text) or not pieces else pieces


def is_thought(text: str) -> bool:
    """Whether a text is one written thought and nothing else."""
    opened = _BLANK.match(text)
    start = opened.end() if opened else 0
    if not text.startswith("<th", start):
        return False
    found = next(find_thoughts(text), None)
    return found is not None and found.start == start and found.stop == len(text)


def is_text(raw: Any) -> bool:
    """Whether content is sent as text."""
    return isinstance(raw, str) or (isinstance(raw, (dict, Mapping)) and raw.get("type") == "text")


def extract_text(content: Any) -> str:
    """Get the readable text of a message's or a tool result's content.

    Media have no text. Content that is nested too deep to be read has none either.

    >>> extract_text([{"type": "text", "text": "Hello"}, {"type": "image", "source": {}}])
    'Hello'
    """
    try:
        return _extract(content)
    except RecursionError:
        return ""


def _extract(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_extract, content)))
    if isinstance(content, (dict, Mapping)):  # the check for dict is ten times as fast
        for key in ("text", "thinking", "content"):
            if key in content:
                return _extract(content[key])
        if content.get("type") not in _MEDIA:
            return dumps(content)
        source = content.get("source")  # a document may hold its own text
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return _extract(source.get("data") or source.get("content"))
        return ""
    return "" if content is None else dumps(content)


def extract_block_text(kind: str, raw: Any) -> str:
    """Get the text that a tokenizer would count of one block.

    Args:
        kind: The block's kind. A tool call counts with its name and input, a tool with its whole definition.
        raw: The block as sent, or a bare string.
    """
    if isinstance(raw, str):
        return raw
    if isinstance(raw, (dict, Mapping)):
        if kind == "tool_use":
            return f"{raw.get('name', '')} {dumps(raw.get('input'))}"
        if kind == "tool":
            return dumps(raw)
    return extract_text(raw)


def dumps(value: Any) -> str:
    """Write any value as compact JSON text, lone surrogates and huge numbers included; "" where it is nested too deep."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return _lenient(value)


def encode_json(value: Any) -> bytes:
    """Write any value as compact JSON in UTF-8. Lone surrogates stay."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return _lenient(value).encode("utf-8", "surrogatepass")


def _lenient(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), default=str)
    except RecursionError:
        return ""


def replace_surrogates(text: str) -> str:
    """Make a text valid Unicode: two surrogates that belong together become one character, a lone one becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def drop_thoughts(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages, as role and content, without thinking; one that is nothing else is left out.

    Args:
        messages: The messages.
    """
    kept: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = [block for block in content if not (isinstance(block, Mapping) and block.get("type") in THOUGHTS)]
        if content:
            kept.append({"role": message.get("role"), "content": content})
    return kept
