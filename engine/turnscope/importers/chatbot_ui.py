"""Chatbot UI: exports of version 1 (`history`; the first were a bare list), and rows of version 2's Supabase tables as JSON.

Neither keeps usage, calls or thoughts. Rows are linear, by `sequence_number`; v1 messages have no times. Longer than a mapping
for the two containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_image, make_text, split_thinking
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "chatbot-ui"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if isinstance(document, dict) and isinstance(document.get("history"), list) and {"version", "folders"} & document.keys():
        return 90 if "messages" in peek_first(source, "history") or {"folders", "prompts"} & document.keys() else 0
    if isinstance(document, dict) and isinstance(document.get("chats"), list) and isinstance(document.get("messages"), list):
        return 90
    head = peek_first(source) if source.kind == "file" else {}
    if isinstance(document, list) and {"id", "name", "messages"} <= head.keys():
        messages = as_rows(head["messages"])[:3]
        return 75 if messages and all({"role", "content"} <= message.keys() for message in messages) else 0
    return 90 if {"chat_id", "sequence_number", "role", "content"} <= head.keys() else 0


def _read_rows(source: Source) -> dict[str, tuple[Value, list[Value]]]:
    """Chats of Supabase's rows, each with its messages in order; a file may hold messages alone."""
    if "chats" not in source.cache:
        document = source.document
        values = [value for value, _ in source.iter_values()] if not isinstance(document, (list, dict)) else document
        stored = as_rows(values if isinstance(values, list) else values.get("messages"))
        about = {str(chat.get("id")): chat for chat in as_rows(as_mapping(document).get("chats"))}
        found: dict[str, tuple[Value, list[Value]]] = {id: (chat, []) for id, chat in about.items()}
        for row in stored:
            found.setdefault(str(row.get("chat_id")), ({}, []))[1].append(row)
        for _, rows in found.values():
            rows.sort(key=lambda row: row["sequence_number"] if isinstance(row.get("sequence_number"), int) else 0)
        source.cache["chats"] = found
    chats: dict[str, tuple[Value, list[Value]]] = source.cache["chats"]
    return chats


def _is_history(source: Source) -> bool:
    document = source.document
    return isinstance(as_mapping(document).get("history"), list) or (
        isinstance(document, list) and "messages" in peek_first(source)
    )


def list_entries(source: Source) -> Iterator[Entry]:
    if _is_history(source):
        yield from make_entries(source, lambda chat: Entry(as_text(chat.get("id")), as_text(chat.get("name"))), "history")
        return
    for id, (chat, rows) in _read_rows(source).items():
        at = parse_time(chat.get("updated_at")) or next((parse_time(row.get("created_at")) for row in reversed(rows)), None)
        yield Entry(id, as_text(chat.get("name")), at)


def read(source: Source, entry: Entry) -> Thread:
    if _is_history(source):
        chat: Value = get_conversation(source, entry, "history")
        stored = as_rows(chat.get("messages"))
    else:
        chat, stored = _read_rows(source)[entry.id]
    builder = Builder(entry.id or source.path.stem, NAME, entry.title)
    model = chat.get("model")
    named = as_text(as_mapping(model).get("id")) or as_text(model)
    window = chat.get("context_length") or as_mapping(model).get("tokenLimit")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    builder.about |= {key: chat[key] for key in ("temperature", "folderId", "assistant_id", "workspace_id") if chat.get(key)}
    odd = sum(row.get("role") not in ("user", "assistant", "system") for row in stored)
    if odd:
        builder.add_note("warning", 0, f"{odd} messages have no role that is known and were skipped")
    prompt = as_text(chat.get("prompt"))
    lead = [NodeMessage("system", prompt, "system")] if prompt else []
    return build_thread(builder, _make_nodes(stored, named), "", lead)


def _make_nodes(stored: list[Value], model: str) -> Iterator[Node]:
    before: float | None = None
    for number, row in enumerate(stored):
        role, at, content = row.get("role"), parse_time(row.get("created_at")), row.get("content")
        reported = as_text(content)
        node = Node(as_text(row.get("id")) or f"#{number}", None, [], at)
        if role == "assistant":
            request = {"model": as_text(row.get("model")) or model, "sent_at": before}
            node.messages = [NodeMessage("assistant", split_thinking(reported), request=request)]
        elif role in ("user", "system"):
            paths = row.get("image_paths")
            images = [make_image(path) for path in (paths if isinstance(paths, list) else []) if isinstance(path, str)]
            blocks = join_blocks([*make_text(reported), *images])
            node.messages = (
                [NodeMessage("user", blocks, "prompt")]
                if role == "user"
                else [NodeMessage("system", blocks, "system", fence=True)]
            )
        before = at
        yield node


IMPORTER = Importer(
    NAME,
    "Chatbot UI (export, or rows of its tables)",
    sniff,
    read,
    list_entries,
    wants="`history` with a `version`, nor rows with `chat_id` and `sequence_number`",
    right="exports of version 1 and the rows of its tables",
    version=2,
)
