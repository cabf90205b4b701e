"""Gemini CLI sessions: `~/.gemini/tmp/<project>/chats/session-*`, one JSON object, or JSON lines with patches; and what
`/chat save` keeps beside them: the contents as they are sent, without times, models and usage.

A line with an id seen before replaces that message where it stands; `$set.messages` replaces the history that is sent (masked
tool outputs, a compression); `$rewindTo` leaves a branch. Prompt, tools and window are not stored.
Longer than a mapping for the patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    join_blocks,
    make_call,
    make_result,
    make_text,
    make_thinking,
    make_usage,
)
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Part
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "gemini-cli"
Record = Mapping[str, Any]


def sniff(source: Source) -> int:
    first = source.document if source.document is not None else next(iter(source.first), None)
    if isinstance(first, dict) and {"sessionId", "projectHash"} <= first.keys():
        whole = sum("projectHash" in row and isinstance(row.get("messages"), list) for row in map(as_mapping, source.first))
        return 95 if whole < 2 else 0  # a whole session on each line: each is one
    head = _read_checkpoint(source)[:20]
    return 85 if head and all(isinstance(row, dict) and _is_content(row) for row in head) else 0


def _is_content(row: Record) -> bool:
    return row.get("role") in ("user", "model") and isinstance(row.get("parts"), list)


def _read_checkpoint(source: Source) -> Sequence[Any]:
    """The contents of a checkpoint: a list, or an object's history."""
    document = source.document if source.kind == "file" else None
    held = document.get("history") if isinstance(document, dict) else document
    return held if isinstance(held, list) else ()


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".gemini" / "tmp", "*/chats/**/*.json*")
    yield Place(machine.home / ".gemini" / "tmp", "*/checkpoint-*.json")


class _Chat:
    """Messages by id, the newest version of each, and the nodes that they make. `path`: what stands after rewinds."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.rows: dict[str, Record] = {}
        self.nodes: dict[str, Node] = {}
        self.path: list[str] = []

    def add_line(self, record: Record, line: int) -> None:
        if "$rewindTo" in record:
            id = record["$rewindTo"]
            self.path = self.path[: self.path.index(id)] if id in self.path else []
        elif isinstance(record.get("$set"), Mapping):
            self._read_meta(record["$set"])
            if isinstance(record["$set"].get("messages"), list):
                self._replace_history([m for m in record["$set"]["messages"] if isinstance(m, Mapping)], line)
        elif "type" in record:
            self._add_message(record, line)
        else:
            self._read_meta(record)
            held = record.get("messages")
            for message in held if isinstance(held, list) else ():
                if isinstance(message, Mapping):
                    self._add_message(message, line)
                else:
                    self.passed.add(type(message).__name__, message, line)

    def _read_meta(self, record: Record) -> None:
        self.builder.title = as_text(record.get("summary")) or self.builder.title
        self.builder.about |= {
            key: record[key] for key in ("sessionId", "projectHash", "kind", "directories") if record.get(key)
        }

    def _add_message(self, record: Record, line: int, cut: Cut | None = None) -> None:
        if record.get("type") not in ("user", "gemini"):
            self.passed.add(record.get("type"), record, line)
            return
        id = as_text(record.get("id")) or f"#{len(self.nodes)}"
        if id not in self.path:
            key = id if id not in self.nodes else f"{id}#{len(self.nodes)}"
            self.nodes[key] = Node(key, self.path[-1] if self.path else "", [], parse_time(record.get("timestamp")), cut)
            self.path.append(key)
            self.rows[key] = record
        else:
            self.rows[id] = record

    def _replace_history(self, messages: list[Record], line: int) -> None:
        """The history that is sent from here on: what stands as it was, what is masked, and what is new behind it."""
        known = {n for n, m in enumerate(messages) if m.get("id") in self.path}
        new = max(known) + 1 if known else 0
        keep: list[str | tuple[Part, ...]] = []
        for message in messages[:new]:
            id = message.get("id")
            same = id in self.path and _make_key(message) == _make_key(self.rows[str(id)])
            keep += [str(id)] if same else [make_message_parts(s.role, s.content) for s in _make_messages(message, None)]
        cut = Cut("the history was replaced by a shorter one", keep) if keep != self.path else None
        for number, message in enumerate(messages[new:]):
            self._add_message(message, line, None if number else cut)
        if cut and len(messages) == new:
            self.nodes[f"${line}"] = Node(f"${line}", self.path[-1] if self.path else "", [], None, cut)
            self.path.append(f"${line}")

    def build_nodes(self) -> Iterator[Node]:
        """The nodes with what the newest version of each says."""
        before: float | None = None
        for id, node in self.nodes.items():
            if id in self.rows:
                node.messages = _make_messages(self.rows[id], before)
                before = node.messages[-1].at or node.at
            yield node


def _make_key(record: Record) -> Any:
    return [(said.role, said.content) for said in _make_messages(record, None)]


def _make_messages(record: Record, before: float | None) -> list[NodeMessage]:
    """A record as messages: of an answer with calls, also their results."""
    content = record.get("content")
    blocks = [block for part in (content if isinstance(content, list) else [content]) for block in _convert_part(part)]
    if record.get("type") != "gemini":
        results = [block for block in blocks if block.get("type") == "tool_result"]
        return [
            NodeMessage(
                "user", blocks if results else join_blocks(blocks), "tool" if results and len(results) == len(blocks) else ""
            )
        ]
    held = {block.get("type") for block in blocks}
    calls = (
        [c for c in record.get("toolCalls") or () if isinstance(c, Mapping)]
        if isinstance(record.get("toolCalls"), list)
        else []
    )
    if "tool_use" not in held and "thinking" not in held:
        reported = record.get("thoughts")
        thoughts = [t for t in reported if isinstance(t, Mapping)] if isinstance(reported, list) else []
        ahead = [
            b
            for t in thoughts
            for b in make_thinking("\n".join(filter(None, (as_text(t.get(k)) for k in ("subject", "description")))))
        ]
        blocks = [*ahead, *blocks, *(make_call(as_text(c.get("id")), as_text(c.get("name")), c.get("args")) for c in calls)]
    number = {key: value if isinstance(value, int) else 0 for key, value in as_mapping(record.get("tokens")).items()}
    usage = make_usage(
        number.get("input", 0) + number.get("tool", 0),
        number.get("output", 0) + number.get("thoughts", 0),
        number.get("cached", 0),
    )
    said = [
        NodeMessage("assistant", blocks, request={"model": as_text(record.get("model")), "usage": usage, "sent_at": before})
    ]
    answers = [_make_tool_result(c) for c in calls if c.get("result") is not None]
    if answers:
        said.append(
            NodeMessage(
                "user", answers, "tool", at=max(filter(None, (parse_time(c.get("timestamp")) for c in calls)), default=None)
            )
        )
    return said


def _make_tool_result(tool: Record) -> JSON:
    found = [
        block
        for part in (tool["result"] if isinstance(tool["result"], list) else [tool["result"]])
        for block in _convert_part(part)
    ]
    answers = [
        extract_text(block.get("content")) if block.get("type") == "tool_result" else extract_text(block) for block in found
    ]
    media = [block for block in found if block.get("type") in ("image", "document")]
    whole = "\n".join(filter(None, answers))
    return make_result(as_text(tool.get("id")), [*make_text(whole), *media] if media else whole, tool.get("status") == "error")


def _convert_part(row: Any) -> list[Any]:
    """A part of Gemini's API as blocks."""
    if isinstance(row, str):
        return make_text(row)
    if not isinstance(row, Mapping):
        return []
    if isinstance(row.get("text"), str):
        return make_thinking(row["text"]) if row.get("thought") is True else make_text(row["text"])
    for key in ("functionCall", "functionResponse"):
        held = row.get(key)
        if isinstance(held, Mapping):
            id = as_text(held.get("id")) or as_text(held.get("name"))
            if key == "functionCall":
                return [make_call(id, as_text(held.get("name")), held.get("args"))]
            given = held.get("response")
            output = given.get("output", given.get("error")) if isinstance(given, Mapping) else given
            return [make_result(id, output if isinstance(output, str) else given)]
    data = row.get("inlineData")
    if isinstance(data, Mapping):
        kind = as_text(data.get("mimeType"))
        source = {"type": "base64", "media_type": kind, "data": as_text(data.get("data"))}
        return [{"type": "image" if kind.startswith("image/") else "document", "source": source}]
    return [{"type": "unknown", **row}]


def read(source: Source, _entry: Entry) -> Thread:
    chat = _Chat(Builder(source.path.stem, NAME))
    for content in (row for row in _read_checkpoint(source) if isinstance(row, dict) and _is_content(row)):
        chat.add_line({"type": "gemini" if content["role"] == "model" else "user", "content": content["parts"]}, 0)
    for record, line in iter_objects(() if chat.path else source.iter_values(), chat.builder, chat.passed):
        chat.add_line(record, line)
    chat.passed.add_notes(chat.builder)
    return build_thread(chat.builder, chat.build_nodes(), chat.path[-1] if chat.path else "")


IMPORTER = Importer(
    NAME,
    "Gemini CLI session (JSON or JSON lines)",
    sniff,
    read,
    finds=find_places,
    wants="`sessionId` with a `projectHash`, and no list of contents",
    right="JSON, and JSON lines with their patches: masked outputs, compressions, rewinds as branches",
)
