"""Grok's data export (`prod-grok-backend.json`): conversations whose responses name their parents. From the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, when
from turnscope.reading.leaves import newest
from turnscope.reading.listing import conversation, first, listed
from turnscope.reading.nodes import Node, Passed, Said, thread
from turnscope.reading.parts import joined, mapping, rows, with_thoughts
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "grok"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    found = first(source) if source.kind == "file" else {}
    return 95 if isinstance(found.get("conversation"), dict) and isinstance(found.get("responses"), list) else 0


def entries(source: Source) -> Iterator[Entry]:
    return listed(source, _make_entry)


def _make_entry(value: Value) -> Entry:
    held = mapping(value.get("conversation"))
    return Entry(
        as_text(held.get("id")), as_text(held.get("title")), _parse_date(held.get("modify_time") or held.get("create_time"))
    )


def _parse_date(value: Any) -> float | None:
    """Seconds of a time as text, or as a Mongo database writes it."""
    held = mapping(value).get("$date", value)
    number = mapping(held).get("$numberLong", held)
    return when(int(number)) if isinstance(number, str) and number.isdecimal() and len(number) < 16 else when(number)


def read(source: Source, entry: Entry) -> Thread:
    value = conversation(source, entry)
    builder, passed = Builder(entry.id or source.path.stem, NAME, entry.title), Passed()
    stored = [mapping(row.get("response") or row) for row in rows(value.get("responses"))]
    times = {as_text(row.get("_id")): _parse_date(row.get("create_time")) for row in stored}
    nodes = [_make_node(row, times, passed) for row in stored]
    passed.tell(builder)
    return thread(builder, nodes, newest(nodes))


def _make_node(row: Value, times: Mapping[str, float | None], passed: Passed) -> Node:
    above, sender = as_text(row.get("parent_response_id")), as_text(row.get("sender")).lower()
    blocks = joined(with_thoughts(as_text(row.get("message"))))
    node = Node(
        as_text(row.get("_id")), above if "parent_response_id" in row else None, [], _parse_date(row.get("create_time"))
    )
    if sender == "human":
        node.said = [Said("user", blocks)]
    elif sender in ("assistant", "ai"):
        node.said = [Said("assistant", blocks, request={"model": as_text(row.get("model")), "sent_at": times.get(above)})]
    else:
        passed.add(f"response of {sender or 'nobody'}", row)
    return node


IMPORTER = Importer(
    NAME,
    "Grok export (prod-grok-backend.json)",
    sniff,
    read,
    entries,
    suffixes=(".json",),
    wants="conversation with its `responses`",
    right="the tree with its branches",
    sample=False,
)
