"""Jan's stored threads: the active path, answers that lost their parent, stored content as parts, the rounds of an answer.

Written from what is documented of message-branching.ts and messages.ts (janhq/jan 92eeab44). Messages are plain mappings, as
in `messages.jsonl`. The module reads no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Stored = Mapping[str, Any]
_CHANNEL = re.compile(r"<\|channel\|>final<\|message\|>(.*)", re.DOTALL)
_THOUGHT = re.compile(r"<(think|thought)>(.*?)</\1>", re.DOTALL)


def _get_metadata(message: Stored) -> Mapping[str, Any]:
    return message.get("metadata") or {}


def find_active_path(messages: Sequence[Stored], active_root: str | None) -> list[str]:
    """Find the ids of the active path. All ids in stored order where nothing marks branches, or there is no root.

    Args:
        messages: The stored messages.
        active_root: Id of the root that is shown; None = the last one.
    """
    ids = [message["id"] for message in messages]
    children: dict[Any, list[Stored]] = {}
    for message in sorted(messages, key=lambda m: m.get("created_at") or 0):
        parent = _get_metadata(message).get("parentId", False)
        if parent is None or isinstance(parent, str):  # whatever else stands there links to nothing
            children.setdefault(parent, []).append(message)
    roots = children.get(None, [])
    if not roots:
        return ids
    path: dict[str, None] = {}
    here: Stored | None = next((m for m in roots if m["id"] == active_root), roots[-1])
    while here is not None and here["id"] not in path:
        path[here["id"]] = None
        below = children.get(here["id"], [])
        chosen = _get_metadata(here).get("activeChildId")
        here = next((m for m in below if m["id"] == chosen), below[-1] if below else None)
    return [*path]


def find_new_parents(messages: Sequence[Stored]) -> dict[str, str]:
    """Find new parents of answers that lost theirs: the question before them. The next question is attached to the answer."""
    if not any(not _get_metadata(m).keys().isdisjoint(("parentId", "activeChildId")) for m in messages):
        return {}
    ordered = sorted(messages, key=lambda m: m.get("created_at") or 0)
    parents = {message["id"]: _get_metadata(message).get("parentId") for message in ordered}
    found: dict[str, str] = {}
    for number, message in enumerate(ordered):
        if message.get("role") != "assistant" or isinstance(parents[message["id"]], str):
            continue
        question = next((m["id"] for m in reversed(ordered[:number]) if m.get("role") == "user"), None)
        if question is None:
            continue
        later = (m["id"] for m in ordered[number + 1 :] if m.get("role") == "user" and parents[m["id"]] == question)
        new = {message["id"]: question} | dict.fromkeys([*later][:1], message["id"])
        found, parents = found | new, parents | new
    return found


def convert_message(message: Stored) -> dict[str, Any]:
    """Convert a stored message into a UI message, without its metadata."""
    parts: list[dict[str, Any]] = []
    for part in message.get("content") or ():
        kind = part.get("type")
        if kind in ("text", "reasoning"):
            text = (part.get("text") or {}).get("value") or ""
            parts += [{"type": "reasoning", "text": text}] if kind == "reasoning" else _split_text(text)
        elif kind == "image_url":
            parts.append({"type": "file", "mediaType": "image/jpeg", "url": (part.get("image_url") or {}).get("url", "")})
        elif kind == "tool_call":
            call = {"type": f"tool-{part.get('tool_name')}", "toolCallId": part.get("tool_call_id"), "input": part.get("input")}
            done = part.get("output") is not None
            call |= {"state": "output-available", "output": part["output"]} if done else {"state": "input-available"}
            parts.append(call)
    parts += [_convert_old_call(call) for call in _get_metadata(message).get("tool_calls") or ()]
    return {"id": message["id"], "role": message["role"], "parts": parts or [{"type": "text", "text": ""}]}


def is_call(part: Stored) -> bool:
    """Whether a part is a tool call."""
    return part.get("type") == "dynamic-tool" or is_static_call(part)


def is_static_call(part: Stored) -> bool:
    """Whether a part is a call of a tool that the app itself declared, whose name is in the type."""
    return str(part.get("type")).startswith("tool-")


def split_waves(messages: Iterable[Stored]) -> list[dict[str, Any]]:
    """Split answers in which something follows calls, into one message per round."""
    made: list[dict[str, Any]] = []
    for message in messages:
        rounds: list[list[Any]] = [[]]
        for part in message.get("parts") or () if message.get("role") == "assistant" else ():
            if rounds[-1] and is_static_call(rounds[-1][-1]) and not is_static_call(part):
                rounds.append([])
            rounds[-1].append(part)
        if len(rounds) < 2:
            made.append(dict(message))
        else:
            made += [{**message, "id": f"{message.get('id')}_w{n}", "parts": parts} for n, parts in enumerate(rounds)]
    return made


def _split_text(text: str) -> list[dict[str, Any]]:
    if final := _CHANNEL.search(text):
        text = final[1]
    parts: list[dict[str, Any]] = []
    thought = _THOUGHT.search(text)
    if thought:
        parts.append({"type": "reasoning", "text": thought[2].strip()})
        text = text[thought.end() :]
    elif opened := re.search(r"<(think|thought)>", text):
        return [{"type": "reasoning", "text": text[opened.end() :].strip()}]
    return [*parts, *([{"type": "text", "text": text.strip()}] if text.strip() else [])]


def _convert_old_call(call: Stored) -> dict[str, Any]:
    tool = call.get("tool") or {}
    function = tool.get("function") or {}
    written: Any = function.get("arguments")
    try:
        arguments = json.loads(written)
    except (TypeError, ValueError):
        arguments = written
    part = {"type": f"tool-{function.get('name')}", "toolCallId": tool.get("id"), "input": arguments}
    if call.get("state") != "ready":
        return {**part, "state": "input-available"}
    texts = (p.get("text") or "" for p in (call.get("response") or {}).get("content") or ())
    return {**part, "state": "output-available", "output": "".join(texts)}
