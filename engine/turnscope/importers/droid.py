"""Factory droid sessions: JSON lines under `~/.factory/sessions`, Anthropic's messages chained by `parentId`.

Blocks of one answer may stand on lines of their own: answers that follow each other without a result between them are one.
No usage is stored on a line.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.messages import convert_message
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, iter_objects
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "droid"
ABOUT = ("cwd", "owner", "version", "sessionTitle")


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    begun = any(row.get("type") == "session_start" and "id" in row for row in rows[:5])
    return 90 if begun and any(row.get("type") == "message" and "message" in row for row in rows) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".factory" / "sessions", "**/*.jsonl")


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    nodes: dict[str, Node] = {}
    joined: dict[str, str] = {}  # a line whose content stands on an earlier one
    before: float | None = None
    for record, line in iter_objects(source.iter_records(), builder, passed):
        id, up, at = (
            as_text(record.get("id")) or f"#{line}",
            as_text(record.get("parentId")),
            parse_time(record.get("timestamp")),
        )
        if record.get("type") == "session_start":
            builder.about |= {key: record[key] for key in ABOUT if record.get(key)}
            builder.title = as_text(record.get("title")) or as_text(record.get("sessionTitle"))
            continue
        message = as_mapping(record.get("message"))
        role, blocks = convert_message(message) if record.get("type") == "message" else ("", [])
        if not role:
            passed.add(record.get("type"), record, line)
            continue
        up = joined.get(up, up)
        above = nodes.get(up)
        if role == "assistant" and above and above.messages and above.messages[0].role == "assistant":
            above.messages[0].content = [*above.messages[0].content, *blocks]
            joined[id] = up
            continue
        results = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
        request = {"model": as_text(message.get("model")), "sent_at": before} if role == "assistant" else None
        new = NodeMessage(role, blocks, "tool" if results else "", request=request)
        nodes[id] = Node(id, up if up in nodes else "" if not nodes else None, [new], at)
        before = at
    passed.add_notes(builder)
    return build_thread(builder, nodes.values())


IMPORTER = Importer(
    NAME,
    "Factory droid session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="`session_start` before records of type `message`",
    right="an answer's blocks of several lines as one; branches",
)
