"""Msty's database (`msty.db`, version 1): sessions of the list, each with one chat or with several side by side.

A message names the one before it, so that answers asked for again are branches; the one that was shown last is the main path.
What an answer's tokens came to stands with it. Of attached documents the database has the name alone, and nothing of calls.
From the tables as UROCK's handbook of AI forensics describes those of version 1.8.5; no real sample was at hand. Longer than a
mapping for what stands in the columns as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import (
    as_list,
    as_mapping,
    as_rows,
    join_blocks,
    make_image,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.leaves import follow_choices
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd
from turnscope.settings import Machine

NAME = "msty"
KEY = "::"  # between the key of an account and the model that it was used for
THOUGHTS = ("reasoning", "content", "text", "reasoning_content")  # keys under which a column may hold what was thought
LISTED = (
    "select chats.id as id, chats.title as chat, chat_sessions.title as title, max(chat_messages.created_at) as at, "
    "sum(chat_messages.role = 'ai') as n from chats join chat_messages on chat_messages.chat_id = chats.id "
    "left join chat_sessions on chat_sessions.id = chats.chat_session_id group by chats.id order by at desc"
)
Row = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "sqlite" or not {"chat_sessions", "chats", "chat_messages"} <= source.list_tables():
        return 0
    columns = {str(row.get("name")) for row in source.query("pragma table_info(chat_messages)")}
    return 90 if {"chat_id", "role", "text", "branch_parent_id"} <= columns else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.config / "Msty", "msty.db")


def list_entries(source: Source) -> Iterator[Entry]:
    for row in source.query(LISTED):
        title = as_text(row.get("title")) or as_text(row.get("chat"))
        yield Entry(str(row["id"]), title, _parse_time(row.get("at")), requests=int(row["n"] or 0))


def read(source: Source, entry: Entry) -> Thread:
    chat = next(iter(source.query("select * from chats where cast(id as text) = ?", (entry.id,))), {})
    rows = list(
        source.query("select * from chat_messages where cast(chat_id as text) = ? order by created_at, id", (entry.id,))
    )
    config = as_mapping(_parse(chat.get("config")))
    options = as_mapping(config.get("modelOptions"))
    builder, passed = Builder(entry.id, NAME, entry.title), SkippedRecords()
    settings = {key: value for key, value in options.items() if value not in (None, "") and key != "systemPrompt"}
    facts = {
        "chat_title": chat.get("title"),
        "parent_chat_id": chat.get("parent_chat_id"),
        "model_vendor": chat.get("model_vendor"),
    }
    builder.about |= {key: value for key, value in facts.items() if value and value != entry.title}
    builder.about |= {"settings": settings} if settings else {}
    nodes = list(_make_nodes(rows, _name_model(chat), passed))
    stopped = sum(bool(node.messages and (node.messages[0].request or {}).get("stop_reason")) for node in nodes)
    if stopped:
        builder.add_note("info", 0, f"{stopped} answers were stopped: what had come is kept, their tokens are not known")
    passed.add_notes(builder)
    system = as_text(options.get("systemPrompt"))
    lead = [NodeMessage("system", system, "system")] if system else []
    return build_thread(builder, nodes, _find_shown(nodes, rows), lead)


def _make_nodes(rows: Sequence[Row], model: str, passed: SkippedRecords) -> Iterator[Node]:
    """A node for each message. Where no message names another, each follows the one before it."""
    linked = any(row.get("branch_parent_id") or row.get("parent_id") for row in rows)
    times = {str(row.get("id")): _parse_time(row.get("created_at")) for row in rows}
    before = ""
    for row in rows:
        id = str(row.get("id"))
        parent = str(row.get("branch_parent_id") or row.get("parent_id") or "") if linked else before
        node = Node(id, parent, [], times[id])
        role = row.get("role")
        if role in ("ai", "assistant"):
            node.messages = [_make_answer(row, model, times.get(parent), passed)]
        elif role in ("user", "system"):
            blocks = [*make_text(as_text(row.get("text"))), *_convert_attachments(row, passed)]
            origin = "prompt" if role == "user" else "system"
            node.messages = [NodeMessage(str(role), join_blocks(blocks), origin, fence=role == "system")] if blocks else []
        else:
            passed.add(f"message of role {role}", dict(row))
        before = id
        yield node


def _make_answer(row: Row, model: str, sent_at: float | None, passed: SkippedRecords) -> NodeMessage:
    """An answer with its request. `current` of its measures is its own; `previous`, that of the answer before, was sent on."""
    measures = as_mapping(_parse(row.get("prompt_response_metrics")))
    current = as_mapping(measures.get("current"))
    blocks = _convert_thoughts(_parse(row.get("reasoning_info")), passed)
    text = as_text(row.get("text"))
    blocks += make_text(text) if blocks else split_thinking(text)
    request = {
        "model": _name_model(row) or model,
        "usage": make_usage(current.get("prompt_eval_count"), current.get("eval_count")),
        "logged_usd": parse_usd(current.get("estimated_cost")),
        "stop_reason": "stopped" if measures and not current else None,
        "sent_at": sent_at,
        "answered_at": _parse_time(row.get("created_at")),
    }
    return NodeMessage("assistant" if blocks else "", blocks, request=request)


def _convert_thoughts(value: Any, passed: SkippedRecords) -> list[JSON]:
    """What a model thought, which the description of the column does not tell in detail."""
    held = as_mapping(value)
    found = as_text(value) or next((as_text(held[key]) for key in THOUGHTS if as_text(held.get(key))), "")
    if value and not found:
        passed.add("reasoning_info", value)
    return make_thinking(found) if found else []


def _convert_attachments(row: Row, passed: SkippedRecords) -> list[JSON]:
    """The attached images. Of other files only names and paths are there: what the model got of them is not known."""
    attached = as_mapping(_parse(row.get("attachments")))
    for kind in ("documents", "youtube_links"):
        for one in as_list(attached.get(kind)):
            passed.add(f"attachment of {kind}, whose text is not in the database", one)
    return [make_image(as_text(one.get("path"))) for one in as_rows(attached.get("images")) if as_text(one.get("path"))]


def _find_shown(nodes: Sequence[Node], rows: Sequence[Row]) -> str:
    """The leaf of what was shown last: at each message the branch that became active last, else the newest."""
    active = {str(row.get("id")): as_mapping(_parse(row.get("extras"))).get("branch_active_at") for row in rows}
    order = {node.id: number for number, node in enumerate(nodes)}

    def rank(node: Node) -> tuple[float, int]:
        at = active.get(node.id)
        return float(at) if isinstance(at, (int, float)) else 0.0, order[node.id]

    return follow_choices(nodes, lambda _, below: max(below, key=rank).id)


def _name_model(row: Row) -> str:
    return as_text(row.get("model_name")).rpartition(KEY)[2]


def _parse(value: Any) -> Any:
    return parse_if_json(value) if isinstance(value, str) and value[:1] in '{["' else value


def _parse_time(value: Any) -> float | None:
    """Times are UTC, and do not say so."""
    return parse_time(f"{value}Z" if isinstance(value, str) and len(value) == len("2026-01-01 00:00:00") else value)


IMPORTER = Importer(
    NAME,
    "Msty (msty.db of version 1)",
    sniff,
    read,
    list_entries,
    finds=find_places,
    suffixes=(".db",),
    wants="tables `chat_sessions`, `chats` and `chat_messages`",
    right="answers asked for again as branches; tokens and estimated cost of each answer",
    sample=False,
)
