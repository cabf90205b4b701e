"""What GitHub Copilot Chat's debug view exports, `.chatreplay.json`: prompts with their requests and calls, as they were sent.

A request holds its messages whole, so nothing is inferred. Its answer may be texts alone: then the call stands in the request
after it. From the schema; no real sample was at hand. Longer than a mapping for the parts of raw messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.messages import build_body, convert_tool
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread

NAME = "copilot-replay"
ROLES = {
    "0": "system",
    "1": "user",
    "2": "assistant",
    "3": "tool",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
Value = Mapping[str, Any]


def _list_prompts(source: Source) -> list[Value]:
    document = as_mapping(source.document if source.kind == "file" else None)
    return as_rows(document.get("prompts")) or ([document] if "logs" in document else [])


def sniff(source: Source) -> int:
    logs = [log for prompt in _list_prompts(source) for log in as_rows(prompt.get("logs"))]
    return (
        90
        if any(log.get("kind", log.get("type")) in ("request", "toolCall") or "requestMessages" in log for log in logs)
        else 0
    )


def _find_conversations(source: Source) -> Conversations:
    if "conversations" not in source.cache:
        source.cache["conversations"] = group_calls(_iter_calls(source), source.path.name.partition(".")[0])
    found: Conversations = source.cache["conversations"]
    return found


def _iter_calls(source: Source) -> Iterator[Call | Note]:
    skipped: dict[str, list[int]] = {}
    number = 0
    for prompt in _list_prompts(source):
        for log in as_rows(prompt.get("logs")):
            number += 1
            sent = as_mapping(log.get("requestMessages"))
            messages = as_rows(sent.get("messages")) or as_rows(log.get("messages"))
            if messages:
                yield _convert(log, messages, number)
            elif log.get("kind") != "toolCall":  # its result is in the next request
                counts = skipped.setdefault(str(log.get("kind") or log.get("type")), [0, 0])
                counts[0] += 1
                counts[1] += len(str(log))
    for kind, (count, size) in skipped.items():
        yield Note("info", 0, f"{count} logs of kind {kind!r} ({size:,} bytes) were skipped", size)


def _convert(log: Value, messages: list[Value], line: int) -> Call:
    about = as_mapping(log.get("metadata"))
    answer = as_mapping(log.get("response"))
    message = answer.get("message")
    parts = message if isinstance(message, list) else [message] if message else []
    blocks = [
        block for part in parts for block in (make_text(part) if isinstance(part, str) else _convert_part(as_mapping(part)))
    ]
    failed = as_text(answer.get("type")) in ("failed", "error", "canceled", "cancelled")
    sent: list[JSON] = []
    for message in messages:
        role = ROLES.get(str(message.get("role")), "user")
        content = message.get("content")
        listed = [block for part in as_rows(content) for block in _convert_part(part)] or make_text(extract_text(content or ""))
        calls = as_rows(message.get("toolCalls")) or as_rows(message.get("tool_calls"))
        listed += [_make_call(call) for call in calls]
        id = as_text(message.get("toolCallId")) or as_text(message.get("tool_call_id"))
        if role == "tool" or id:
            sent.append({"role": "user", "content": [make_result(id, listed)]})
        elif listed:
            sent.append({"role": role, "content": listed})
    tools = [convert_tool(tool) for tool in as_rows(about.get("tools"))]
    request: dict[str, Any] = {"model": as_text(about.get("model")), "usage": convert_usage(about.get("usage"))}
    request |= {"sent_at": parse_time(about.get("startTime")), "answered_at": parse_time(about.get("endTime"))}
    request["id"] = as_text(about.get("requestId")) or as_text(log.get("id"))
    error = as_text(answer.get("reason")) or as_text(answer.get("type")) if failed else ""
    return Call(build_body(sent, tools), {"content": blocks} if blocks else None, request, error, line)


def _make_call(call: Value) -> JSON:
    function = as_mapping(call.get("function")) or call
    arguments = next((function[key] for key in ("arguments", "input", "parameters") if function.get(key) is not None), None)
    return make_call(as_text(call.get("id")), as_text(function.get("name")), arguments)


def _convert_part(part: Value) -> list[JSON]:
    """A part of a raw message: a text, an image, or something of the provider's (a thought, a call)."""
    if isinstance(part.get("text"), str):
        return make_text(part["text"])
    held = as_mapping(part.get("value"))
    if image := part.get("imageUrl", part.get("image_url")):
        return [make_image(as_text(as_mapping(image).get("url")) or as_text(image))]
    thought = as_mapping(held.get("thinking"))
    if thought:
        return make_thinking(extract_text(thought.get("text") or ""), as_text(thought.get("encrypted")))
    if call := as_mapping(held.get("toolCall")):
        return [_make_call(call)]
    return []


def list_entries(source: Source) -> Iterator[Entry]:
    return _find_conversations(source).list_entries()


def read(source: Source, entry: Entry) -> Thread:
    return Thread(_find_conversations(source).build_session(entry.id, NAME))


IMPORTER = Importer(
    NAME,
    "GitHub Copilot Chat replay (.chatreplay.json)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="`logs` of requests with `requestMessages`",
    right="each request as it was sent; usage of each",
    sample=False,
)
