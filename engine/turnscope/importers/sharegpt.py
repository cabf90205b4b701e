"""Conversations in ShareGPT's form, which data sets use: `conversations`, a list of `from` and `value`. JSON or JSON lines.

Calls and results are texts, as they were written. Usage is not in it. From the schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows, make_text, split_thinking
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "sharegpt"
LIST = "items"  # a key that no such file has: a document is one conversation, or a list of them
ROLES = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bard", "bing", "model", "function_call"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response"), "tool"),
}
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = as_rows(peek_first(source, LIST).get("conversations"))[:3] if source.kind == "file" else []
    return 85 if rows and all("from" in row and isinstance(row.get("value"), str) for row in rows) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, lambda value: Entry(as_text(value.get("id")), as_text(value.get("title"))), LIST)


def read(source: Source, entry: Entry) -> Thread:
    chat = as_mapping(get_conversation(source, entry, LIST))
    builder, passed = Builder(entry.id or as_text(chat.get("id")) or source.path.stem, NAME, entry.title), SkippedRecords()
    model, nodes = as_text(chat.get("model")), list[Node]()
    lead = as_text(chat.get("system"))
    rows = [*([{"from": "system", "value": lead}] if lead else []), *as_rows(chat.get("conversations"))]
    for number, row in enumerate(rows):
        role, text = ROLES.get(as_text(row.get("from")), ""), as_text(row.get("value"))
        if not role:
            passed.add(f"message from {row.get('from')}", row)
            continue
        message = NodeMessage("user" if role == "tool" else role, make_text(text), fence=role == "system" and number > 0)
        if role == "assistant":
            message.content, message.request = split_thinking(text), {"model": model}
        nodes.append(Node(str(number), None, [message]))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


IMPORTER = Importer(
    NAME,
    "ShareGPT conversations (JSON or JSON lines)",
    sniff,
    read,
    list_entries,
    wants="`conversations` of messages with `from` and `value`",
    right="each conversation a session; thoughts in tags apart",
    sample=False,
)
