"""Messages of Pydantic AI (`result.all_messages_json()`): requests and responses with parts, JSON list or lines.

A request holds what is new of its prompt: the results of tools, then the user's message. Instructions go with each request.
Longer than a mapping because parts, calls and usage have other names from version to version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.listing import list_conversations
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "pydantic-ai"
KINDS = ("request", "response")
OLD_USAGE = {"request_tokens": "input_tokens", "response_tokens": "output_tokens"}
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else []
    messages = document.get("messages") if isinstance(document, dict) else source.first if document is None else document
    rows = as_rows(list(messages[:3])) if isinstance(messages, (list, tuple)) else []
    known = [row for row in rows if row.get("kind") in KINDS and isinstance(row.get("parts"), list)]
    return 90 if rows and known == rows and any("part_kind" in part for row in rows for part in as_rows(row["parts"])) else 0


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    nodes: list[Node] = []
    instructions, before = "", None
    for number, message in enumerate(as_rows(list(list_conversations(source, "messages")))):
        at, messages = parse_time(message.get("timestamp")), list[NodeMessage]()
        parts = as_rows(message.get("parts"))
        if message.get("kind") == "request":
            now = as_text(message.get("instructions"))
            texts = [now] if now != instructions and now else []
            instructions = now or instructions
            texts += [as_text(part.get("content")) for part in parts if part.get("part_kind") == "system-prompt"]
            messages += [NodeMessage("system", text, "system", fence=bool(nodes)) for text in texts]
            blocks = [block for part in parts for block in _convert_prompt(part, passed)]
            results = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
            messages += [NodeMessage("user", blocks, "tool" if results else "prompt")] if blocks else []
            before = at
        elif message.get("kind") == "response":
            blocks = [block for part in parts for block in _convert_answered(part, passed)]
            messages.append(NodeMessage("assistant" if blocks else "", blocks, request=_make_request(message, before)))
        else:
            passed.add(f"message of kind {message.get('kind')}", message)
        nodes.append(Node(str(number), None, messages, at))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _make_request(message: Value, before: float | None) -> dict[str, Any]:
    used = as_mapping(message.get("usage"))
    usage: dict[str, Any] = {OLD_USAGE.get(key, key): value for key, value in used.items() if not isinstance(value, Mapping)}
    usage |= {"input_tokens_details": _find_cached(used)} if _find_cached(used) else {}
    details = as_mapping(message.get("provider_details") or message.get("vendor_details"))
    about = {"id": as_text(message.get("provider_response_id") or message.get("vendor_id")), "sent_at": before}
    reason = as_text(details.get("finish_reason")) or as_text(message.get("finish_reason"))
    about |= {"stop_reason": reason or None, "logged_usd": parse_usd(used.get("cost"))}
    return {"model": as_text(message.get("model_name")), "usage": convert_usage(usage), **about}


def _convert_prompt(part: Value, passed: SkippedRecords) -> Iterator[JSON]:
    """Convert a part of a request: a prompt, or what came back from a tool."""
    content, id = part.get("content"), as_text(part.get("tool_call_id"))
    match part.get("part_kind"):
        case "user-prompt":
            for one in content if isinstance(content, list) else [content]:
                yield from make_text(one) if isinstance(one, str) else _convert_media(as_mapping(one))
        case "tool-return":
            yield make_result(id, content, part.get("outcome") in ("failed", "denied"))
        case "retry-prompt" if part.get("tool_name"):
            yield make_result(id, content, failed=True)
        case "retry-prompt":
            yield {"type": "text", "text": as_text(make_result("", content)["content"])}
        case kind if kind != "system-prompt":
            passed.add(f"part {kind}", part)


def _convert_media(one: Value) -> Iterator[JSON]:
    kind, media = as_text(one.get("kind")), as_text(one.get("media_type"))
    if kind == "text" or isinstance(one.get("content"), str):
        yield from make_text(as_text(one.get("content")))
        return
    data = as_text(one.get("data"))
    image = make_image(as_text(one.get("url")) or f"data:{media};base64,{data}")
    yield image if kind == "image-url" or media.startswith("image/") else {"type": "document", "source": image["source"]}


def _find_cached(used: Value) -> dict[str, Any]:
    """What older versions hold of the cache: the provider's own names, in `details`. The prompt's number has it already."""
    named = {
        "cached_tokens": "cached_tokens",
        "cache_read_input_tokens": "cached_tokens",
        "cache_creation_input_tokens": "cache_creation",
    }
    held = as_mapping(used.get("details")) if not used.keys() & {"cache_read_tokens", "cache_write_tokens"} else {}
    return {named[key]: count for key, count in held.items() if key in named and count}


def _convert_answered(part: Value, passed: SkippedRecords) -> list[JSON]:
    id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
    match part.get("part_kind"):
        case "text":
            return make_text(as_text(part.get("content")))
        case "thinking":
            return make_thinking(as_text(part.get("content")), as_text(part.get("signature")))
        case "tool-call":
            return [make_call(id, name, part.get("args"))]
        case "builtin-tool-call":
            return [make_call(id, name, part.get("args"), "server_tool_use")]
        case "builtin-tool-return":
            return [make_result(id, part.get("content"))]
        case "file":
            return list(_convert_media(as_mapping(part.get("content"))))
    passed.add(f"part {part.get('part_kind')}", part)
    return []


IMPORTER = Importer(
    NAME,
    "Pydantic AI messages (JSON)",
    sniff,
    read,
    suffixes=(".json", ".jsonl"),
    wants="messages of kind `request` and `response` with `part_kind`",
    right="prompts, thoughts, calls and results; usage of each response",
)
