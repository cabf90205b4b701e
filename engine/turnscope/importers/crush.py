"""Crush's database (`.crush/crush.db`), and that of opencode until mid-2025 (`.opencode/opencode.db`): one schema.

Tokens are those of a session, not of its requests: a note has them. A summary replaces what came before it.
Longer than a mapping because of sessions inside sessions and two kinds of messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Session
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "crush"
Row = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "sqlite" or not {"sessions", "messages"} <= source.list_tables():
        return 0
    columns = {str(row.get("name")) for row in source.query("pragma table_info(messages)")}
    return 90 if {"session_id", "role", "parts"} <= columns else 0


def _list_sessions(source: Source) -> dict[str, Row]:
    return {str(row.get("id")): row for row in source.query("select * from sessions order by updated_at desc")}


def list_entries(source: Source) -> Iterator[Entry]:
    sessions = _list_sessions(source)
    for id, row in sessions.items():
        if str(row.get("parent_session_id")) not in sessions:
            yield Entry(id, as_text(row.get("title")), parse_time(row.get("updated_at")))


def read(source: Source, entry: Entry) -> Thread:
    return Thread(_build_session(source, entry.id, _list_sessions(source), {entry.id}))


def _build_session(source: Source, id: str, sessions: Mapping[str, Row], above: set[str]) -> Session:
    row = sessions[id]
    builder, passed = Builder(id, NAME, as_text(row.get("title"))), SkippedRecords()
    nodes: list[Node] = []
    summary, before = as_text(row.get("summary_message_id")), None
    for message in source.query("select * from messages where cast(session_id as text) = ? order by created_at, rowid", (id,)):
        node = _make_node(message, before, summary, passed)
        if nodes and nodes[-1].id == summary:
            node.cut = Cut("summarised: what came before the summary is not sent any more", [], summary)
        nodes.append(node)
        before = node.at
    if "files" in source.list_tables():
        for file in source.query("select * from files where cast(session_id as text) = ?", (id,)):
            passed.add("version of a file", as_text(file.get("content")))
    if cost := parse_usd(row.get("cost")):
        builder.about["run_usd"] = cost
        builder.add_note("info", 0, f"the database reports the session's cost: {cost:.4f} USD")
    tokens = [row.get(key) for key in ("prompt_tokens", "completion_tokens")]
    if any(isinstance(count, int) and count for count in tokens):
        builder.add_note("info", 0, f"the session's newest counts: {tokens[0]} tokens of prompt, {tokens[1]} of answer")
    passed.add_notes(builder)
    session = build_thread(builder, nodes).session
    below = [key for key, each in sessions.items() if str(each.get("parent_session_id")) == id and key not in above]
    agents = [_build_session(source, key, sessions, {*above, *below}) for key in below]
    return structs.replace(session, subagents=tuple(structs.replace(one, parent=id) for one in agents if one.blocks))


def _make_node(message: Row, before: float | None, summary: str, passed: SkippedRecords) -> Node:
    id, role = str(message.get("id")), message.get("role")
    node = Node(id, None, [], parse_time(message.get("created_at")))
    blocks: list[JSON] = []
    reason = ""
    for part in as_rows(parse_if_json(as_text(message.get("parts")))):
        data = as_mapping(part.get("data"))
        if part.get("type") == "finish":
            reason = as_text(data.get("reason"))
        elif made := _convert_part(as_text(part.get("type")), data):
            blocks += made
            if data.get("metadata") and part.get("type") == "tool_result":
                passed.add("metadata of a result, which is not sent", data["metadata"])
        elif part.get("type") not in ("text", "reasoning"):
            passed.add(f"part {part.get('type')}", part)
    if role == "assistant":
        kind = "summary" if summary and id == summary else ""
        request = {"model": as_text(message.get("model")), "sent_at": before, "stop_reason": reason or None}
        request["answered_at"] = parse_time(message.get("finished_at"))
        node.messages = [NodeMessage("assistant" if blocks else "", blocks, kind, kind, request)]
    elif role in ("user", "tool") and blocks:
        node.messages = [NodeMessage("user", blocks, "tool" if role == "tool" else "")]
    elif blocks:
        passed.add(f"message of role {role}", message)
    return node


def _convert_part(kind: str, data: Row) -> list[JSON]:
    match kind:
        case "text":
            return make_text(as_text(data.get("text")))
        case "reasoning":
            return make_thinking(as_text(data.get("thinking")), as_text(data.get("signature")))
        case "tool_call":
            return [make_call(as_text(data.get("id")), as_text(data.get("name")), data.get("input"))]
        case "tool_result":
            id, failed = as_text(data.get("tool_call_id")), data.get("is_error") is True
            return [make_result(id, data.get("content"), failed)]
        case "image_url":
            return [make_image(as_text(data.get("url")))]
        case "binary":
            return [make_image(f"data:{as_text(data.get('MIMEType'))};base64,{as_text(data.get('Data'))}")]
    return []


IMPORTER = Importer(
    NAME,
    "Crush or opencode of 2025 (crush.db, opencode.db)",
    sniff,
    read,
    list_entries,
    suffixes=(".db",),
    version=2,
    wants="tables `sessions` and `messages` with a column `parts`",
    right="calls with their results; summaries and what they replaced; sessions of agents",
)
