"""DeepSeek's data export: `conversations.json`, a list of conversations, each a `mapping` of messages in fragments.

It has the frame of ChatGPT's export. Usage is not in it. From the schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_text, make_thinking
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "deepseek"
FIRST = 5  # nodes that are looked at to recognise an export
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    mapping = as_mapping(peek_first(source).get("mapping")) if source.kind == "file" else {}
    messages = (as_mapping(as_mapping(node).get("message")) for node in islice(mapping.values(), FIRST))
    return 98 if any(isinstance(message.get("fragments"), list) for message in messages) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    at = parse_time(value.get("updated_at")) or parse_time(value.get("inserted_at"))
    return Entry(as_text(value.get("id")), as_text(value.get("title")), at)


def read(source: Source, entry: Entry) -> Thread:
    chat = get_conversation(source, entry)
    builder = Builder(as_text(chat.get("id")) or source.path.stem, NAME, entry.title)
    passed = SkippedRecords()
    nodes: list[Node] = []
    for key, held in as_mapping(chat.get("mapping")).items():
        message = as_mapping(as_mapping(held).get("message"))
        prompt: list[JSON] = []
        answered: list[JSON] = []
        for fragment in as_rows(message.get("fragments")):
            text = as_text(fragment.get("content"))
            match fragment.get("type"):
                case "REQUEST":
                    prompt += make_text(text)
                case "THINK":
                    answered += make_thinking(text)
                case "RESPONSE":
                    answered += make_text(text)
                case kind:
                    passed.add(f"fragment {kind}", fragment)
        for file in as_rows(message.get("files")):
            passed.add("file", file)
        messages = [NodeMessage("user", prompt)] if prompt else []
        messages += [NodeMessage("assistant", answered, request={"model": as_text(message.get("model"))})] if answered else []
        nodes.append(Node(key, as_text(as_mapping(held).get("parent")), messages, parse_time(message.get("inserted_at"))))
    passed.add_notes(builder)
    return build_thread(builder, nodes, find_newest_leaf(nodes))


IMPORTER = Importer(
    NAME,
    "DeepSeek export (conversations.json or its zip)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="conversations with `mapping` and messages in `fragments`",
    right="the tree with its branches; thoughts apart from answers",
    sample=False,
)
