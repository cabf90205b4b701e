"""Reading provider content: the text in a block or message of whatever shape.

Shapes are Anthropic's, with OpenAI's image parts. Words for kinds that providers know nothing of stand here too. Holds no types
of our own and never raises on odd data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

# What a tool puts in beside the prompt, by kind: all of it goes out as text of messages, whatever it is about.
INJECTED_KINDS = {
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
_THOUGHT = re.compile(r"<(think|thinking|thought)>")
_BLANK = re.compile(r"\s*")


class Thought(NamedTuple):
    """Where thinking stands that is written in a text: `[start, stop)` with its tags and the white space behind; its words."""

    start: int
    stop: int
    text: str


def find_thoughts(text: str) -> Iterator[Thought]:
    """Thinking that a text holds between tags, in order; a tag that is not closed is text. Reads the text once."""
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
    """A text in pieces that make it up again, each written thought one of its own, with the white space behind it."""
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
    """Whether content goes out as text."""
    return isinstance(raw, str) or (isinstance(raw, (dict, Mapping)) and raw.get("type") == "text")


def extract_text(content: Any) -> str:
    """The readable text of a message's or tool result's content. Media have none, nor has what nests too deep to be read."""
    try:
        return _extract(content)
    except RecursionError:
        return ""


def _extract(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_extract, content)))
    if isinstance(content, (dict, Mapping)):  # a dict is found out ten times as fast
        for key in ("text", "thinking", "content"):
            if key in content:
                return _extract(content[key])
        if content.get("type") not in _MEDIA:
            return dumps(content)
        source = content.get("source")  # a document may bring its own text
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return _extract(source.get("data") or source.get("content"))
        return ""
    return "" if content is None else dumps(content)


def extract_block_text(kind: str, raw: Any) -> str:
    """What a tokenizer would count of one block: a tool call's name and input, a tool's whole definition, else its text."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, (dict, Mapping)):
        if kind == "tool_use":
            return f"{raw.get('name', '')} {dumps(raw.get('input'))}"
        if kind == "tool":
            return dumps(raw)
    return extract_text(raw)


def dumps(value: Any) -> str:
    """Compact JSON text of any value, lone surrogates and huge numbers included; "" of what nests too deep to be written."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return _lenient(value)


def encode_json(value: Any) -> bytes:
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


def replace_surrogates(text: str) -> str:
    """A text without halves of characters: two that belong together become one, a lone one U+FFFD, as tiktoken has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
