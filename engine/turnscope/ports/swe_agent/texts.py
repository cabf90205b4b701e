"""What SWE-agent's history processors do to one text, and which observations are old.

Pure functions; the rules of the same name and `processors` call them. Ported from `sweagent/agent/history_processors.py`
(SWE-agent/SWE-agent 3ea751c0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

KEEP, REMOVE = "keep_output", "remove_output"  # tags by default
NUMBERED = re.compile(r"^(\d+)\:.*?(\n|$)", re.MULTILINE)
HEADER = re.compile(r"\[File:\s+(.*)\s+\(\d+\s+lines\ total\)\]")
IMAGE = re.compile(r"(!\[([^\]]*)\]\(data:)([^;]+);base64,([^)]+)(\))")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")


def find_elided_stop(count: int, n: int, polling: int = 1) -> int:
    """Observations 1 to this number (not included) are old among `count`; number 0, the task, never is."""
    return max(0, count // polling * polling - n)


def build_placeholder(texts: Iterable[str], images: int) -> str:
    """What stands for an old observation: how many lines, and images if there are any, were left out."""
    lines = sum(len(text.splitlines()) for text in texts)
    return f"Old environment output: ({lines} lines omitted)" + (f" ({images} images omitted)" if images else "")


def find_window(text: str) -> str | None:
    """The file that a text shows a window of; "" where it has numbered lines and names none, None where it has no lines."""
    if not NUMBERED.search(text):
        return None
    named = HEADER.search(text)
    return named[1] if named else ""


def close_windows(text: str) -> str:
    """A text whose window is outdated: a line stands for the stretch of its numbered lines."""
    found = list(NUMBERED.finditer(text))
    return f"{text[: found[0].start()]}Outdated window with {len(found)} lines omitted...\n{text[found[-1].end() :]}"


def remove_matches(text: str, patterns: Sequence[str]) -> str:
    """A text without what each pattern in turn matches; a dot matches line breaks as well."""
    for pattern in patterns:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return text


def split_images(text: str, allowed: Sequence[str]) -> list[dict[str, Any]] | None:
    """Text and image blocks of a text with markdown images of allowed types; None where it has none."""
    blocks: list[dict[str, Any]] = []
    end = 0

    def add(said: str) -> None:
        if blocks and blocks[-1]["type"] == "text":
            blocks[-1]["text"] += said
        elif said:
            blocks.append({"type": "text", "text": said})

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
