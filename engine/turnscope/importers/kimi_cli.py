"""Kimi CLI sessions under `~/.kimi/sessions`: `wire.jsonl`, the events of a run, or `context.jsonl`, the messages kept for it.

The events hold the usage of each step and the texts that a compaction removed, not the compaction's summary.
Longer than a mapping for two forms. From the schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, make_call, make_result
from turnscope.reading.messages import convert_content, make_nodes
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import drop_empty, measured, parse_count
from turnscope.settings import Machine

NAME = "kimi-cli"
USAGE_KEYS = ("input_other", "input_cache_creation", "input_cache_read", "output")
SILENT = ("TurnEnd", "StepInterrupted", "ToolCallRequest", "HookTriggered", "HookResolved", "MCPLoadingBegin", "MCPLoadingEnd")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    kept = any(row.get("role") in ("_checkpoint", "_usage", "_system_prompt") for row in rows)
    events = [as_mapping(row.get("message")) for row in rows if "timestamp" in row]
    is_wire = any(event.get("type") in ("TurnBegin", "StepBegin") and "payload" in event for event in events)
    return 90 if is_wire or (kept and any(row.get("role") in ("user", "assistant") for row in rows)) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.find_folder("KIMI_SHARE_DIR", machine.home / ".kimi") / "sessions", "*/*/wire.jsonl")


@measured
def convert_usage(record: Any) -> Usage | None:
    other, made, read, output = (parse_count(as_mapping(record).get(key), key) for key in USAGE_KEYS)
    return drop_empty(Usage(other, made, read, output))


def read(source: Source, _entry: Entry) -> Thread:
    stored = source.path.name in ("wire.jsonl", "context.jsonl")
    builder = Builder(source.path.absolute().parent.name if stored else source.path.stem, NAME)
    passed = SkippedRecords()
    records = list(iter_objects(source.iter_records(), builder, passed))
    if any("role" in record for record, _ in records):
        nodes = list(_read_context([record for record, _ in records], builder, passed))
        lead = []
    else:
        nodes = list(_read_events(records, builder, passed))
        aside = source.open_sibling("context.jsonl")
        rows = [as_mapping(row) for row in aside.first] if aside else []
        system = next((as_text(row.get("content")) for row in rows if row.get("role") == "_system_prompt"), "")
        lead = [NodeMessage("system", system, "system")] if system else []
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


def _read_context(rows: list[Value], builder: Builder, passed: SkippedRecords) -> Iterator[Node]:
    """The messages that are kept. `_usage` is the size of the context after an answer."""
    counts = [row.get("token_count") for row in rows if row.get("role") == "_usage"]
    if counts:
        builder.add_note(
            "info", 0, f"the context came to {counts[-1]} tokens in the end; what each request took is not in the log"
        )
    messages: list[Value] = []
    for row in rows:
        role = as_text(row.get("role"))
        if role == "_system_prompt":
            messages.append({"role": "system", "content": row.get("content")})
        elif not role.startswith("_"):
            messages.append(row)
        elif role not in ("_usage", "_checkpoint"):
            passed.add(role, row)
    return make_nodes(messages, lambda _: {}, passed)


def _read_events(records: list[tuple[dict[str, Any], int]], builder: Builder, passed: SkippedRecords) -> Iterator[Node]:
    answer = NodeMessage("")
    results: NodeMessage | None = None
    nodes: list[Node] = []
    for record, line in records:
        event, at = as_mapping(record.get("message")), parse_time(record.get("timestamp"))
        kind, payload = as_text(event.get("type")), as_mapping(event.get("payload"))
        match kind:
            case "TurnBegin" | "SteerInput":
                nodes.append(
                    Node(str(line), None, [NodeMessage("user", convert_content(payload.get("user_input")), "prompt")], at)
                )
            case "StepBegin":
                answer, results = NodeMessage("", [], request={"sent_at": at}), None
                nodes.append(Node(str(line), None, [answer], at))
            case "ContentPart" if answer.request:
                answer.role, answer.content = "assistant", [*answer.content, *convert_content(payload)]
            case "ToolCall" if answer.request:
                use = as_mapping(payload.get("function"))
                block = make_call(as_text(payload.get("id")), as_text(use.get("name")), use.get("arguments"))
                answer.role, answer.content = "assistant", [*answer.content, block]
            case "ToolResult":
                gave = as_mapping(payload.get("return_value")) or as_mapping(payload.get("result"))
                output = gave.get("output")
                parts = convert_content(output) if isinstance(output, list) else output
                id, failed = as_text(payload.get("tool_call_id")), gave.get("is_error") is True or gave.get("ok") is False
                block = make_result(id, parts or as_text(gave.get("message")), failed)
                if results is None:
                    results = NodeMessage("user", [], "tool")
                    nodes.append(Node(str(line), None, [results], at))
                results.content = [*results.content, block]
            case "StatusUpdate":
                if payload.get("token_usage") is not None:
                    about = {"usage": convert_usage(payload["token_usage"]), "id": as_text(payload.get("message_id"))}
                    answer.request = {**(answer.request or {}), **about}
            case "CompactionBegin":
                builder.add_note("warning", line, "the context was compacted here: the events do not hold the summary")
            case _ if kind not in SILENT and record.get("type") != "metadata":
                passed.add(kind or as_text(record.get("type")), record, line)
    return iter(nodes)


IMPORTER = Importer(
    NAME,
    "Kimi CLI session (wire.jsonl, context.jsonl)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="events such as TurnBegin, nor messages with `_checkpoint`",
    right="steps with their usage; calls with results; the prompt in the same folder",
    sample=False,
)
