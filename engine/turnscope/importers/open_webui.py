"""Open WebUI chats: an export (a list of rows, one bare chat, JSON lines) or the tables of `webui.db`.

A chat is a map of messages with a current one. Newer answers keep `output` items, older ones HTML `<details>` in their text. A
`contextSummary` stands on the first message that a compaction kept.
Longer than a mapping for three containers and two forms of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    convert_item,
    join_blocks,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.leaves import find_last_leaf
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count
from turnscope.settings import Machine

NAME = "open-webui"
DETAILS = re.compile(r"<details([^>]*)>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*", re.DOTALL)
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
PROMPT = ("prompt_tokens", "prompt_eval_count", "input_tokens")
OUTPUT = ("completion_tokens", "output_tokens", "eval_count", "predicted_n")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        return 90 if {"chat", "user"} <= source.list_tables() and _has_chats(source) else 0
    found = peek_first(source) if source.kind == "file" else {}
    chat = as_mapping(found.get("chat") or found)
    if isinstance(as_mapping(chat.get("history")).get("messages"), dict):
        return 95
    messages = as_rows(chat.get("messages"))
    return 85 if "models" in chat and messages and all({"id", "role", "content"} <= row.keys() for row in messages) else 0


def _has_chats(source: Source) -> bool:
    return {"id", "title", "chat"} <= {row["name"] for row in source.query("pragma table_info(chat)")}


def find_places(machine: Machine) -> Iterator[Place]:
    named = machine.variables.get("DATA_DIR")
    folders = (
        [Path(named)]
        if named
        else [machine.home / ".open-webui", machine.data / "open-webui", machine.home / "open-webui" / "backend" / "data"]
    )
    yield from (Place(folder, "webui.db") for folder in folders)


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind != "sqlite":
        yield from make_entries(source, _make_entry)
        return
    for row in source.query("select id, title, updated_at, length(chat) as size from chat order by updated_at desc, id"):
        yield Entry(str(row["id"]), as_text(row["title"]), parse_time(row["updated_at"]), row["size"] or 0)


def _make_entry(row: Value) -> Entry:
    chat = as_mapping(row.get("chat") or row)
    return Entry(
        as_text(row.get("id")),
        as_text(row.get("title") or chat.get("title")),
        parse_time(row.get("updated_at") or chat.get("timestamp")),
    )


def read(source: Source, entry: Entry) -> Thread:
    if source.kind == "sqlite":
        row: Value = next(iter(source.query("select * from chat where cast(id as text) = ?", (entry.id,))), {})
        chat = as_mapping(parse_if_json(as_text(row.get("chat"))))
    else:
        row = get_conversation(source, entry)
        chat = as_mapping(row.get("chat") or row)
    history = as_mapping(chat.get("history"))
    messages = {str(id): as_mapping(value) for id, value in as_mapping(history.get("messages")).items()}
    if not messages:  # the first versions kept a list alone
        rows = as_rows(chat.get("messages"))
        ups = [None, *(row.get("id") for row in rows)]
        messages = {str(row.get("id")): {"parentId": up, **row} for row, up in zip(rows, ups, strict=False)}
    if not messages and "chat_message" in source.list_tables():
        messages = dict(_read_table(source, entry.id))
    builder = Builder(entry.id or source.path.stem, NAME, entry.title or as_text(chat.get("title")))
    builder.about |= {key: row[key] for key in ("folder_id", "meta") if row.get(key)}
    passed = SkippedRecords()
    nodes = [_make_node(id, message, messages, passed) for id, message in messages.items()]
    named = (row.get("current_message_id"), history.get("currentId"), chat.get("currentId"), chat.get("branchPointMessageId"))
    details = {node.id: facts for node in nodes if (facts := _select_stored(messages[node.id], _get_blocks(node)))}
    builder.about |= {"stored": {NAME: details}} if details else {}
    retrieved = [one for node in nodes for one in _iter_retrieved(messages[node.id])]
    builder.about |= {"context": retrieved} if retrieved else {}
    current = next((id for id in named if isinstance(id, str) and id in messages), "")
    system = as_text(as_mapping(chat.get("params")).get("system")) or as_text(chat.get("system"))
    passed.add_notes(builder)
    return build_thread(
        builder, nodes, current or find_last_leaf(nodes), [NodeMessage("system", system, "system")] if system else []
    )


def _read_table(source: Source, chat: str) -> Iterator[tuple[str, Value]]:
    """The messages of a chat as newer versions keep them in a table of their own; ids there begin with the chat's."""
    for row in source.query("select * from chat_message where chat_id = ? order by created_at, id", (chat,)):
        fields = {
            key: parse_if_json(value) if isinstance(value, str) and key not in ("id", "role") else value
            for key, value in row.items()
        }
        id = str(row["id"]).removeprefix(f"{chat}-")
        up = as_text(row.get("parent_id")).removeprefix(f"{chat}-")
        named = {"parentId": up, "timestamp": row.get("created_at"), "model": row.get("model_id")}
        yield id, {**fields, **named, "contextSummary": fields.get("context_summary")}


def _make_node(id: str, message: Value, messages: Mapping[str, Value], passed: SkippedRecords) -> Node:
    above = as_text(message.get("parentId"))
    node = Node(id, above, [], parse_time(message.get("timestamp")))
    content = message.get("content")
    reported = content if isinstance(content, str) else extract_text(content) if content else ""
    for file in as_rows(message.get("files")):
        if file.get("type") != "image":
            passed.add("file without its content", file)
    if message.get("role") == "assistant":
        output = as_rows(message.get("output"))
        blocks = [block for part in output for block in _convert_output(part, passed)] if output else _split_details(reported)
        used = as_mapping(message.get("usage")) or as_mapping(as_mapping(message.get("info")).get("usage"))
        request = {
            "model": as_text(message.get("model")),
            "usage": _convert_usage(used),
            "sent_at": parse_time(as_mapping(messages.get(above)).get("timestamp")),
            "stop_reason": "error" if message.get("error") else "unfinished" if message.get("done") is False else None,
        }
        node.messages = split_rounds(blocks, request, parallel=True) or [NodeMessage("", request=request)]
    elif message.get("role") == "user":
        images = [make_image(as_text(f.get("url"))) for f in as_rows(message.get("files")) if f.get("type") == "image"]
        node.messages = [NodeMessage("user", join_blocks([*make_text(reported), *images]), "prompt")]
    elif message.get("role") == "system":
        node.messages = [NodeMessage("system", reported, "system", fence=True)]
    else:
        passed.add(f"message of role {message.get('role')}", message)
    if summary := as_text(message.get("contextSummary")):
        node.cut = Cut(
            "compacted: a summary in the system prompt replaced the history", [make_message_parts("system", summary)]
        )
    return node


def _select_stored(message: Value, blocks: Sequence[JSON]) -> dict[str, JSON]:
    """What is stored with a message besides its text; for an answer of which more is read, all of it."""
    facts: dict[str, JSON] = {key: as_mapping(message.get(key)) for key in ("usage", "info") if as_mapping(message.get(key))}
    facts |= {"files": as_rows(message.get("files"))} if as_rows(message.get("files")) else {}
    facts |= {key: as_text(message.get(key)) for key in ("contextSummary",) if as_text(message.get(key))}
    reported, voice = as_text(message.get("content")), as_mapping(as_mapping(message.get("meta")).get("voice"))
    speech = [{"transcript": as_text(part.get("transcript"))} for part in as_rows(voice.get("speech"))]
    if voice:
        facts |= {"meta": {"voice": {"model": as_text(voice.get("model")), "speech": speech}}, "model": message.get("model")}
    if message.get("role") == "assistant" and (message.get("output") or voice or [*blocks] != make_text(reported)):
        output = [_select_stored_item(part) for part in as_rows(message.get("output"))]
        facts |= {"role": "assistant", "content": reported, **({"output": output} if output else {})}
    return facts


def _iter_retrieved(message: Value) -> Iterator[JSON]:
    """What its retrieval attached to the question that a message answers: chunks of documents, results of a web search."""
    for one in as_rows(message.get("sources")):
        source, reported = as_mapping(one.get("source")), as_rows(one.get("metadata"))
        texts = one.get("document")
        for n, chunk in enumerate(texts if isinstance(texts, list) else ()):
            named = reported[n] if n < len(reported) else {}
            name = as_text(named.get("source") or named.get("name") or source.get("name"))
            kind = "web" if source.get("type") == "web_search" else "document"
            if isinstance(chunk, str) and chunk.strip():
                yield {"kind": kind, "name": name, "text": chunk, "message": as_text(message.get("parentId"))}


def _get_blocks(node: Node) -> list[JSON]:
    """All that is read in a message."""
    contents = [message.content for message in node.messages if message.role]
    return [block for content in contents for block in (make_text(content) if isinstance(content, str) else content)]


def _select_stored_item(part: Value) -> Value:
    """An item of an answer's output whose parts are objects, and their texts texts."""
    lists = {key: part[key] for key in ("content", "summary", "output") if isinstance(part.get(key), list)}
    clean = {key: [{**one, "text": as_text(one.get("text"))} for one in as_rows(parts)] for key, parts in lists.items()}
    names = {key: as_text(part[key]) for key in ("type", "call_id", "name", "status") if key in part}
    kind, gave = names.get("type"), part.get("output")
    if kind == "function_call_output" and not isinstance(gave, list):
        clean["output"] = [{"type": "input_text", "text": gave if isinstance(gave, str) else ""}]
    loose = [key for key in ("content", "summary") if key in part and key not in lists]
    if kind != "open_webui:context_compaction" and loose:
        clean |= {key: [] for key in loose}
    return {**part, **clean, **names}


@measured
def _convert_usage(used: Value) -> Usage | None:
    whole = next((used[key] for key in PROMPT if used.get(key)), None)
    if whole is None:  # llama.cpp counts what it had cached apart
        whole = sum(parse_count(used.get(key), key) for key in ("prompt_n", "cache_n"))
    cached = as_mapping(used.get("prompt_tokens_details")).get("cached_tokens", used.get("cache_n"))
    return make_usage(whole, next((used[key] for key in OUTPUT if used.get(key)), 0), cached)


def _convert_output(part: Value, passed: SkippedRecords) -> list[JSON]:
    """An item of an answer's output."""
    if part.get("type") == "open_webui:code_interpreter":
        code, gave = as_text(part.get("code")), part.get("output")
        return [*make_text(code), *([{"type": "text", "text": str(gave)}] if gave else [])]
    role, blocks = convert_item(part)
    if not role:
        passed.add(part.get("type"), part)
    return blocks


def _split_details(reported: str) -> list[JSON]:
    """An answer's text with thoughts and calls in it as HTML."""
    blocks: list[JSON] = []
    at = 0
    for number, found in enumerate(DETAILS.finditer(reported)):
        about = {key: unescape(value) for key, value in ATTRIBUTE.findall(found[1])}
        kind = about.get("type")
        if kind not in ("reasoning", "tool_calls"):
            continue
        blocks += make_text(reported[at : found.start()].strip())
        at = found.end()
        if kind == "reasoning":
            lines = unescape(found[2]).strip().splitlines()
            blocks += make_thinking("\n".join(line.removeprefix(">").removeprefix(" ") for line in lines))
        else:
            id = about.get("id") or f"details-{number}"
            blocks.append(make_call(id, about.get("name", ""), about.get("arguments", "")))
            if about.get("done") != "false" or "result" in about:
                gave = parse_if_json(about.get("result", ""))
                blocks.append(make_result(id, gave if isinstance(gave, str) else about.get("result", "")))
    return [*blocks, *make_text(reported[at:].strip())] if blocks else split_thinking(reported)


IMPORTER = Importer(
    NAME,
    "Open WebUI chats (export or webui.db)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".json", ".jsonl", ".db"),
    wants="chat with `history.messages`, nor tables `chat` and `user`",
    right="the tree with its branches; old and new forms of an answer; compactions",
    version=3,
)
