"""Antigravity's transcripts: `brain/ID/.system_generated/logs/transcript_full.jsonl`, a step on each line.

A result is the step behind its call; no id names it. `transcript.jsonl` has each argument as JSON text once more. The system
prompt, tools and usage are not in it. From the schema; no real sample was at hand. Longer than a mapping because results have
no ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text, make_thinking
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "antigravity"
PRODUCTS = ("antigravity-cli", "antigravity", "antigravity-ide")
SOURCES = {"USER_EXPLICIT", "USER_IMPLICIT", "SYSTEM", "MODEL"}
LOGS = Path(".system_generated", "logs")
MODEL = re.compile(r"`Model Selection` from .*? to (.+?)(?:\.\s|\.?$)", re.MULTILINE)
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    ours = [row for row in rows if "step_index" in row and as_text(row.get("source")) in SOURCES and "type" in row]
    return 90 if ours and len(ours) * 2 > len(rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for product in PRODUCTS:
        yield Place(machine.home / ".gemini" / product / "brain", str(Path("*", LOGS, "transcript*.jsonl")), _prefer_full)


def _prefer_full(path: Path) -> Path:
    full = path.with_name("transcript_full.jsonl")
    return full if path.name == "transcript.jsonl" and path.parent.name == "logs" and full.is_file() else path


def read(source: Source, _entry: Entry) -> Thread:
    folders = source.path.parts
    named = folders[-4] if len(folders) > 3 and Path(*folders[-3:-1]) == LOGS else source.path.stem
    builder, passed = Builder(named, NAME), SkippedRecords()
    nodes: list[Node] = []
    open_: list[str] = []  # calls without a result so far
    model, number = "", 0
    escaped = source.path.name == "transcript.jsonl"
    for record, line in iter_objects(source.iter_records(), builder, passed):
        kind, words, by = as_text(record.get("type")), as_text(record.get("content")), record.get("source")
        node = Node(f"#{line}", None, [], parse_time(record.get("created_at")))
        if changed := MODEL.search(words) if by == "USER_EXPLICIT" else None:
            model = changed[1].strip()
        calls = as_rows(record.get("tool_calls"))
        if by == "USER_EXPLICIT" and words:
            node.messages, open_ = [NodeMessage("user", words)], []
        elif kind == "CHECKPOINT":
            node.messages = [NodeMessage("user", words, "summary", "summary")] if words else []
            node.cut = Cut("truncated: the earlier steps are not sent any more", [], node.id)
        elif by == "MODEL" and (calls or kind in ("PLANNER_RESPONSE", "GENERATE_RESPONSE")):
            blocks = [*make_thinking(as_text(record.get("thinking"))), *make_text(words)]
            for call in calls:
                number += 1
                open_.append(f"call {number}")
                blocks.append(_convert_call(call, open_[-1], escaped))
            node.messages = [NodeMessage("assistant" if blocks else "", blocks, request={"model": model})]
        elif by == "MODEL" and open_:
            failed = record.get("status") == "ERROR"
            node.messages = [NodeMessage("user", [make_result(open_.pop(0), words, failed)], "tool")]
        elif words:
            node.messages = [NodeMessage("user", words, "meta")]
        elif kind != "CONVERSATION_HISTORY":  # a mark without content at the start of a turn
            passed.add(f"step {kind}", record, line)
        nodes.append(node)
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _convert_call(call: Value, id: str, escaped: bool) -> JSON:
    arguments: Any = call.get("args")
    if escaped and isinstance(arguments, Mapping):
        arguments = {key: parse_if_json(value) if isinstance(value, str) else value for key, value in arguments.items()}
    return make_call(id, as_text(call.get("name")), arguments)


IMPORTER = Importer(
    NAME,
    "Antigravity transcript (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="steps with `step_index`, `source` and `type`",
    right="calls with the results behind them; thoughts; truncations",
    sample=False,
)
