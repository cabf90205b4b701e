"""Folders of raw request bodies that Claude Code writes: how a line of `index.jsonl` leads to the body that it names."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from turnscope.reading.calls import is_body
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.source import Source

INDEX = "index.jsonl"
REDACTED = "<REDACTED>"  # stands in place of all thinking


def open_body(index: Source, name: str) -> Source | None:
    """Open a file in the folder of an index; None where it is not there, or its name leads out of the folder.

    Args:
        index: The index.
        name: The file's name.
    """
    return index.open_sibling(name) if name == PurePath(name).name else None


def read_request(index: Source, name: str) -> dict[str, Any] | None:
    """Read the body of a request, thinking still redacted; None where the folder does not hold it.

    Args:
        index: The folder's index.
        name: The name of the file that holds the body.
    """
    file = open_body(index, name)
    body = file.document if file is not None else None
    return body if isinstance(body, dict) and is_body(body) else None


def restore_thinking(message: Any, thoughts: dict[str, str]) -> Any:
    """Return a message with the text of its redacted thinking filled in; empty where the text is not known.

    Args:
        message: The message.
        thoughts: Texts of thinking by signature.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or not any(as_mapping(block).get("thinking") == REDACTED for block in content):
        return message
    restored = [
        {**block, "thinking": thoughts.get(str(block.get("signature")), "")}
        if as_mapping(block).get("thinking") == REDACTED
        else block
        for block in content
    ]
    return {**message, "content": restored}
