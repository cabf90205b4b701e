"""Joins streams of server-sent events into the answer that the provider would have sent at once.

Pure functions over events. `dialect` says whose stream it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json

# What a delta adds to its block: type of the delta -> (key in the delta, key in the block).
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}

# What a delta of a response adds to its item: type of the event -> (key in the item, type of the part there).
ITEM_DELTAS = {
    "response.output_text.delta": ("content", "output_text"),
    "response.reasoning_text.delta": ("content", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text"),
}
ITEM_PARTS = ("content", "summary", "arguments")


def parse_events(text: str) -> Iterator[dict[str, Any]]:
    """Parse the JSON objects of a stream of server-sent events."""
    for line in text.splitlines():
        if line.startswith("data:"):
            value = parse_if_json(line[5:].strip())
            if isinstance(value, dict):
                yield value


def join_message(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Join the events of a stream into a message of Anthropic's API, usage included; None where none was started."""
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in stream:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            message = dict(event["message"])
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            blocks[_find_index(event.get("index"), len(blocks))] = dict(event["content_block"])
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            _add(blocks.setdefault(_find_index(event.get("index"), 0), {}), event["delta"])
        elif kind == "message_delta":
            more = {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}
            used = {**(message.get("usage") or {}), **(event.get("usage") or {})}
            message |= {**(event.get("delta") or {}), **more, "usage": used}
        elif kind == "error":
            return {"type": "error", "error": event.get("error")}
    if not message:
        return None
    for block in blocks.values():
        if isinstance(block.get("input"), str):
            block["input"] = parse_if_json(block["input"]) if block["input"] else {}
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}


def _find_index(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    kind = delta.get("type")
    if kind in DELTAS:
        source, target = DELTAS[kind]
        content = block.get(target)
        block[target] = (content if isinstance(content, str) else "") + as_text(delta.get(source))
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
    else:  # compaction_delta and others like it hold whole values
        block |= {key: value for key, value in delta.items() if key != "type"}


def join_completion(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Join the chunks of a stream into a completion of OpenAI's API; None where there are none."""
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    finish: Any = None
    for chunk in stream:
        whole |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta: dict[str, Any] = choice.get("delta") or {}
        finish = choice.get("finish_reason") or finish
        for key in ("content", "reasoning_content", "refusal"):
            if isinstance(delta.get(key), str):
                message[key] = message.get(key, "") + delta[key]
        for call in delta.get("tool_calls") or ():
            entry = calls.setdefault(call.get("index", 0), {"id": "", "function": {"name": "", "arguments": ""}})
            entry["id"] = entry["id"] or as_text(call.get("id"))
            for key in ("name", "arguments"):
                entry["function"][key] += as_text((call.get("function") or {}).get(key))
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {**whole, "choices": [{"message": message, "finish_reason": finish}]} if whole else None


def join_google(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Join the chunks of Google's `streamGenerateContent` into one response; None where there are none."""
    whole: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    finish: Any = None
    for chunk in stream:
        whole |= {key: value for key, value in chunk.items() if key != "candidates" and value is not None}
        candidates = chunk.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict) else {}
        finish = first.get("finishReason") or finish
        content = first.get("content")
        listed = content.get("parts") if isinstance(content, dict) else None
        for part in (one for one in listed or () if isinstance(one, dict)) if isinstance(listed, list) else ():
            if parts and _goes_on(parts[-1], part):
                parts[-1] = {**parts[-1], **part, "text": parts[-1]["text"] + part["text"]}
            else:
                parts.append(part)
    content = {"role": "model", "parts": parts}
    return {**whole, "candidates": [{"content": content, "finishReason": finish}]} if whole or parts else None


def _goes_on(before: dict[str, Any], part: dict[str, Any]) -> bool:
    """Whether a part is more of the text before it: both said, or both thought."""
    both = isinstance(before.get("text"), str) and isinstance(part.get("text"), str)
    return both and bool(before.get("thought")) == bool(part.get("thought"))


def join_converse(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Join the events of Bedrock's ConverseStream into one response of Converse; None where no message was started."""
    blocks: dict[int, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for event in stream:
        for kind, value in event.items():
            if not isinstance(value, dict):
                continue
            at = _find_index(value.get("contentBlockIndex"), 0)
            if kind == "contentBlockStart" and isinstance(value.get("start"), dict):
                blocks[at] = {key: dict(inner) for key, inner in value["start"].items() if isinstance(inner, dict)}
            elif kind == "contentBlockDelta" and isinstance(value.get("delta"), dict):
                _add_converse(blocks.setdefault(at, {}), value["delta"])
            elif kind == "messageStop":
                whole["stopReason"] = value.get("stopReason")
            elif kind == "metadata":
                whole |= {key: value[key] for key in ("usage", "metrics") if key in value}
    for block in blocks.values():
        if isinstance(block.get("toolUse"), dict) and isinstance(block["toolUse"].get("input"), str):
            block["toolUse"]["input"] = parse_if_json(block["toolUse"]["input"]) if block["toolUse"]["input"] else {}
    message = {"role": "assistant", "content": [blocks[index] for index in sorted(blocks)]}
    return {**whole, "output": {"message": message}} if blocks or whole else None


def _add_converse(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta to its block: texts are joined, those of calls and thoughts one level further in."""
    for key, value in delta.items():
        if isinstance(value, str):
            block[key] = as_text(block.get(key)) + value
        elif isinstance(value, dict):
            inner = block[key] if isinstance(block.get(key), dict) else {}
            block[key] = inner
            if key == "reasoningContent":
                inner = inner.setdefault("reasoningText", {})
            _add_converse(inner, value)


def join_response(stream: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Join the events of a stream into a response of OpenAI's API; None where none was created.

    Its last event holds all of it. A stream that broke off has the items that were done, and what came of the others.
    """
    begun: dict[str, Any] | None = None
    items: dict[Any, Any] = {}
    open_ones: dict[Any, dict[str, Any]] = {}
    for event in stream:
        kind, response, item = event.get("type"), event.get("response"), event.get("item")
        if kind in ("response.completed", "response.incomplete", "response.failed") and isinstance(response, dict):
            return response if response.get("output") else {**response, "output": [*items.values()]}
        at = _find_item(event)
        if kind == "response.created" and isinstance(response, dict):
            begun = response
        elif kind == "response.output_item.added" and isinstance(item, dict):
            open_ones[at] = dict(item)
        elif kind == "response.output_item.done":
            open_ones.pop(at, None)
            items[at] = item
        elif at in open_ones:
            _add_to_item(open_ones[at], event)
    if begun is None:
        return None
    output = [*items.values(), *(one for one in open_ones.values() if any(one.get(key) for key in ITEM_PARTS))]
    return {**begun, "output": output, "status": "interrupted"}


def _find_item(event: dict[str, Any]) -> Any:
    """What tells the item of an event from the others: its place, else its id."""
    at, item = event.get("output_index"), event.get("item")
    named = item.get("id") if isinstance(item, dict) else event.get("item_id")
    return at if isinstance(at, int) else as_text(named)


def _add_to_item(item: dict[str, Any], event: dict[str, Any]) -> None:
    kind, delta = as_text(event.get("type")), as_text(event.get("delta"))
    if kind == "response.function_call_arguments.delta":
        item["arguments"] = as_text(item.get("arguments")) + delta
    elif kind in ITEM_DELTAS:
        key, name = ITEM_DELTAS[kind]
        parts = [one for one in item[key] if isinstance(one, dict)] if isinstance(item.get(key), list) else []
        at = _find_index(event.get("content_index", event.get("summary_index")), 0)
        if not 0 <= at < len(parts):
            parts = [*parts, {"type": name, "text": ""}]
        last = parts[min(at, len(parts) - 1)]
        item[key] = [{**one, "text": as_text(one.get("text")) + delta} if one is last else one for one in parts]
