"""Amazon Q's and Kiro's command lines: the databases `data.sqlite3` of `amazon-q` and `kiro-cli`, and what `/save` writes.

`history` holds a pair for each request: the input and the answer. Lengths are in characters, not tokens;
the share of the window that a request took is there, and credits. From the schema; no real sample was at hand. Longer than a
mapping for the two forms of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_list, as_mapping, as_rows, make_call, make_result, make_text
from turnscope.reading.messages import convert_tool
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "amazon-q"
TABLES = ("conversations_v2", "conversations")
ASIDE = ("images",)  # of a prompt: which pictures went with it
Value = Mapping[str, Any]


def _list_tables(source: Source) -> list[str]:
    if source.kind != "sqlite":
        return []
    tables = source.list_tables()
    columns = {name: {str(row.get("name")) for row in source.query(f"pragma table_info({name})")} for name in TABLES}
    return [name for name in TABLES if name in tables and {"key", "value"} <= columns[name]]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        return 85 if _list_tables(source) else 0
    document = as_mapping(source.document if source.kind == "file" else None)
    turns = [_split_turn(turn) for turn in as_list(document.get("history")) if isinstance(turn, (list, Mapping))]
    return 90 if turns and all(isinstance(prompt.get("content"), Mapping) for prompt, _, _ in turns[:3]) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for tool in ("amazon-q", "kiro-cli"):
        yield Place(machine.data / tool, "data.sqlite3")


def _find_conversations(source: Source) -> dict[str, tuple[Value, float | None]]:
    if "conversations" not in source.cache:
        found: dict[str, tuple[Value, float | None]] = {}
        for table in _list_tables(source):
            for row in source.query(f"select * from {table}"):  # noqa: S608 - a name of ours
                value = as_mapping(parse_if_json(as_text(row.get("value"))))
                id = as_text(value.get("conversation_id")) or as_text(row.get("conversation_id")) or as_text(row.get("key"))
                if value.get("history"):
                    found.setdefault(id, (value, parse_time(row.get("updated_at"))))
        source.cache["conversations"] = found
    listed: dict[str, tuple[Value, float | None]] = source.cache["conversations"]
    return listed


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind != "sqlite":
        yield Entry(at=source.modified_at, size=source.size)
        return
    for id, (_, at) in sorted(_find_conversations(source).items(), key=lambda row: -(row[1][1] or 0)):
        yield Entry(id, at=at)


def _split_turn(turn: Any) -> tuple[Value, Value, Value]:
    """The input, the answer, and facts of the request: a pair, or an object in newer versions."""
    if isinstance(turn, list):
        return as_mapping(turn[0] if turn else None), as_mapping(turn[1] if len(turn) > 1 else None), {}
    fields = as_mapping(turn)
    return as_mapping(fields.get("user")), as_mapping(fields.get("assistant")), as_mapping(fields.get("request_metadata"))


def read(source: Source, entry: Entry) -> Thread:
    document = _find_conversations(source)[entry.id][0] if source.kind == "sqlite" else as_mapping(source.document)
    builder, passed = Builder(entry.id or as_text(document.get("conversation_id")) or source.path.stem, NAME), SkippedRecords()
    model = as_mapping(document.get("model_info"))
    window = model.get("context_window_tokens")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    name = as_text(model.get("model_id")) or as_text(document.get("model"))
    nodes: list[Node] = []
    summary = document.get("latest_summary")
    words = as_text(summary[0] if isinstance(summary, list) and summary else summary)
    if words:
        node = Node("summary", None, [NodeMessage("user", words, "summary", "summary")])
        node.cut = Cut("compacted: what came before the summary is not in the file", [], node.id)
        nodes.append(node)
    for number, turn in enumerate(as_list(document.get("history"))):
        nodes.append(Node(str(number), None, list(_convert_turn(turn, name, passed))))
    used = as_rows(as_mapping(document.get("user_turn_metadata")).get("usage_info"))
    credits = sum(row["value"] for row in used if isinstance(row.get("value"), (int, float)))
    if credits:
        builder.add_note("info", 0, f"the newest turn reports {credits:g} credits")
    groups = as_mapping(document.get("tools"))
    tools = [as_mapping(tool.get("ToolSpecification")) or tool for rows in groups.values() for tool in as_rows(rows)]
    passed.add_notes(builder)
    lead = [NodeMessage("tools", [convert_tool(tool) for tool in tools], "system")] if tools else []
    return build_thread(builder, nodes, lead=lead)


def _convert_turn(turn: Any, model: str, passed: SkippedRecords) -> Iterator[NodeMessage]:
    prompt, answered, facts = _split_turn(turn)
    content = as_mapping(prompt.get("content"))
    more = as_text(prompt.get("additional_context"))
    if as_mapping(prompt.get("env_context")) or prompt.get("images"):
        passed.add("env_context", prompt.get("env_context"))
    for key in ASIDE:
        if prompt.get(key):
            passed.add(key, prompt[key])
    for kind, held in content.items():
        fields = as_mapping(held)
        results = [_convert_result(one) for one in as_rows(fields.get("tool_use_results"))]
        if results:
            yield NodeMessage("user", results, "tool")
        blocks = [*(make_text(more) if more.strip() not in ("", "N/A") else []), *make_text(as_text(fields.get("prompt")))]
        if blocks:
            yield NodeMessage("user", blocks, "" if fields.get("prompt") else "meta")
        elif not results:
            passed.add(f"input {kind}", held)
    request: dict[str, Any] = {"model": as_text(facts.get("model_id")) or model}
    request["sent_at"] = parse_time(facts.get("request_start_timestamp_ms")) or parse_time(prompt.get("timestamp"))
    request["answered_at"], request["id"] = parse_time(facts.get("stream_end_timestamp_ms")), as_text(facts.get("request_id"))
    share = facts.get("context_usage_percentage")
    request["settings"] = {"context_usage_percentage": share} if isinstance(share, (int, float)) else {}
    for kind, held in answered.items():
        fields = as_mapping(held)
        reply: list[JSON] = make_text(as_text(fields.get("content")))
        for use in as_rows(fields.get("tool_uses")):
            reply.append(make_call(as_text(use.get("id")), as_text(use.get("name")), use.get("args")))
        yield NodeMessage("assistant" if reply else "", reply, request=request)
        if kind not in ("Response", "ToolUse"):
            passed.add(f"answer {kind}", held)


def _convert_result(one: Value) -> JSON:
    content = one.get("content")
    rows = content if isinstance(content, list) else [content]
    texts = [as_text(as_mapping(row).get("Text")) or dumps(as_mapping(row).get("Json", row)) for row in rows if row]
    failed = as_text(one.get("status")).lower() == "error"
    return make_result(as_text(one.get("tool_use_id")), content if isinstance(content, str) else "\n".join(texts), failed)


IMPORTER = Importer(
    NAME,
    "Amazon Q or Kiro CLI conversation (data.sqlite3, or a saved one)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".sqlite3", ".json"),
    wants="`history` of pairs whose input has `content`",
    right="a request for each pair; calls with their results; tools",
    sample=False,
)
