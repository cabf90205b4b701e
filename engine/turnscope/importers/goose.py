"""goose sessions: the SQLite database `sessions.db`, one session as JSON (`goose session export`), or old JSON lines.

A compaction hides all messages from the agent and appends a summary that only the agent sees. Usage is known of the newest
request alone, as the session's current totals.
Longer than a mapping because only visibility marks summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
)
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "goose"
ABOUT = ("working_dir", "session_type", "provider_name", "accumulated_input_tokens", "accumulated_output_tokens")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        if not {"sessions", "messages"} <= source.list_tables():
            return 0
        return 90 if any("content_json" in row.values() for row in source.query("pragma table_info(messages)")) else 0
    head = source.document if source.document is not None else next(iter(source.first), None)
    if not isinstance(head, dict) or "working_dir" not in head:
        return 80 if source.document is None and any(map(_is_message, source.first[:5])) else 0
    if isinstance(head.get("conversation"), list) and len(source.first) > 1:  # a whole session on each line
        return 0
    return 90 if isinstance(head.get("conversation"), list) or "type" not in head else 0


def _is_message(row: Any) -> bool:
    """A line of the first versions, whose head held less, or was missing."""
    fields = as_mapping(row)
    typed = as_rows(fields.get("content"))
    return (
        fields.get("role") in ("user", "assistant") and "created" in fields and bool(typed) and all("type" in t for t in typed)
    )


def find_places(machine: Machine) -> Iterator[Place]:
    folder = machine.variables.get("GOOSE_PATH_ROOT")
    roots = [Path(folder) / "data"] if folder else [machine.data / "goose", machine.data / "Block" / "goose"]
    if not folder:
        roots.append(machine.home / ".local" / "share" / "goose")
    for root in dict.fromkeys(roots):
        yield from (Place(root / "sessions", pattern) for pattern in ("sessions.db", "*.jsonl"))


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind != "sqlite":
        yield Entry(at=source.modified_at, size=source.size)
        return
    for row in source.query("select * from sessions order by updated_at desc, id desc"):
        title = as_text(row.get("name")) or as_text(row.get("description"))
        yield Entry(str(row["id"]), title, parse_time(row.get("updated_at")), project=as_text(row.get("working_dir")))


def read(source: Source, entry: Entry) -> Thread:
    notes: list[Note] = []
    if source.kind == "sqlite":
        info: Value = next(iter(source.query("select * from sessions where cast(id as text) = ?", (entry.id,))), {})
        order = "select * from messages where cast(session_id as text) = ? order by created_timestamp, id"
        stored = [_convert_row(row) for row in source.query(order, (entry.id,))]
    else:
        found = list(source.iter_values())
        notes = [value for value, _ in found if isinstance(value, Note)]
        rows = [as_mapping(value) for value, _ in found if not isinstance(value, Note)]
        info = rows[0] if rows else {}
        stored = as_rows(info.get("conversation")) or [row for row in rows if "role" in row]
    builder = Builder(entry.id or source.path.stem, NAME, entry.title or as_text(info.get("description") or info.get("name")))
    builder.notes += notes
    builder.about |= {key: info[key] for key in ABOUT if info.get(key)}
    config = as_mapping(parse_if_json(as_text(info.get("model_config_json"))) or info.get("model_config"))
    window = config.get("context_limit")
    builder.window = window if isinstance(window, int) and window > 0 else None
    passed = SkippedRecords()
    nodes = list(_make_nodes(stored, as_text(config.get("model_name")), passed))
    requests = [message.request for node in nodes for message in node.messages if isinstance(message.request, dict)]
    if requests:
        requests[-1]["usage"] = make_usage(info.get("input_tokens"), info.get("output_tokens"))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _convert_row(row: Value) -> Value:
    """A row of the database as newer exports write a message."""
    metadata = as_mapping(parse_if_json(as_text(row.get("metadata_json"))))
    content = parse_if_json(as_text(row.get("content_json")))
    return {"role": row.get("role"), "created": row.get("created_timestamp"), "content": content, "metadata": metadata}


def _make_nodes(stored: list[Value], model: str, passed: SkippedRecords) -> Iterator[Node]:
    """The messages. What the agent alone sees is a summary, or goes on behind one."""
    open_: Node | None = None
    before: float | None = None
    hidden = False
    for number, row in enumerate(stored):
        seen = as_mapping(row.get("metadata"))
        alone, at = seen.get("userVisible") is False, parse_time(row.get("created"))
        content = row.get("content")
        parts = content if isinstance(content, list) else [content]
        blocks = [block for part in parts for block in _convert_block(part, passed)]
        reported, left = alone and not hidden and row.get("role") == "user", seen.get("agentVisible") is False
        hidden = alone
        if left and not alone and not any(_is_alone(later) for later in stored[number + 1 :]):
            passed.add("message that only the person sees", row)
            continue
        if row.get("role") == "assistant" and open_ is not None:  # one answer may be stored in several rows
            open_.messages[0].content = [*open_.messages[0].content, *blocks]
        elif row.get("role") == "assistant" and blocks:
            request = {"model": model, "sent_at": before, "answered_at": at} if not alone else None
            open_ = Node(str(number), None, [NodeMessage("assistant", blocks, "" if request else "meta", request=request)], at)
            yield open_
        elif row.get("role") == "user" and blocks:
            results = all(block.get("type") == "tool_result" for block in blocks)
            origin = "summary" if reported else "meta" if alone else "tool" if results else ""
            node = Node(str(number), None, [NodeMessage("user", blocks, origin, "summary" if reported else "")], at)
            node.cut = Cut("compacted into a summary", summary=node.id) if reported else None
            open_, before = None, at
            yield node


def _is_alone(row: Value) -> bool:
    return as_mapping(row.get("metadata")).get("userVisible") is False


def _convert_block(part: Any, passed: SkippedRecords) -> list[JSON]:
    fields = as_mapping(part)
    id = as_text(fields.get("id"))
    match fields.get("type"):
        case "text":
            return make_text(as_text(fields.get("text")))
        case "thinking" | "reasoning":
            return make_thinking(as_text(fields.get("thinking") or fields.get("text")), as_text(fields.get("signature")))
        case "redactedThinking":
            return make_thinking("", as_text(fields.get("data")))
        case "image":
            return [make_image(f"data:{as_text(fields.get('mimeType'))};base64,{as_text(fields.get('data'))}")]
        case "toolRequest" | "frontendToolRequest":
            call = as_mapping(fields.get("toolCall"))
            value = as_mapping(call.get("value")) or call
            return [make_call(id, as_text(value.get("name")), value.get("arguments"))]
        case "toolResponse":
            gave = as_mapping(fields.get("toolResult"))
            value = gave.get("value", gave.get("error"))
            inside = as_mapping(value).get("content", value)
            return [
                make_result(id, extract_text(inside), gave.get("status") == "error" or as_mapping(value).get("isError") is True)
            ]
    passed.add(fields.get("type"), part)
    return []


IMPORTER = Importer(
    NAME,
    "goose sessions (database, JSON or JSON lines)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".db", ".json", ".jsonl"),
    wants="`working_dir`, nor tables `sessions` and `messages` with `content_json`",
    right="database and exports; compactions",
)
