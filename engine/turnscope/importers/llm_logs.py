"""Logs of the command `llm`: its database `logs.db` (responses, or in newer ones turns and messages), and `llm logs --json`.

A response is a request, a conversation a session. Newer databases keep each message once, under the one before it.
Longer than a mapping for three forms. Responses of all of them become the rows that `llm logs --json` prints.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.listing import list_conversations
from turnscope.reading.messages import convert_tool
from turnscope.reading.nodes import Node, NodeMessage, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "llm"
KEYS = {"conversation_id", "prompt", "response", "model"}
OLD = ("prompt_fragments", "system_fragments", "tool_calls", "tool_results", "tool_responses", "prompt_attachments")
Row = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        columns = {str(row.get("name")) for row in source.query("pragma table_info(responses)")}
        known = (
            columns >= {"prompt", "response", "conversation_id", "datetime_utc"} or "_llm_migrations" in source.list_tables()
        )
        return 90 if known and {"responses", "conversations"} <= source.list_tables() else 0
    document = source.document if source.kind == "file" else {}
    head = as_mapping((document[:1] or [None])[0] if isinstance(document, list) else None)
    return 90 if head.keys() >= KEYS and head.keys() & {"datetime_utc", "prompt_json", "duration_ms"} else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.find_folder("LLM_USER_PATH", machine.config / "io.datasette.llm"), "logs.db")


def _list_rows(source: Source, table: str) -> list[dict[str, Any]]:
    """List the rows of a table; none where there is no such table."""
    listed = source.kind == "sqlite" and table in source.list_tables()
    return [dict(row) for row in source.query(f'select * from "{table}"')] if listed else []  # noqa: S608 - a name of ours


def _read_rows(source: Source) -> Sequence[Row]:
    """Read the responses as `llm logs --json` prints them."""
    if source.kind != "sqlite":
        return as_rows(list(list_conversations(source)))
    names = {row.get("id"): row.get("name") for row in _list_rows(source, "conversations")}
    known = {name: {row.get("id"): row for row in _list_rows(source, name)} for name in ("fragments", "tools", "attachments")}
    linked: dict[str, dict[Any, list[Row]]] = {table: {} for table in OLD}
    for table, of in linked.items():
        for row in sorted(_list_rows(source, table), key=lambda row: str(row.get("order") or "").rjust(9)):
            aside = next((known[name].get(row.get(f"{name[:-1]}_id")) for name in known if f"{name[:-1]}_id" in row), None)
            of.setdefault(row.get("response_id"), []).append({**(aside or {}), **row})
    found = []
    for row in _list_rows(source, "responses"):
        rows = {table: of.get(row.get("id"), []) for table, of in linked.items()}
        apart = {"tools": rows["tool_responses"], "attachments": rows["prompt_attachments"]}
        found.append({**row, **rows, **apart, "conversation_name": names.get(row.get("conversation_id"))})
    return found


def _find_chats(source: Source) -> dict[str, list[Row]]:
    """Find the responses of each conversation, in the order in which they were made; of newer tables the turns of a thread."""
    if "chats" not in source.cache:
        threads = {row.get("id"): row.get("name") for row in _list_rows(source, "threads")}
        rows = [*_read_rows(source)]
        for turn in _list_rows(source, "turns"):
            thread = turn.get("thread_id")
            rows.append({**turn, "conversation_id": thread, "conversation_name": threads.get(thread)})
        chats: dict[str, list[Row]] = {}
        for row in sorted(rows, key=lambda row: as_text(row.get("datetime_utc"))):
            chats.setdefault(as_text(row.get("conversation_id")) or as_text(row.get("id")), []).append(row)
        newest = sorted(chats, key=lambda chat: as_text(chats[chat][-1].get("datetime_utc")), reverse=True)
        source.cache["chats"] = {id: chats[id] for id in newest}
    found: dict[str, list[Row]] = source.cache["chats"]
    return found


def list_entries(source: Source) -> Iterator[Entry]:
    for id, rows in _find_chats(source).items():
        yield Entry(id, as_text(rows[0].get("conversation_name")), _find_time(rows[-1]), requests=len(rows))


def _find_time(row: Row) -> float | None:
    text = as_text(row.get("datetime_utc"))
    return parse_time(text if text.endswith("Z") or "+" in text else f"{text}+00:00")


def read(source: Source, entry: Entry) -> Thread:
    rows = _find_chats(source)[entry.id]
    builder = Builder(entry.id, NAME, entry.title)
    if "tip_message_hash" in rows[0]:
        nodes, tip = _make_tree(source, rows)
        used = {row.get("tool_id") for row in _list_rows(source, "turn_tools") if row.get("turn_id") == rows[0].get("id")}
        tools = [row for row in _list_rows(source, "tools") if row.get("id") in used]
        return build_thread(builder, nodes, tip, lead=_make_tools(tools))
    nodes, system = [], ""
    for number, row in enumerate(rows):
        now = _put_before(row, "system_fragments", "system")
        results = [_convert_result(one) for one in as_rows(row.get("tool_results"))]
        files = map(_convert_attachment, as_rows(row.get("attachments")))
        prompt = [*make_text(_put_before(row, "prompt_fragments", "prompt")), *files]
        messages = [NodeMessage("system", now, "system", fence=bool(system))] if now and now != system else []
        messages += [NodeMessage("user", results, "tool")] if results else []
        messages += [NodeMessage("user", prompt)] if prompt else []
        blocks = [*make_thinking(as_text(row.get("reasoning"))), *make_text(as_text(row.get("response")))]
        blocks += [_convert_call(one) for one in as_rows(row.get("tool_calls"))]
        messages.append(NodeMessage("assistant" if blocks else "", blocks, request=_make_request(row)))
        system = now or system
        nodes.append(Node(str(number), None, messages, _find_time(row)))
    return build_thread(builder, nodes, lead=_make_tools(as_rows(rows[0].get("tools"))))


def _make_tools(tools: Sequence[Row]) -> list[NodeMessage]:
    known = [{key: tool.get(key) for key in ("name", "description", "input_schema") if tool.get(key)} for tool in tools]
    return [NodeMessage("tools", [convert_tool(tool) for tool in known], "system")] if known else []


def _put_before(row: Row, fragments: str, key: str) -> str:
    """A text after the fragments that it names; newer versions print them with it."""
    text = as_text(row.get(key))
    listed = [as_text(one.get("content")) for one in as_rows(row.get(fragments))]
    return text if text.startswith("\n".join(listed)) else "\n".join([*listed, *([text] if text else [])])


def _make_request(row: Row) -> dict[str, Any]:
    texts = {key: row.get(key) for key in ("token_details", "options_json", "response_json")}
    fields = {key: as_mapping(parse_if_json(one) if isinstance(one, str) else one) for key, one in texts.items()}
    counts = {key: row.get(key) for key in ("input_tokens", "output_tokens")}
    sent, lasted = _find_time(row), row.get("duration_ms")
    ended = sent + lasted / 1000 if sent and isinstance(lasted, int) and not isinstance(lasted, bool) else None
    return {
        "model": as_text(row.get("resolved_model")) or as_text(row.get("model")),
        "usage": convert_usage({**fields["token_details"], **counts}) if counts["input_tokens"] is not None else None,
        "sent_at": sent,
        "answered_at": ended,
        "id": as_text(fields["response_json"].get("id")) or as_text(row.get("id")),
        "settings": dict(fields["options_json"]),
    }


def _convert_call(one: Row) -> JSON:
    server = one.get("server_executed") is True
    kind = "server_tool_use" if server else "tool_use"
    return make_call(as_text(one.get("tool_call_id")), as_text(one.get("name")), one.get("arguments"), kind)


def _convert_result(one: Row) -> JSON:
    return make_result(as_text(one.get("tool_call_id")), one.get("output"), bool(one.get("exception")))


def _convert_attachment(one: Row) -> JSON:
    kind, data, place = as_text(one.get("type")), one.get("content"), as_text(one.get("url")) or as_text(one.get("path"))
    if isinstance(data, bytes):
        place = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    image = make_image(place)
    return image if kind.startswith("image/") else {"type": "document", "source": image["source"]}


def _make_tree(source: Source, turns: Sequence[Row]) -> tuple[list[Node], str]:
    """Make the messages that lead to the end of each turn; a turn's end answers its request."""
    messages = {as_text(row.get("hash")): row for row in _list_rows(source, "messages")}
    parts: dict[Any, list[Row]] = {}
    for row in sorted(_list_rows(source, "parts"), key=lambda row: row.get("position") or 0):
        parts.setdefault(row.get("message_hash"), []).append(row)
    fragments = {row.get("id"): as_text(row.get("content")) for row in _list_rows(source, "fragments")}
    files = {row.get("id"): row for row in _list_rows(source, "attachments")}
    attached = {row.get("part_id"): files.get(row.get("attachment_id"), {}) for row in _list_rows(source, "part_attachments")}
    ends = {turn.get("tip_message_hash"): turn for turn in turns}
    nodes: dict[str, Node] = {}
    for turn in turns:
        path: list[str] = []
        at = as_text(turn.get("tip_message_hash"))
        while at in messages and at not in nodes and at not in path:
            path.append(at)
            at = as_text(messages[at].get("parent_hash"))
        for hash in reversed(path):
            row, role = messages[hash], as_text(messages[hash].get("role"))
            blocks = [_convert_part(one, fragments, attached.get(one.get("id"), {})) for one in parts.get(hash, ())]
            request = _make_request(ends[hash]) if hash in ends else {} if role == "assistant" else None
            new = NodeMessage({"tool": "user"}.get(role, role), blocks, "tool" if role == "tool" else "", request=request)
            nodes[hash] = Node(hash, as_text(row.get("parent_hash")), [new], _find_time(turn))
    return list(nodes.values()), as_text(turns[-1].get("tip_message_hash"))


def _convert_part(part: Row, fragments: Mapping[Any, str], file: Row) -> JSON:
    payload = as_mapping(parse_if_json(as_text(part.get("payload"))))
    match part.get("type"):
        case "text":
            listed = as_rows(payload.get("text_ref"))
            named = [fragments.get(one["fragment"], "") if "fragment" in one else as_text(one.get("literal")) for one in listed]
            return {"type": "text", "text": as_text(part.get("text")) or "".join(named)}
        case "reasoning":
            return {"type": "thinking", "thinking": as_text(part.get("text"))}
        case "tool_call":
            return _convert_call(payload)
        case "tool_result":
            return _convert_result(payload)
        case "attachment":
            return _convert_attachment({**as_mapping(payload.get("attachment")), **file})
    return {"type": as_text(part.get("type")) or "unknown", "text": as_text(part.get("text")), **payload}


IMPORTER = Importer(
    NAME,
    "llm (logs.db, `llm logs --json`)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".db", ".json"),
    wants="responses with `conversation_id` and `prompt`",
    right="tools, calls and results; fragments and attachments; usage of each response",
)
