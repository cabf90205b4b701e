"""Conversations in ShareGPT's form, which data sets use: `conversations`, a list of `from` and `value`. JSON or JSON lines.

Some have `role` and `content` instead, or the list under `items`. Answers that a data set prefers or rejects are no messages.

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
WHO, TEXT = ("from", "role"), ("value", "content")
PREFERENCES = ("chosen", "rejected")
LIST = "no list"  # a key that no such file has: a document is one conversation, or a list of them
ROLES = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bard", "bing", "model", "function_call"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response"), "tool"),
}
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = _list_rows(peek_first(source, LIST))[:3] if source.kind == "file" else []
    return 85 if rows and all(any(isinstance(row.get(key), str) for key in TEXT) and row.keys() & {*WHO} for row in rows) else 0


def _list_rows(chat: Value) -> list[Value]:
    """The messages; under `items` those of the first form alone, since many tools have a list of that name."""
    items = as_rows(chat.get("items"))
    return as_rows(chat.get("conversations")) or (items if all({"from", "value"} <= row.keys() for row in items) else [])


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, lambda value: Entry(as_text(value.get("id")), as_text(value.get("title"))), LIST)


def read(source: Source, entry: Entry) -> Thread:
    chat = as_mapping(get_conversation(source, entry, LIST))
    builder, passed = Builder(entry.id or as_text(chat.get("id")) or source.path.stem, NAME, entry.title), SkippedRecords()
    model, nodes = as_text(chat.get("model")), list[Node]()
    lead = as_text(chat.get("system"))
    rows = [*([{"from": "system", "value": lead}] if lead else []), *_list_rows(chat)]
    for key in (key for key in PREFERENCES if chat.get(key)):
        passed.add(f"{key}, an answer that a data set compares", chat[key])
    for number, row in enumerate(rows):
        who, text = next((as_text(row[key]) for key in WHO if row.get(key)), ""), _get_text(row)
        role = ROLES.get(who, "")
        if not role:
            passed.add(f"message from {who}", row)
            continue
        message = NodeMessage("user" if role == "tool" else role, make_text(text), fence=role == "system" and number > 0)
        if role == "assistant":
            message.content, message.request = split_thinking(text), {"model": model}
        nodes.append(Node(str(number), None, [message]))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _get_text(row: Value) -> str:
    return next((row[key] for key in TEXT if isinstance(row.get(key), str)), "")


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
