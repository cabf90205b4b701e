"""Cursor's command line: `~/.cursor/chats/*/ID/store.db` (messages as blobs), and transcripts of agents as JSON lines.

The newest root blob lists the messages of the prompt by their ids; without it they stand in the order in which they were
stored. A transcript has neither times nor results of most tools. Usage is in neither. From the schema; no real sample was at
hand. Longer than a mapping for the two stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.messages import convert_message
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "cursor-cli"
ID_BYTES = 32  # of a blob's id, SHA-256
PROMPT_FIELD = b"\x0a\x20"  # protobuf: field 1, 32 bytes
INJECTED = ("<user_info>", "<open_and_recently_viewed_files>", "<system_reminder>", "<rules>")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        return 85 if {"blobs", "meta"} <= source.list_tables() and _read_meta(source).get("latestRootBlobId") else 0
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" and source.document is None else []
    spoken = [row for row in rows if row.get("role") in ("user", "assistant") and "content" in as_mapping(row.get("message"))]
    plain = all(row.keys() <= {"role", "message", "type", "status", "timestamp", "error"} for row in spoken)
    return 80 if spoken and plain and len(spoken) * 2 > len(rows) and "role" not in as_mapping(spoken[0].get("message")) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".cursor" / "chats", "*/*/store.db")
    yield Place(machine.home / ".cursor" / "projects", "*/agent-transcripts/*/*.jsonl")
    yield Place(machine.home / ".cursor" / "projects", "*/agent-transcripts/*.jsonl")


def _read_meta(source: Source) -> Value:
    """What the store says of itself: JSON, as hexadecimal digits or as text."""
    for row in source.query("select value from meta"):
        value = row.get("value")
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)
        with suppress(ValueError):
            text = bytes.fromhex(text).decode("utf-8", "replace")
        found = as_mapping(parse_if_json(text))
        if "latestRootBlobId" in found or "agentId" in found:
            return found
    return {}


def _list_messages(source: Source, root: str, passed: SkippedRecords) -> list[Value]:
    blobs: dict[str, bytes] = {}
    for row in source.query("select id, data from blobs order by rowid"):
        data = row.get("data")
        blobs[as_text(row.get("id"))] = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    messages = {
        id: as_mapping(parse_if_json(data.decode("utf-8", "replace"))) for id, data in blobs.items() if data[:1] == b"{"
    }
    wanted = [id for id in _list_ids(blobs.get(root, b"")) if id in messages]
    rest = [id for id in messages if id not in set(wanted)] if wanted else []
    for id in rest:
        passed.add("message that the newest prompt does not hold", messages[id])
    for data in (data for id, data in blobs.items() if id not in messages):
        passed.kinds.setdefault("blob of the tool's own state", [0, 0, 0])
        passed.kinds["blob of the tool's own state"][1] += 1
        passed.kinds["blob of the tool's own state"][2] += len(data)
    return [messages[id] for id in wanted or messages]


def _list_ids(root: bytes) -> Iterator[str]:
    """Ids of the messages at the beginning of a root: fields of 32 bytes, one behind the other."""
    at, step = 0, len(PROMPT_FIELD) + ID_BYTES
    while root.startswith(PROMPT_FIELD, at) and at + step <= len(root):
        yield root[at + len(PROMPT_FIELD) : at + step].hex()
        at += step


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    model = ""
    if source.kind == "sqlite":
        meta = _read_meta(source)
        builder.id, builder.title = as_text(meta.get("agentId")) or source.path.parent.name, as_text(meta.get("name"))
        builder.about |= {key: meta[key] for key in ("mode", "workspacePath") if meta.get(key)}
        model = as_text(meta.get("lastUsedModel"))
        rows = [(row, 0) for row in _list_messages(source, as_text(meta.get("latestRootBlobId")), passed)]
    else:
        rows = list(iter_objects(source.iter_records(), builder, passed))
    nodes: list[Node] = []
    for number, (row, line) in enumerate(rows):
        message = {**as_mapping(row.get("message")), "role": row.get("role")} if "message" in row else row
        role, blocks = convert_message(message)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        blocks = [block for block in blocks if block.get("type") != "tool_result"]
        node = Node(str(number), None, [], parse_time(row.get("createdAt") or row.get("timestamp")))
        if role == "assistant":
            own = as_mapping(as_mapping(as_mapping(row.get("providerOptions")).get("cursor")))
            request = {"model": as_text(own.get("modelName")) or model}
            node.messages = [NodeMessage("assistant" if blocks else "", blocks, request=request)]
        elif role and (blocks or results):
            injected = extract_text(blocks).lstrip().startswith(INJECTED)
            kind = "meta" if injected else "system" if role == "system" else ""
            node.messages = [NodeMessage("user", results, "tool")] if results else []
            node.messages += [NodeMessage(role, blocks, kind)] if blocks else []
        else:
            passed.add(row.get("type") or f"message of role {row.get('role')}", row, line)
        nodes.append(node)
    passed.add_notes(builder)
    return build_thread(builder, nodes)


IMPORTER = Importer(
    NAME,
    "Cursor CLI chat (store.db) or agent's transcript (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".db", ".jsonl"),
    wants="tables `blobs` and `meta`, nor lines of `role` and `message`",
    right="the messages of the newest prompt; calls with their results",
    sample=False,
)
