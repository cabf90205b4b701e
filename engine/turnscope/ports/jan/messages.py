"""Jan: estimates, the cut, the excerpt that is summarised, and how messages are split and joined.

Pure functions over its UI messages (`id`, `role`, `parts`, `metadata`) as plain mappings, written from what is documented of
context-manager.ts and custom-chat-transport.ts (janhq/jan 92eeab44). Its notices are in our wording, at the originals'
lengths.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

from turnscope.reading.jan_threads import is_call, is_static_call
from turnscope.session.content import dumps
from turnscope.session.model import Block, Session

ChatMessage = Mapping[str, Any]
TOOL = "jan"  # the key of this tool's data in `Session.about["stored"]`
UNITS, FRAME = 3.5, 4  # UTF-16 units per token; tokens of a message's frame
OUTPUT = 2_048  # tokens kept free for the answer by default
SUMMARY_TOKENS, PROMPT_TOKENS, LEAST = 512, 53, 1_024  # tokens of the summary, of its prompt, and of the text it reads at least
HEAD = "[Summary of what was said here]\n"
INTERRUPTED = "The call was broken off before it came to an end: no result.."
DONE = ("output-available", "output-error", "output-denied")
DENIED = "Tool execution denied."  # of the AI SDK, if the user gave no reason
RESPONSE = re.compile(r"<tool_response>.*</tool_response>", re.DOTALL)


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
    """Return the end of the dropped messages' text, as much as the summariser reads.

    Args:
        messages: The dropped messages, oldest first.
        limit: Tokens of the limit, of which the prompt and the summary take their part.
    """
    lines = (f"{m.get('role')}: {''.join(_list_texts(m))}" for m in messages)
    most = int(max(LEAST, limit - SUMMARY_TOKENS - PROMPT_TOKENS) * UNITS)
    return "\n\n".join(lines).encode("utf-16-le", "surrogatepass")[-2 * most :].decode("utf-16-le", "ignore")


def _list_texts(message: ChatMessage) -> list[str]:
    return [str(p.get("text") or "") for p in message.get("parts") or () if p.get("type") == "text"]


def repair_calls(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Make an answer's calls without a result calls that failed, with their own error if they have one."""
    return [
        {**m, "parts": [_repair_part(part) for part in m.get("parts") or ()]} if m.get("role") == "assistant" else dict(m)
        for m in messages
    ]


def _repair_part(part: ChatMessage) -> ChatMessage:
    if not is_static_call(part) or part.get("state") in DONE:
        return part
    error = part.get("errorText")
    return {**part, "state": "output-error", "errorText": INTERRUPTED if error is None else error}


def drop_images(messages: Iterable[ChatMessage], vision: bool) -> list[dict[str, Any]]:
    """Drop images, if the model has no vision.

    Args:
        messages: The messages.
        vision: Whether the model has vision; then nothing is dropped.
    """
    return [{**m, "parts": [p for p in m.get("parts") or () if vision or not _is_picture(p)]} for m in messages]


def _is_picture(part: ChatMessage) -> bool:
    return part.get("type") == "image" or (part.get("type") == "file" and str(part.get("mediaType")).startswith("image/"))


def add_files(message: ChatMessage) -> dict[str, Any]:
    """Add a user message's files after each of its texts."""
    sections = [f"File: {name}\n{content}" for name, content in list_files(message)]
    parts = message.get("parts") or ()
    if not sections or message.get("role") != "user":
        return dict(message)
    texts = (
        {**p, "text": "\n\n".join(filter(None, [p.get("text"), *sections]))} if p.get("type") == "text" else p for p in parts
    )
    return {**message, "parts": list(texts)}


def join_messages(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Drop empty answers, and join neighbouring user messages. A blank line separates texts that meet."""
    made: list[dict[str, Any]] = []
    for message in messages:
        parts = list(message.get("parts") or ())
        if message.get("role") == "assistant" and not any(_has_content(part) for part in parts):
            continue
        if made and message.get("role") == made[-1].get("role") == "user":
            made[-1] = {**made[-1], "parts": _join_parts(made[-1]["parts"], parts)}
        else:
            made.append({**message, "parts": parts})
    return made


def _join_parts(before: Iterable[ChatMessage], parts: Iterable[ChatMessage]) -> list[ChatMessage]:
    made = list(before)
    for part in parts:
        texts = [one.get("text") for one in (*made[-1:], part) if one.get("type") == "text"]
        if len(texts) == 2 and all(isinstance(text, str) for text in texts):
            made[-1] = {**made[-1], "text": f"{texts[0]}\n\n{texts[1]}"}
        else:
            made.append(part)
    return made


def _has_content(part: ChatMessage) -> bool:
    return bool(str(part.get("text") or "").strip()) if part.get("type") in ("text", "reasoning") else True


def is_question(message: ChatMessage) -> bool:
    """Return whether a user message holds text that is more than the response of a tool."""
    text = "".join(_list_texts(message)).strip()
    return message.get("role") == "user" and bool(text) and not RESPONSE.fullmatch(text)


def trim(messages: Sequence[ChatMessage], limit: int, output: int, system_tokens: int) -> int:
    """Return the number of the oldest message that is sent.

    Args:
        messages: The messages.
        limit: The limit in tokens; 0 or less = off.
        output: Tokens kept free for the answer.
        system_tokens: Tokens of the system prompt.
    """
    sums = [0, *accumulate(map(estimate_message, messages))]
    return find_first_kept(sums, len(messages), limit - output - system_tokens) if limit > 0 else 0


def convert_to_model(message: ChatMessage) -> list[dict[str, Any]]:
    """Return a UI message in the form that the AI SDK gives a model: each step of an answer, and the results of its calls."""
    role, parts = message.get("role"), message.get("parts") or ()
    if role == "system":
        return [{"role": role, "content": "".join(_list_texts(message))}]
    if role == "user":
        return [{"role": role, "content": [_convert_part(p) for p in parts if p.get("type") in ("text", "file")]}]
    steps: list[list[ChatMessage]] = [[]]
    for part in parts:
        if part.get("type") == "step-start":
            steps.append([])
        elif part.get("type") in ("text", "reasoning", "file") or is_call(part):
            steps[-1].append(part)
    made: list[dict[str, Any]] = []
    for step in filter(None, steps):
        made.append({"role": "assistant", "content": [_convert_part(part) for part in step]})
        results = [_convert_result(part) for part in step if is_call(part) and part.get("state") in DONE]
        made += [{"role": "tool", "content": results}] if results else []
    return made


def get_call_name(part: ChatMessage) -> str:
    """Return the name of the tool that a part calls."""
    return str(part["toolName"] if part.get("type") == "dynamic-tool" else part["type"].removeprefix("tool-"))


def _convert_part(part: ChatMessage) -> dict[str, Any]:
    if is_call(part):
        name = get_call_name(part)
        return {"type": "tool-call", "toolCallId": part["toolCallId"], "toolName": name, "input": part.get("input")}
    if part["type"] == "file":
        named = {"filename": part["filename"]} if part.get("filename") else {}
        return {"type": "file", "mediaType": part.get("mediaType"), **named, "data": part.get("url")}
    return {"type": part["type"], "text": part.get("text")}


def _convert_result(part: ChatMessage) -> dict[str, Any]:
    output = part.get("output")
    kind = "text" if isinstance(output, str) else "json"
    if part["state"] == "output-error":
        kind, output = "error-text", part.get("errorText")
    elif part["state"] == "output-denied":
        kind, output = "error-text", (part.get("approval") or {}).get("reason") or DENIED
    held = {"type": kind, "value": output}
    return {"type": "tool-result", "toolCallId": part["toolCallId"], "toolName": get_call_name(part), "output": held}


class Unit(NamedTuple):
    """A message with its results: the blocks `start:stop`, and its UI message."""

    start: int
    stop: int
    message: dict[str, Any]


def build_part(block: Block, session: Session) -> dict[str, Any] | None:
    """Return a block as a part of a UI message; None for a result, which is stored in its call.

    Args:
        block: The block.
        session: Its session, which holds the result of a call.
    """
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
