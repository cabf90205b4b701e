"""Grok's data export (`prod-grok-backend.json`): conversations whose responses name their parents. From the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_thinking, split_thinking
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "grok"
READ = {  # fields of a response that are read, or name things
    *("_id", "conversation_id", "parent_response_id", "message", "sender", "create_time", "model", "thinking_trace"),
    *("query_type", "query", "media_types", "leaf_response_id"),
}
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    found = peek_first(source) if source.kind == "file" else {}
    return 95 if isinstance(found.get("conversation"), dict) and isinstance(found.get("responses"), list) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    conversation = as_mapping(value.get("conversation"))
    return Entry(
        as_text(conversation.get("id")),
        as_text(conversation.get("title")),
        _parse_date(conversation.get("modify_time") or conversation.get("create_time")),
    )


def _parse_date(value: Any) -> float | None:
    """Seconds of a time as text, or as a Mongo database writes it."""
    date = as_mapping(value).get("$date", value)
    number = as_mapping(date).get("$numberLong", date)
    return (
        parse_time(int(number)) if isinstance(number, str) and number.isdecimal() and len(number) < 16 else parse_time(number)
    )


def read(source: Source, entry: Entry) -> Thread:
    value = get_conversation(source, entry)
    builder, passed = Builder(entry.id or source.path.stem, NAME, entry.title), SkippedRecords()
    stored = [as_mapping(row.get("response") or row) for row in as_rows(value.get("responses"))]
    times = {as_text(row.get("_id")): _parse_date(row.get("create_time")) for row in stored}
    nodes = [_make_node(row, times, passed) for row in stored]
    passed.add_notes(builder)
    return build_thread(builder, nodes, find_newest_leaf(nodes))


def _make_node(row: Value, times: Mapping[str, float | None], passed: SkippedRecords) -> Node:
    above, sender = as_text(row.get("parent_response_id")), as_text(row.get("sender")).lower()
    blocks = join_blocks([*make_thinking(as_text(row.get("thinking_trace"))), *split_thinking(as_text(row.get("message")))])
    for key in (key for key in row if key not in READ):  # searches, attached files, steps of agents
        if isinstance(row[key], (list, Mapping, str)) and row[key]:
            passed.add(f"field {key}", row[key])
    node = Node(
        as_text(row.get("_id")), above if "parent_response_id" in row else None, [], _parse_date(row.get("create_time"))
    )
    if sender == "human":
        node.messages = [NodeMessage("user", blocks)]
    elif sender in ("assistant", "ai"):
        node.messages = [
            NodeMessage("assistant", blocks, request={"model": as_text(row.get("model")), "sent_at": times.get(above)})
        ]
    else:
        passed.add(f"response of {sender or 'nobody'}", row)
    return node


IMPORTER = Importer(
    NAME,
    "Grok export (prod-grok-backend.json)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="conversation with its `responses`",
    right="the tree with its branches",
    sample=False,
    version=2,
)
