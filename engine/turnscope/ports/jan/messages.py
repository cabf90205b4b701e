"""Jan: estimates, the cut, the excerpt that is summarised, and how messages are split and joined.

Pure functions over its UI messages (`id`, `role`, `parts`, `metadata`) as plain mappings, written from what is documented of
context-manager.ts and custom-chat-transport.ts (janhq/jan 92eeab44). Its notices are in our wording, at the originals'
lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from turnscope.reading.jan_threads import is_call
from turnscope.session.content import dumps
from turnscope.session.model import Block, Session

ChatMessage = Mapping[str, Any]
TOOL = "jan"  # the key of this tool's data in `Session.about["stored"]`
UNITS, FRAME = 3.5, 4  # UTF-16 units per token; tokens of a message's frame
OUTPUT = 2_048  # tokens kept free for the answer by default
SUMMARY_TOKENS, PROMPT_TOKENS, LEAST = 512, 53, 1_024  # tokens of the summary, of its prompt, and of the text it reads at least
HEAD = "[Summary of what was said here]\n"
INTERRUPTED = "The call was broken off before it came to an end: no result.."
DONE = ("output-available", "output-error")


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text, without the frame of a message."""
    return ceil(len(text.encode("utf-16-le", "surrogatepass")) // 2 / UNITS)


def estimate_message(message: ChatMessage) -> int:
    """Estimate the tokens of a message: texts, calls as JSON, and files, joined by line breaks. Reasoning counts nothing."""
    texts = []
    for part in message.get("parts") or ():
        if part.get("type") == "text":
            texts.append(part.get("text") or "")
        elif is_call(part):
            texts.append(dumps(part))
    texts += [f"File: {name}\n{content}" for name, content in list_files(message)]
    return estimate_text("\n".join(texts)) + FRAME


def list_files(message: ChatMessage) -> list[tuple[str, str]]:
    """Return names and contents of the files in a message."""
    files = (message.get("metadata") or {}).get("inline_file_contents") or ()
    return [(str(file.get("name") or "attachment"), str(file["content"])) for file in files if file.get("content")]


def find_first_kept(sums: Sequence[int], there: int, budget: int) -> int:
    """Return the number of the oldest message that is sent: the newest that fit, and the last one in any case.

    Args:
        sums: Tokens of the first i messages.
        there: How many messages there are.
        budget: Tokens that they may have. If there are none, the last message is sent alone.
    """
    if not there or budget <= 0:
        return max(0, there - 1)
    return min(bisect_left(sums, sums[there] - budget, 0, there), there - 1)


def build_excerpt(messages: Iterable[ChatMessage], limit: int) -> str:
    """Return the end of the dropped messages' text, as much as the summariser reads."""
    lines = (f"{m.get('role')}: {''.join(_list_texts(m))}" for m in messages)
    most = int(max(LEAST, limit - SUMMARY_TOKENS - PROMPT_TOKENS) * UNITS)
    return "\n\n".join(lines).encode("utf-16-le", "surrogatepass")[-2 * most :].decode("utf-16-le", "ignore")


def _list_texts(message: ChatMessage) -> list[str]:
    return [str(p.get("text") or "") for p in message.get("parts") or () if p.get("type") == "text"]


def repair_calls(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Make calls without a result calls that failed."""
    return [{**message, "parts": [_repair_part(part) for part in message.get("parts") or ()]} for message in messages]


def _repair_part(part: ChatMessage) -> ChatMessage:
    if not is_call(part) or part.get("state") in DONE:
        return part
    return {**part, "state": "output-error", "errorText": INTERRUPTED}


def drop_images(messages: Iterable[ChatMessage], vision: bool) -> list[dict[str, Any]]:
    """Drop images, if the model has no vision."""
    return [{**m, "parts": [p for p in m.get("parts") or () if vision or not _is_picture(p)]} for m in messages]


def _is_picture(part: ChatMessage) -> bool:
    return part.get("type") == "file" and str(part.get("mediaType", "")).startswith("image/")


def add_files(message: ChatMessage) -> dict[str, Any]:
    """Add a user message's files after each of its texts."""
    sections = [f"File: {name}\n{content}" for name, content in list_files(message)]
    parts = message.get("parts") or ()
    if not sections or message.get("role") != "user":
        return dict(message)
    texts = ({**p, "text": "\n\n".join([p.get("text") or "", *sections])} if p.get("type") == "text" else p for p in parts)
    return {**message, "parts": list(texts)}


def join_messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Drop empty answers, and join neighbouring user messages. A blank line separates texts that meet."""
    made: list[dict[str, Any]] = []
    for message in messages:
        parts = list(message.get("parts") or ())
        if message.get("role") == "assistant" and not any(_has_content(part) for part in parts):
            continue
        if made and message.get("role") == made[-1].get("role") == "user":
            before = made[-1]["parts"]
            if before and parts and before[-1].get("type") == parts[0].get("type") == "text":
                first = {**before[-1], "text": f"{before[-1].get('text') or ''}\n\n{parts[0].get('text') or ''}"}
                before, parts = before[:-1], [first, *parts[1:]]
            made[-1] = {**made[-1], "parts": [*before, *parts]}
        else:
            made.append({**message, "parts": parts})
    return made


def _has_content(part: ChatMessage) -> bool:
    return bool(part.get("text")) if part.get("type") in ("text", "reasoning") else part.get("type") != "step-start"


def is_question(message: ChatMessage) -> bool:
    """Return whether a user message holds text."""
    return message.get("role") == "user" and any(text.strip() for text in _list_texts(message))


class Unit(NamedTuple):
    """A message with its results: the blocks `start:stop`, and its UI message."""

    start: int
    stop: int
    message: dict[str, Any]


def build_part(block: Block, session: Session) -> dict[str, Any] | None:
    """Return a block as a part of a UI message. Results are stored in their calls."""
    if block.kind == "tool_use":
        raw = block.raw if isinstance(block.raw, Mapping) else {}
        part = {"type": f"tool-{block.name}", "toolCallId": raw.get("id"), "input": raw.get("input")}
        if block.pair < 0:
            return {**part, "state": "input-available"}
        return {**part, "state": "output-available", "output": session.blocks[block.pair].text}
    if block.kind == "thinking":
        return {"type": "reasoning", "text": block.text}
    if block.kind in ("image", "document"):
        return {"type": "file", "mediaType": "image/png" if block.kind == "image" else "", "url": ""}
    return None if block.bucket == "tool_results" else {"type": "text", "text": block.text}
