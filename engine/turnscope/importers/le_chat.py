"""Mistral's Le Chat: the data export's `chat-….json`, a list of messages each with its `chatId`.

An answer's text is in `content` or in `contentChunks`, with calls of tools next to their results. Models and usage are not
known. From the schema; no real sample was at hand. Longer than a mapping for the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.leaves import find_newest_leaf
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "le-chat"
ASIDE = ("files", "canvas", "quotes", "reactions", "references", "context")
Value = Mapping[str, Any]


def _list_messages(source: Source) -> list[Value]:
    document: Any = source.document if source.kind == "file" else None
    rows = document.get("messages") if isinstance(document, Mapping) else document
    return as_rows(rows[:] if isinstance(rows, list) else None)


def sniff(source: Source) -> int:
    rows = _list_messages(source)[:5]
    ours = all("chatId" in row and "role" in row and row.keys() & {"content", "contentChunks"} for row in rows)
    return 90 if rows and ours else 0


def read(source: Source, _entry: Entry) -> Thread:
    rows = _list_messages(source)
    builder, passed = Builder(as_text(rows[0].get("chatId")) or source.path.stem, NAME), SkippedRecords()
    head = as_mapping(source.document)
    builder.title = as_text(head.get("title")) or as_text(as_mapping(head.get("chat")).get("title"))
    nodes: list[Node] = []
    linked = any(as_text(row.get("parentId")) for row in rows)
    ordered = rows if linked else sorted(rows, key=lambda row: parse_time(row.get("createdAt")) or 0)
    before: float | None = None
    for number, row in enumerate(ordered):
        at = parse_time(row.get("createdAt"))
        node = Node(as_text(row.get("id")) or f"#{number}", as_text(row.get("parentId")) if linked else None, [], at)
        node.messages = list(_convert(row, before, passed))
        nodes.append(node)
        before = at
    passed.add_notes(builder)
    return build_thread(builder, nodes, find_newest_leaf(nodes) if linked else "")


def _convert(row: Value, before: float | None, passed: SkippedRecords) -> Iterator[NodeMessage]:
    role, chunks = row.get("role"), as_rows(row.get("contentChunks"))
    for key in ASIDE:
        if row.get(key):
            passed.add(key, row[key])
    blocks = [block for chunk in chunks for block in _convert_chunk(chunk, passed)]
    if not any(block["type"] in ("text", "thinking") for block in blocks):
        blocks += make_text(extract_text(row.get("content") or ""))
    if role == "user" and blocks:
        yield NodeMessage("user", blocks)
    elif role == "assistant":
        request = {"model": as_text(row.get("model")), "sent_at": before, "answered_at": parse_time(row.get("createdAt"))}
        answer: list[JSON] = []
        for block in blocks:
            if block["type"] == "tool_result":
                yield NodeMessage("assistant" if answer else "", answer, request=request)
                yield NodeMessage("user", [block], "tool")
                answer, request = [], {"model": request["model"]}
            else:
                answer.append(block)
        if answer or not blocks:
            yield NodeMessage("assistant" if answer else "", answer, request=request)
    elif blocks:
        passed.add(f"message of role {role}", row)


def _convert_chunk(chunk: Value, passed: SkippedRecords) -> list[JSON]:
    match chunk.get("type"):
        case "text":
            return make_text(as_text(chunk.get("text")))
        case "thinking" | "reasoning":
            return make_thinking(extract_text(chunk.get("thinking") or chunk.get("text") or ""))
        case "image_url" | "image":
            address = chunk.get("imageUrl", chunk.get("image_url"))
            return [make_image(as_text(as_mapping(address).get("url")) or as_text(address))]
        case "tool_call" | "tool-call":
            id = as_text(chunk.get("id")) or as_text(chunk.get("publicId")) or as_text(chunk.get("name"))
            arguments = next((chunk[key] for key in ("arguments", "input", "publicArguments") if chunk.get(key)), None)
            gave = next((chunk[key] for key in ("result", "output", "publicResult") if chunk.get(key) is not None), None)
            call = make_call(id, as_text(chunk.get("name")), arguments)
            return [call, make_result(id, gave, bool(chunk.get("isError")))] if gave is not None else [call]
        case kind:
            passed.add(f"chunk {kind}", chunk)
    return []


IMPORTER = Importer(
    NAME,
    "Le Chat export (JSON)",
    sniff,
    read,
    suffixes=(".json",),
    wants="messages with `chatId` and `role`",
    right="texts, thoughts and calls of an answer's chunks; what is left aside with its size",
    sample=False,
)
