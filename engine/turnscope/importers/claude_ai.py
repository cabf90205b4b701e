"""Claude.ai data exports: `conversations.json`, in its zip or alone, or one conversation as the API gives it.

Messages name their parent in newer exports and follow each other in older ones. An answer holds its calls with their results.
Model, usage and system prompt are not in an export. Longer than a mapping because calls may have no ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_call, make_result, make_text, make_thinking
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "claude-ai"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    return 95 if source.kind == "file" and isinstance(peek_first(source).get("chat_messages"), list) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    return Entry(as_text(value.get("uuid")), as_text(value.get("name")), parse_time(value.get("updated_at")))


def read(source: Source, entry: Entry) -> Thread:
    value = get_conversation(source, entry)
    builder = Builder(entry.id or source.path.stem, NAME, entry.title)
    builder.about |= {key: value[key] for key in ("project_uuid", "summary") if value.get(key)}
    passed = SkippedRecords()
    messages = as_rows(value.get("chat_messages"))
    linked = any("parent_message_uuid" in message for message in messages)
    model = as_text(value.get("model"))
    nodes, before = list[Node](), None
    for number, message in enumerate(messages):
        node = _make_node(message, number, linked, model, before, passed)
        before = node.at or before
        nodes.append(node)
    leaf = as_text(value.get("current_leaf_message_uuid"))
    passed.add_notes(builder)
    return build_thread(builder, nodes, leaf or (find_newest_leaf(nodes) if linked else ""))


def _make_node(message: Value, number: int, linked: bool, model: str, before: float | None, passed: SkippedRecords) -> Node:
    id, at = as_text(message.get("uuid")) or f"#{number}", parse_time(message.get("created_at"))
    node = Node(id, _get_parent(message) if linked else None, [], at)
    blocks = _convert_content(message, id, passed)
    if not any(block["type"] == "text" for block in blocks):
        blocks += make_text(as_text(message.get("text")))
    for row in as_rows(message.get("files")):
        passed.add("file without its content", row)
    attached = [
        block for row in as_rows(message.get("attachments")) for block in make_text(as_text(row.get("extracted_content")))
    ]
    if message.get("sender") == "assistant":
        request = {"model": model, "sent_at": before, "stop_reason": as_text(message.get("stop_reason")) or None}
        node.messages = split_rounds(blocks, request) or [NodeMessage("assistant", [], request=request)]
    elif message.get("sender") == "human":
        node.messages = [NodeMessage("user", join_blocks(blocks), "prompt", files=attached)]
    else:
        passed.add(f"message of sender {message.get('sender')}", message)
    return node


def _get_parent(message: Value) -> str:
    up = as_text(message.get("parent_message_uuid"))
    return "" if up.startswith("00000000-0000-4000-8000-") else up


def _convert_content(message: Value, id: str, passed: SkippedRecords) -> list[JSON]:
    blocks: list[JSON] = []
    waiting: list[str] = []  # calls without a result so far, the oldest first
    for number, part in enumerate(as_rows(message.get("content"))):
        match part.get("type"):
            case "text":
                blocks += make_text(as_text(part.get("text")))
            case "thinking":
                blocks += make_thinking(as_text(part.get("thinking")), as_text(part.get("signature")))
            case "tool_use":
                waiting.append(as_text(part.get("id")) or f"{id}:{number}")
                blocks.append(make_call(waiting[-1], as_text(part.get("name")), part.get("input")))
            case "tool_result":
                named = as_text(part.get("tool_use_id"))
                answered = named if named or not waiting else waiting[0]
                waiting = [use for use in waiting if use != answered]
                content = part.get("content")
                plain = all(as_mapping(row).get("type") == "text" for row in content) if isinstance(content, list) else True
                blocks.append(make_result(answered, extract_text(content) if plain else content, part.get("is_error") is True))
            case kind:
                passed.add(f"block {kind}", part)
    return blocks


IMPORTER = Importer(
    NAME,
    "Claude.ai export (conversations.json or its zip)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="conversation with `chat_messages`",
    right="every conversation of an export; branches where messages name their parent",
)
