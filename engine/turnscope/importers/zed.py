"""Zed's agent threads: `threads/threads.db`, a row of JSON for each (packed with zstd), or that JSON as a file; text threads.

Messages of version 0.3 are `User` and `Agent` with the results of the agent's calls next to its content; older ones have roles
and segments. Usage is that of the last request of each prompt, and a sum. A subagent's row names its parent. From the schema;
no real sample was at hand. Longer than a mapping for the three forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.containers import unpack_zstd
from turnscope.reading.content_blocks import (
    as_list,
    as_mapping,
    as_rows,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
)
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source, parse_json
from turnscope.session.builder import Builder, parse_usage
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Session
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "zed"
TOTALS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        columns = {str(row.get("name")) for row in source.query("pragma table_info(threads)")}
        return 90 if {"summary", "data_type", "data"} <= columns else 0
    document = as_mapping(source.document if source.kind == "file" else None)
    if document.get("zed") == "context" or {"messages", "text", "slash_command_output_sections"} <= document.keys():
        return 90
    rows = as_rows(document.get("messages"))
    new = any(row.keys() & {"User", "Agent"} for row in rows)
    old = {"summary", "version"} <= document.keys() and any(row.keys() >= {"segments", "role"} for row in rows)
    return 90 if new or old else 0


def find_places(machine: Machine) -> Iterator[Place]:
    folder = machine.data / ("zed" if machine.system == "linux" else "Zed")
    yield Place(folder / "threads", "threads.db")
    yield Place((machine.config if machine.system == "linux" else machine.home / ".config") / "zed" / "conversations", "*.json")
    yield Place(folder / "conversations", "*.zed.json")


def _list_rows(source: Source) -> dict[str, Value]:
    if "rows" not in source.cache:
        rows = source.query("select * from threads order by updated_at desc")
        source.cache["rows"] = {str(row.get("id")): row for row in rows}
    found: dict[str, Value] = source.cache["rows"]
    return found


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind != "sqlite":
        yield Entry(at=source.modified_at, size=source.size)
        return
    rows = _list_rows(source)
    for id, row in rows.items():
        if str(row.get("parent_id") or "") not in rows:
            data = row.get("data")
            size = len(data) if isinstance(data, (bytes, str)) else 0
            yield Entry(id, as_text(row.get("summary")), parse_time(row.get("updated_at")), size)


def read(source: Source, entry: Entry) -> Thread:
    if source.kind == "sqlite":
        return Thread(_read_row(source, entry.id, {entry.id}))
    return _read_document(as_mapping(source.document), Builder(source.path.stem, NAME))


def _read_row(source: Source, id: str, above: set[str]) -> Session:
    rows = _list_rows(source)
    data = rows[id].get("data")
    raw = data.encode() if isinstance(data, str) else data if isinstance(data, bytes) else b""
    raw = unpack_zstd(raw, source.path) if rows[id].get("data_type") == "zstd" else raw
    builder = Builder(id, NAME, as_text(rows[id].get("summary")))
    document = parse_json(raw)
    if not isinstance(document, Mapping):
        builder.add_note("error", 0, f"the row's {len(raw):,} bytes are no JSON object")
    session = _read_document(as_mapping(document), builder).session
    below = [key for key, row in rows.items() if str(row.get("parent_id") or "") == id and key not in above]
    agents = [_read_row(source, key, {*above, *below}) for key in below]
    return structs.replace(session, subagents=tuple(structs.replace(one, parent=id) for one in agents if one.blocks))


def _read_document(document: Value, builder: Builder) -> Thread:
    passed = SkippedRecords()
    builder.title = as_text(document.get("title")) or as_text(document.get("summary")) or builder.title
    model = as_text(as_mapping(document.get("model")).get("model"))
    builder.about |= {key: document[key] for key in ("profile", "completion_mode") if document.get(key)}
    if "slash_command_output_sections" in document or document.get("zed") == "context":
        return build_thread(builder, list(_read_text_thread(document)))
    usage = document.get("request_token_usage")
    nodes: list[Node] = []
    for number, message in enumerate(as_list(document.get("messages"))):
        node = Node(str(number), None)
        if isinstance(message, Mapping) and "role" in message:
            node.messages = list(_convert_old(message, model, passed))
        else:
            _fill_node(node, message, model, passed)
        _put_usage(nodes, node, message, usage)
        nodes.append(node)
    whole = as_mapping(document.get("cumulative_token_usage"))
    counts = [whole.get(key) for key in TOTALS]
    if all(count is None or isinstance(count, int) for count in counts) and any(counts):
        sums = ", ".join(f"{count or 0:,} {key.replace('_', ' ')}" for key, count in zip(TOTALS, counts, strict=True))
        builder.add_note("info", 0, f"the thread reports the sum of all requests: {sums}")
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _put_usage(nodes: list[Node], node: Node, message: Any, usage: Any) -> None:
    """Usage stands under the id of the prompt (by place in old files), and is that of the last request before the next one."""
    node.title = ""
    listed = usage if isinstance(usage, list) else []
    answers = [one for one in node.messages if one.role == "assistant" and one.request is not None]
    if isinstance(message, Mapping) and "role" in message and answers and len(nodes) < len(listed):
        answers[-1].request = {**(answers[-1].request or {}), "usage": parse_usage(listed[len(nodes)])}
    if not isinstance(usage, Mapping) or not answers:
        return
    prompts = [at for at, before in enumerate(nodes) if before.id.startswith("user ")]
    if not prompts:
        return
    found = usage.get(nodes[prompts[-1]].id.removeprefix("user "))
    for before in (*nodes[prompts[-1] :], node):
        for one in before.messages:
            if one.request is not None and "usage" in one.request:
                one.request = {key: value for key, value in one.request.items() if key != "usage"}
    answers[-1].request = {**(answers[-1].request or {}), "usage": parse_usage(found)}


def _fill_node(node: Node, message: Any, model: str, passed: SkippedRecords) -> None:
    """A message of version 0.3: an object with one key, or the word Resume."""
    kind, held = next(iter(message.items()), ("", None)) if isinstance(message, Mapping) else (str(message), None)
    fields = as_mapping(held)
    if kind == "User":
        node.id = f"user {fields.get('id') or node.id}"
        blocks = [block for part in as_list(fields.get("content")) for block in _convert_part(part, passed)]
        node.messages = [NodeMessage("user", blocks)] if blocks else []
    elif kind == "Agent":
        blocks = [block for part in as_list(fields.get("content")) for block in _convert_part(part, passed)]
        results = [_convert_result(one) for one in as_rows(list(as_mapping(fields.get("tool_results")).values()))]
        node.messages = [NodeMessage("assistant" if blocks else "", blocks, request={"model": model})]
        node.messages += [NodeMessage("user", results, "tool")] if results else []
    elif kind == "Compaction":
        summary = as_text(fields.get("Summary")) or as_text(held) or dumps(held)
        node.messages = [NodeMessage("user", summary, "summary", "summary")]
        node.cut = Cut("compacted: what came before the summary is not sent any more", [], node.id)
    elif kind == "Resume":
        node.messages = [NodeMessage("user", "Continue where you left off", "meta")]
    else:
        passed.add(f"message {kind or 'without a kind'}", message)


def _convert_part(part: Any, passed: SkippedRecords) -> list[JSON]:
    kind, held = next(iter(part.items()), ("", None)) if isinstance(part, Mapping) else ("Text", part)
    fields = as_mapping(held)
    match kind:
        case "Text":
            return make_text(as_text(held))
        case "Thinking":
            return make_thinking(as_text(fields.get("text")), as_text(fields.get("signature")))
        case "RedactedThinking":
            return make_thinking("", as_text(held) or as_text(fields.get("data")))
        case "ToolUse":
            given = as_mapping(fields.get("input"))
            wrapped = given.get("type") in ("json", "text") and "value" in given
            return [make_call(as_text(fields.get("id")), as_text(fields.get("name")), given["value"] if wrapped else given)]
        case "Mention":
            return [{"type": "text", "text": as_text(fields.get("content")) or dumps(fields.get("uri"))}]
        case "Image":
            source = as_text(fields.get("source"))
            return [make_image(source if source[:5] == "data:" else f"data:image/png;base64,{source}")]
    passed.add(f"part {kind}", part)
    return []


def _convert_result(one: Value) -> JSON:
    content = one.get("content")
    parts = content if isinstance(content, list) else [content]
    blocks = [block for part in parts if part is not None for block in _convert_part(part, SkippedRecords())]
    if not blocks and one.get("output") is not None:
        return make_result(as_text(one.get("tool_use_id")), one["output"], one.get("is_error") is True)
    texts = all(block["type"] == "text" for block in blocks)
    given: Any = "\n".join(block["text"] for block in blocks) if texts else blocks
    return make_result(as_text(one.get("tool_use_id")), given, one.get("is_error") is True)


def _convert_old(message: Value, model: str, passed: SkippedRecords) -> Iterator[NodeMessage]:
    """A message of version 0.2 and before."""
    blocks: list[JSON] = make_text(as_text(message.get("context")))
    for part in as_rows(message.get("segments")):
        words = as_text(part.get("text"))
        if part.get("type") == "thinking":
            blocks += make_thinking(words, as_text(part.get("signature")))
        else:
            blocks += make_text(words) or make_thinking("", as_text(part.get("data")))
    blocks += make_text(as_text(message.get("text")))
    for call in as_rows(message.get("tool_uses")):
        blocks.append(make_call(as_text(call.get("id")), as_text(call.get("name")), call.get("input")))
    results = [_convert_result(one) for one in as_rows(message.get("tool_results"))]
    if message.get("role") == "assistant":
        yield NodeMessage("assistant" if blocks else "", blocks, request={"model": model})
        if results:
            yield NodeMessage("user", results, "tool")
    elif message.get("role") in ("user", "system"):
        if results:
            yield NodeMessage("user", results, "tool")
        if blocks and not (results and not any(block.get("text") for block in blocks)):
            yield NodeMessage(str(message["role"]), blocks)
    else:
        passed.add(f"message of role {message.get('role')}", message)


def _read_text_thread(document: Value) -> Iterator[Node]:
    """A text thread is one text; each message says where it begins."""
    text = as_text(document.get("text"))
    rows = sorted(as_rows(document.get("messages")), key=lambda row: row["start"] if isinstance(row.get("start"), int) else 0)
    starts = [row["start"] if isinstance(row.get("start"), int) else 0 for row in rows] + [len(text.encode())]
    data = text.encode()
    for number, row in enumerate(rows):
        held = as_mapping(row.get("metadata")) or row
        words = data[starts[number] : starts[number + 1]].decode("utf-8", "replace").strip("\n")
        role = as_text(held.get("role")).lower()
        role = role if role in ("user", "assistant", "system") else "user"
        request = {"model": ""} if role == "assistant" else None
        content = make_text(words)
        if content or role == "assistant":
            yield Node(str(number), None, [NodeMessage(role if content else "", content, request=request)])


IMPORTER = Importer(
    NAME,
    "Zed agent threads (threads.db, or a thread's JSON)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".db", ".json"),
    wants="table `threads` with `summary` and `data_type`, nor messages that are `User` and `Agent`",
    right="all versions of a thread; calls with their results; compactions; subagents",
    sample=False,
)
