"""Grok CLI sessions: `chat_history.jsonl` under `~/.grok/sessions`, one item a line, as xAI's API takes them.

Reasoning and calls that a server ran stand before the answer that they belong to. No usage is stored.
Longer than a mapping for what stands ahead of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_item, make_call, make_image, make_result, make_text
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "grok-cli"
KINDS = ("system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call")
Item = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    plain = [row for row in rows if row.get("type") in KINDS and not row.keys() & {"message", "uuid", "role"}]
    marked = any(row.keys() & {"model_id", "prompt_index", "synthetic_reason", "model_fingerprint"} for row in plain)
    return 85 if marked and len(plain) == len(rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".grok" / "sessions", "**/chat_history.jsonl")


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    nodes: list[Node] = []
    ahead: list[JSON] = []  # what an answer began with
    for item, line in iter_objects(source.iter_records(), builder, passed):
        message: NodeMessage | None = None
        match item.get("type"):
            case "system":
                message = NodeMessage("system", _convert(item.get("content")), "system", fence=bool(nodes))
            case "user":
                message = NodeMessage("user", _convert(item.get("content")), "meta" if item.get("synthetic_reason") else "")
            case "reasoning":
                ahead += convert_item(item)[1]
            case "backend_tool_call":
                call = as_mapping(item.get("kind"))
                ahead.append(
                    make_call(as_text(call.get("id")), as_text(call.get("tool_type")), call.get("action"), "server_tool_use")
                )
            case "assistant":
                uses = [
                    make_call(as_text(c.get("id")), as_text(c.get("name")), c.get("arguments"))
                    for c in as_rows(item.get("tool_calls"))
                ]
                request = {"model": as_text(item.get("model_id"))}
                message = NodeMessage("assistant", [*ahead, *_convert(item.get("content")), *uses], request=request)
                ahead = []
            case "tool_result":
                result = make_result(as_text(item.get("tool_call_id")), item.get("content"))
                last = nodes[-1].messages[0] if nodes else None
                if last is not None and last.origin == "tool":
                    last.content = [*last.content, result]
                else:
                    message = NodeMessage("user", [result], "tool")
            case kind:
                passed.add(kind, item, line)
        if message is not None and message.role != "assistant" and ahead:  # the answer broke off
            nodes.append(Node(f"{line} ahead", None, [NodeMessage("assistant", ahead, request={})]))
            ahead = []
        nodes += [Node(str(line), None, [message])] if message is not None else []
    if ahead:
        nodes.append(Node("end", None, [NodeMessage("assistant", ahead, request={})]))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _convert(content: Any) -> list[JSON]:
    if isinstance(content, str):
        return make_text(content)
    blocks: list[JSON] = []
    for part in as_rows(content):
        if part.get("type") == "image" and as_text(part.get("url")):
            blocks.append(make_image(part["url"]))
        elif isinstance(part.get("text"), str):
            blocks += make_text(part["text"])
        else:
            blocks.append({"type": "unknown", **part})
    return blocks


IMPORTER = Importer(
    NAME,
    "Grok CLI session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="items with `model_id` or `prompt_index`",
    right="reasoning and calls at a server in their answer; calls with results",
)
