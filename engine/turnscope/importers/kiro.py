"""Kiro's sessions: `~/.kiro/sessions/cli/ID.jsonl` (records), `…/sess_ID/messages.jsonl` (events), and those of its editor.

A transcript's metadata are in a file next to it: model, tokens of each turn as sums, credits. The editor keeps `.chat` files
and `workspace-sessions`, without calls. From the schema; no real sample was at hand. Longer than a mapping for the four forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text, make_thinking
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "kiro"
KINDS = ("Prompt", "AssistantMessage", "ToolResults")
EVENTS = ("user", "assistant", "tool_call", "tool_result", "usage_summary")
ROLES = {"human": "user", "user": "user", "bot": "assistant", "assistant": "assistant", "tool": "tool"}
Value = Mapping[str, Any]


def _is_event(record: Any) -> bool:
    payload = as_mapping(as_mapping(record).get("payload"))
    return payload.get("type") in EVENTS and (
        "content" in payload or "toolCallId" in payload or "promptTurnSummaries" in payload
    )


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    document = as_mapping(source.document)
    chat, history = as_rows(document.get("chat")), as_rows(document.get("history"))
    if chat and all(as_text(row.get("role")) in ROLES and "content" in row for row in chat[:5]) and "metadata" in document:
        return 85
    if history and all("role" in as_mapping(row.get("message")) for row in history) and "sessionId" in document:
        return 70 if any("contextItems" not in row for row in history) else 0  # Continue, its origin, has them in each row
    rows = [as_mapping(row) for row in source.first]
    if any(row.get("kind") in KINDS and "content" in as_mapping(row.get("data")) for row in rows):
        return 90
    return 85 if rows and sum(map(_is_event, rows)) * 2 > len(rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    sessions = machine.find_folder("KIRO_HOME", machine.home / ".kiro") / "sessions"
    yield Place(sessions, "cli/*.jsonl")
    yield Place(sessions, "*/sess_*/messages.jsonl")
    editor = machine.config / "Kiro" / "User" / "globalStorage" / "kiro.kiroagent"
    yield Place(editor, "*/*.chat")
    yield Place(editor / "workspace-sessions", "*/*.json")


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    document = as_mapping(source.document)
    if "chat" in document or "history" in document:
        nodes = list(_read_editor(document, builder, passed))
        passed.add_notes(builder)
        return build_thread(builder, nodes)
    near = source.open_sibling("session.json" if source.path.stem == "messages" else f"{source.path.stem}.json")
    about = as_mapping(near.document if near else None)
    state = as_mapping(about.get("session_state"))
    turns = as_rows(as_mapping(state.get("conversation_metadata")).get("user_turn_metadatas"))
    model = as_text(as_mapping(as_mapping(state.get("rts_model_state")).get("model_info")).get("model_id"))
    model = model or as_text(about.get("modelId")) or next((as_text(turn["model"]) for turn in turns if turn.get("model")), "")
    builder.id = as_text(about.get("session_id")) or as_text(about.get("id")) or builder.id
    builder.title = as_text(about.get("title"))
    _note_turns(turns, builder)
    nodes = []
    for record, line in iter_objects(source.iter_records(), builder, passed):
        made = _convert_event(record, model, passed, line) if "payload" in record else _convert(record, model, passed, line)
        last = nodes[-1].messages[-1:] if nodes else []
        if "payload" in record and made and last and made[0].role == last[0].role == "assistant":
            last[0].content = [*last[0].content, *made[0].content]  # one answer: no result stands between its events
        elif made:
            nodes.append(Node(f"#{line}", None, made, parse_time(record.get("timestamp"))))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _note_turns(turns: list[Value], builder: Builder) -> None:
    """Tokens are recorded for a turn, over all of its requests."""
    counts = [
        sum(turn[key] for turn in turns if isinstance(turn.get(key), int))
        for key in ("input_token_count", "output_token_count")
    ]
    used = [row.get("value") for turn in turns for row in as_rows(turn.get("metering_usage"))]
    credits = sum(value for value in used if isinstance(value, (int, float)))
    if any(counts):
        builder.add_note(
            "info", 0, f"the turns report {counts[0]:,} tokens of input and {counts[1]:,} of output, over all requests"
        )
    if credits:
        builder.add_note("info", 0, f"the turns report {credits:g} credits")


def _convert(record: Value, model: str, passed: SkippedRecords, line: int) -> list[NodeMessage]:
    """A record of the second engine."""
    data = as_mapping(record.get("data"))
    parts = as_rows(data.get("content"))
    blocks = [block for part in parts for block in _convert_part(part, passed, line)]
    match record.get("kind"):
        case "Prompt":
            at = parse_time(as_mapping(data.get("meta")).get("timestamp"))
            return [NodeMessage("user", blocks, at=at)] if blocks else []
        case "AssistantMessage":
            request = {"model": model, "id": as_text(data.get("message_id"))}
            return [NodeMessage("assistant" if blocks else "", blocks, request=request)]
        case "ToolResults":
            return [NodeMessage("user", blocks, "tool")] if blocks else []
    passed.add(f"record {record.get('kind')}", record, line)
    return []


def _convert_part(part: Value, passed: SkippedRecords, line: int) -> list[JSON]:
    held = part.get("data")
    fields = as_mapping(held)
    match part.get("kind"):
        case "text":
            return make_text(as_text(held))
        case "thinking" | "reasoning":
            return make_thinking(as_text(held) or as_text(fields.get("text")), as_text(fields.get("signature")))
        case "toolUse":
            return [make_call(as_text(fields.get("toolUseId")), as_text(fields.get("name")), fields.get("input"))]
        case "toolResult":
            rows = as_rows(fields.get("content"))
            texts = [row["data"] if isinstance(row.get("data"), str) else dumps(row.get("data")) for row in rows]
            failed = as_text(fields.get("status")).lower() not in ("success", "")
            return [make_result(as_text(fields.get("toolUseId")), "\n".join(texts), failed)]
    passed.add(f"part {part.get('kind')}", part, line)
    return []


def _convert_event(record: Value, model: str, passed: SkippedRecords, line: int) -> list[NodeMessage]:
    """An event of the third engine. What the model says and each of its calls are events of their own."""
    payload = as_mapping(record.get("payload"))
    content = payload.get("content")
    words = content if isinstance(content, str) else extract_text(content) if content else ""
    id = as_text(payload.get("toolCallId"))
    request = {"model": as_text(payload.get("modelId")) or model}
    match payload.get("type"):
        case "user" if words:
            return [NodeMessage("user", words)]
        case "assistant" if words:
            thought = payload.get("operationType") in ("Think", "Reasoning")
            return [NodeMessage("assistant", make_thinking(words) if thought else make_text(words), request=request)]
        case "tool_call":
            call = make_call(id, as_text(payload.get("toolName")), payload.get("args"))
            return [NodeMessage("assistant", [call], request=request)]
        case "tool_result":
            return [NodeMessage("user", [make_result(id, words, payload.get("success") is False)], "tool")]
    passed.add(f"event {payload.get('type')}", record, line)
    return []


def _read_editor(document: Value, builder: Builder, passed: SkippedRecords) -> Iterator[Node]:
    metadata = as_mapping(document.get("metadata"))
    model = as_text(metadata.get("modelId")) or as_text(document.get("selectedModel"))
    builder.id = as_text(document.get("sessionId")) or as_text(document.get("executionId")) or builder.id
    builder.title = as_text(document.get("title"))
    for number, row in enumerate(as_rows(document.get("chat")) or as_rows(document.get("history"))):
        message = as_mapping(row.get("message")) or row
        role = ROLES.get(as_text(message.get("role")), "")
        words = extract_text(message.get("content") or "")
        logs = row.get("promptLogs")
        completions = [as_text(log.get("completion")) for log in (as_rows(logs) or [as_mapping(logs)])]
        words = "\n".join(filter(None, completions)) or words if role == "assistant" else words
        if role == "assistant":
            yield Node(str(number), None, [NodeMessage("assistant" if words else "", words, request={"model": model})])
        elif role and words:
            yield Node(str(number), None, [NodeMessage("user", words, "meta" if role == "tool" else "")])
        elif words:
            passed.add(f"message of role {message.get('role')}", row)


IMPORTER = Importer(
    NAME,
    "Kiro session (JSON lines; .chat and sessions of its editor)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl", ".json", ".chat"),
    wants="records of kind `Prompt` or events with a `payload`",
    right="calls with their results; what the turns report of tokens and credits",
    sample=False,
)
