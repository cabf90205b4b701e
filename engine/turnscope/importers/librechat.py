"""LibreChat exports (JSON): nested or flat, with all branches or the active path alone.

An export with branches does not say which was active: the last child at each level is taken. `content` parts are the truth
where they are there. A stored summary replaces what stands up to its message, from the next message on.
Longer than a mapping for the four shapes and two forms of summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    join_blocks,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.leaves import find_last_leaf
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "librechat"
NO_PARENT = "00000000-0000-0000-0000-000000000000"
ASIDE = ("error", "agent_update", "activity_label")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("conversationId"), str):
        return 0
    return 95 if isinstance(document.get("messages", document.get("messagesTree")), (list, dict)) else 0


def read(source: Source, _entry: Entry) -> Thread:
    document = source.document
    options = as_mapping(document.get("options"))
    builder = Builder(source.path.stem, NAME, as_text(document.get("title")))
    builder.about |= {key: document[key] for key in ("conversationId", "endpoint", "exportAt") if document.get(key)}
    passed = SkippedRecords()
    messages = document.get("messages", document.get("messagesTree"))
    stored = list(_flatten(messages if isinstance(messages, list) else [messages]))
    times = {as_text(m.get("messageId")): parse_time(m.get("createdAt")) for m, _ in stored}
    summed = {as_text(m.get("messageId")): cut for m, _ in stored if (cut := _make_cut(m, stored))}
    nodes = []
    for number, (message, up) in enumerate(stored):
        node = Node(as_text(message.get("messageId")) or f"#{number}", up, [], parse_time(message.get("createdAt")))
        node.messages = _make_messages(message, as_text(options.get("model")), times.get(up), passed)
        node.cut = summed.get(up)
        nodes.append(node)
    passed.add_notes(builder)
    prefix = as_text(options.get("promptPrefix")) or as_text(options.get("system"))
    return build_thread(builder, nodes, find_last_leaf(nodes), [NodeMessage("system", prefix, "system")] if prefix else [])


def _flatten(messages: list[Any]) -> Iterator[tuple[Value, str]]:
    """Each message with its parent, those above before those below, siblings in order. Without a name it is the one before."""
    before = ""
    waiting = [(message, "") for message in reversed(messages)]
    while waiting:
        message, above = waiting.pop()
        if not isinstance(message, Mapping):
            continue
        up = above or (as_text(message.get("parentMessageId")) if "parentMessageId" in message else before)
        yield message, "" if up == NO_PARENT else up
        children = message.get("children")
        before = id = as_text(message.get("messageId"))
        waiting += [(child, id) for child in reversed(children if isinstance(children, list) else [])]


def _make_messages(message: Value, model: str, before: float | None, passed: SkippedRecords) -> list[NodeMessage]:
    parts = message.get("content")
    blocks: list[JSON] = []
    for part in as_rows(parts):
        blocks += _convert_part(part, passed)
    if not blocks:
        reported = as_text(message.get("text"))
        blocks = make_text(reported) if message.get("isCreatedByUser") is True else split_thinking(reported)
    for file in (*as_rows(message.get("files")), *as_rows(message.get("attachments"))):
        passed.add("file without its content", file)
    if message.get("isCreatedByUser") is True or str(message.get("sender")).lower() == "user":
        return [NodeMessage("user", join_blocks(blocks), "prompt")]
    used = as_mapping(as_mapping(message.get("metadata")).get("usage"))
    request = {
        "model": as_text(message.get("model")) or model,
        "usage": _convert_usage(used)
        or (make_usage(message.get("promptTokens"), message.get("tokenCount")) if message.get("promptTokens") else None),
        "sent_at": before,
        "stop_reason": as_text(message.get("finish_reason"))
        or next((k for k in ("error", "unfinished") if message.get(k) is True), None),
    }
    return split_rounds(blocks, request, parallel=True) or [NodeMessage("", request=request)]


def _convert_usage(used: Value) -> Any:
    """Usage as the client kept it: LangChain's names, or those of the providers."""
    details = as_mapping(used.get("input_token_details"))
    whole, out = (
        next((used[k] for k in keys if k in used), 0)
        for keys in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    )
    return make_usage(whole, out, details.get("cache_read"), details.get("cache_creation"))


def _convert_part(part: Value, passed: SkippedRecords) -> list[JSON]:
    kind = part.get("type")
    content = part.get(str(kind)) if isinstance(kind, str) else None
    match kind:
        case "text" | "steer":
            return make_text(content if isinstance(content, str) else as_text(as_mapping(content).get("value")))
        case "think" | "thinking" | "reasoning" | "reasoning_content":
            return make_thinking(extract_text(content) if content else "", as_text(part.get("signature")))
        case "tool_call":
            call = as_mapping(content)
            id, output = as_text(call.get("id")), call.get("output")
            return [
                make_call(id, as_text(call.get("name")), call.get("args")),
                *([make_result(id, output)] if output is not None else []),
            ]
        case "image_url":
            return [make_image(as_text(as_mapping(content).get("url")) or as_text(content))]
        case "image_file":
            return [make_image(as_text(as_mapping(content).get("filepath")))]
        case "summary":
            return []
    passed.add(f"part {kind}", part)
    return []


def _make_cut(message: Value, stored: list[tuple[Value, str]]) -> Cut | None:
    """What a summary on a message leaves of what stands up to it: it goes into the system prompt."""
    parts = [part for part in as_rows(message.get("content")) if part.get("type") == "summary"]
    reported = [
        t for part in parts if (t := extract_text(part.get("content") or part.get("text") or part.get("summary") or ""))
    ]
    summary = reported[-1] if reported else as_text(message.get("summary"))
    if not summary:
        return None
    kept: list[str] = []
    first = as_text(as_mapping(parts[-1].get("coverage")).get("retainedFromMessageId")) if parts else ""
    above = {as_text(m.get("messageId")): up for m, up in stored} if first else {}
    at = as_text(message.get("messageId"))
    while first and at in above and at not in kept:
        kept.append(at)
        if at == first:
            break
        at = above[at]
    counts = {"tokens": message["summaryTokenCount"]} if isinstance(message.get("summaryTokenCount"), int) else {}
    keep = kept[::-1] if kept and kept[-1] == first else []
    return Cut(
        "a summary in the system prompt replaced the history", [make_message_parts("system", summary), *keep], facts=counts
    )


IMPORTER = Importer(
    NAME,
    "LibreChat export (JSON)",
    sniff,
    read,
    suffixes=(".json",),
    wants="`conversationId` with `messages` or `messagesTree`",
    right="all four shapes of the export; the tree with its branches",
    version=2,
)
