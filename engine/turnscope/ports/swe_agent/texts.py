"""What SWE-agent's history processors do to one text, and which observations are old.

Pure functions for the rules of the same name, and for `processors`. Ported from `sweagent/agent/history_processors.py`
(SWE-agent/SWE-agent 3ea751c0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

KEEP, REMOVE = "keep_output", "remove_output"  # the default tags
DIFF = "<diff>.*</diff>"  # removed by default; a dot matches line breaks
NUMBERED = re.compile(r"^(\d+)\:.*?(\n|$)", re.MULTILINE)
HEADER = re.compile(r"\[File:\s+(.*)\s+\(\d+\s+lines\ total\)\]")
IMAGE = re.compile(r"(!\[([^\]]*)\]\(data:)([^;]+);base64,([^)]+)(\))")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")


def find_elided_stop(count: int, n: int, polling: int = 1) -> int:
    """Return up to which number (not included) observations are old, counted from 1. Number 0 is the task, and never old.

    Args:
        count: How many observations there are.
        n: How many of the newest stay.
        polling: The result changes once every so many observations, so that the cached prefix lasts.
    """
    return max(0, count // polling * polling - n)


def build_placeholder(texts: Iterable[str], images: int) -> str:
    """Return the placeholder of an old observation. It says how many lines, and how many images, were left out.

    Args:
        texts: The observation's texts, one per block.
        images: How many images it has.
    """
    lines = sum(len(text.splitlines()) for text in texts)
    return f"Old environment output: ({lines} lines omitted)" + (f" ({images} images omitted)" if images else "")


def find_window(text: str) -> str | None:
    """Return the file whose window a text shows.

    "" if the text has numbered lines but no file name; None if it has no numbered lines.
    """
    if not NUMBERED.search(text):
        return None
    named = HEADER.search(text)
    return named[1] if named else ""


def close_windows(text: str) -> str:
    """Replace the numbered lines of a text by one line that says that they are outdated."""
    found = list(NUMBERED.finditer(text))
    return f"{text[: found[0].start()]}Outdated window with {len(found)} lines omitted...\n{text[found[-1].end() :]}"


def remove_matches(text: str, patterns: Sequence[str]) -> str:
    """Remove from a text what each pattern matches, one after the other. A dot matches line breaks too.

    Args:
        text: The text.
        patterns: Regular expressions of Python's `re`.
    """
    for pattern in patterns:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return text


def split_images(text: str, allowed: Sequence[str]) -> list[dict[str, Any]] | None:
    """Split a text with Markdown images of allowed types into text and image blocks; None if it has none.

    Args:
        text: The text.
        allowed: Media types, such as `image/png`; `image/jpg` counts as `image/jpeg`.
    """
    blocks: list[dict[str, Any]] = []
    end = 0

    def add(text: str) -> None:
        if blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += text
        elif text:
            blocks.append({"type": "text", "text": text})

    for match in IMAGE.finditer(text):
        mime = "image/jpeg" if match[3] == "image/jpg" else match[3]
        if mime not in allowed:
            continue
        add(text[end : match.start()] + match[1])
        blocks.append({"type": "image_url", "image_url": {"url": f"data:{mime};base64,{match[4]}"}})
        end = match.start(5)
    if not end:
        return None
    add(text[end:])
    return blocks
