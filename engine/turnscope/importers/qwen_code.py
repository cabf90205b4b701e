"""Qwen Code sessions: JSON lines under `~/.qwen/projects/<folder>/chats`, with Claude Code's frame and Google's contents.

Records are chained by `uuid` and `parentUuid`, and `message` holds `parts`. A `chat_compression` holds the history that is sent
from there on; what was being sent while it was made follows behind it. System prompt, tools and the first message about date
and folder are not stored. Longer than a mapping for the compressions and the requests that have no answer in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_google_part, join_blocks, make_usage
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.recorded_body import find_common
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Part, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count
from turnscope.settings import Machine

NAME = "qwen-code"
ABOUT = ("sessionId", "version", "cwd", "gitBranch")
RESPONSE = "qwen-code.api_response"  # telemetry of an answered request, whoever sent it
Record = Mapping[str, Any]


def sniff(source: Source) -> int:
    rows = [as_mapping(row) for row in source.first] if source.kind == "file" else []
    framed = [row for row in rows if {"uuid", "sessionId", "type"} <= row.keys()]
    spoken = any(isinstance(as_mapping(row.get("message")).get("parts"), list) for row in framed)
    return 95 if spoken else 90 if any("systemPayload" in row for row in framed) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    given = machine.variables.get("QWEN_RUNTIME_DIR") or machine.variables.get("QWEN_HOME")
    yield Place((Path(given) if given else machine.home / ".qwen") / "projects", "*/chats/*.jsonl")


class _Chat:
    """The nodes of a session while its lines are read. `above`: the node that each one follows."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.passed = builder, SkippedRecords()
        self.nodes: dict[str, Node] = {}
        self.before: float | None = None  # when the newest message was said
        self.pending: list[tuple[int, int]] = []  # prompt and output tokens of requests whose answer did not come yet

    def add_line(self, record: Record, line: int) -> None:
        self.builder.about = {**{key: record[key] for key in ABOUT if record.get(key)}, **self.builder.about}
        id, at = as_text(record.get("uuid")) or f"#{line}", parse_time(record.get("timestamp"))
        payload = as_mapping(record.get("systemPayload"))
        node = Node(id, as_text(record.get("parentUuid")), self._make_messages(record, at), at)
        match record.get("subtype"):
            case "chat_compression":
                node.cut = self._make_cut(node, payload)
            case "ui_telemetry":
                self._read_event(as_mapping(payload.get("uiEvent")))
            case "custom_title":
                self.builder.title = as_text(payload.get("customTitle")) or self.builder.title
            case kind if not node.messages:
                self.passed.add(kind or record.get("type"), record, line)
        self.before = at if node.messages else self.before
        self.nodes.setdefault(id, node)

    def _make_messages(self, record: Record, at: float | None) -> list[NodeMessage]:
        parts = as_mapping(record.get("message")).get("parts")
        blocks = [block for part in parts for block in convert_google_part(part)] if isinstance(parts, list) else []
        match record.get("type"):
            case "assistant":
                return [NodeMessage("assistant" if blocks else "", blocks, request=self._make_request(record, at))]
            case "tool_result" if blocks:
                return [NodeMessage("user", _mark_failed(blocks, record), "tool")]
            case "user" if blocks:
                return [NodeMessage("user", join_blocks(blocks), "meta" if record.get("subtype") else "")]
        return []

    def _make_request(self, record: Record, at: float | None) -> dict[str, Any]:
        window = record.get("contextWindowSize")
        if isinstance(window, int) and not isinstance(window, bool) and window > 0:
            self.builder.window = window
        used = as_mapping(record.get("usageMetadata"))
        reported = used.get("promptTokenCount") or 0, used.get("candidatesTokenCount") or 0
        if reported in self.pending:
            self.pending.remove(reported)
        usage = _convert_usage(used)
        return {"model": as_text(record.get("model")), "usage": usage, "sent_at": self.before, "answered_at": at}

    def _read_event(self, event: Record) -> None:
        """Requests are told before their answers; those that are still without one in the end were sent beside the chat."""
        prompt, output = event.get("input_token_count"), event.get("output_token_count")
        if event.get("event.name") == RESPONSE and isinstance(prompt, int) and isinstance(output, int):
            self.pending.append((prompt, output))

    def _make_cut(self, node: Node, payload: Record) -> Cut:
        """What the history is from here on: the messages that it holds, and those that were being sent behind it.

        The tool may write it late, with answers in it that came afterwards: what stands behind the newest message is left out.
        """
        path = self._find_path(node.parent or "")
        mine = [(said.role, dumps(_list_blocks(said.content))) for _, said in path]
        held = [message for content in as_rows(payload.get("compressedHistory")) for message in _convert_content(content)]
        same = {y: x for x, y in find_common(mine, [(role, dumps(blocks)) for role, blocks in held])}
        held = held[: next((y + 1 for y, x in same.items() if x == len(path) - 1), None)]
        keep: list[str | tuple[Part, ...]] = [
            path[same[n]][0] if n in same else make_message_parts(role, blocks) for n, (role, blocks) in enumerate(held)
        ]
        last = max((n for n, (_, said) in enumerate(path) if said.role != "user"), default=-1)
        keep += [id for n, (id, _) in enumerate(path) if n > last and n not in same.values()]
        before = as_mapping(payload.get("info")).get("originalTokenCount")
        return Cut("compacted into a summary", keep, facts={"preTokens": before} if isinstance(before, int) else {})

    def _find_path(self, leaf: str) -> list[tuple[str, NodeMessage]]:
        """The messages from the beginning to a node, each with the node's id."""
        found: list[tuple[str, NodeMessage]] = []
        seen: set[str] = set()
        while leaf in self.nodes and leaf not in seen:
            seen.add(leaf)
            found += [(leaf, said) for said in reversed(self.nodes[leaf].messages)]
            leaf = self.nodes[leaf].parent or ""
        return found[::-1]

    def add_notes(self) -> None:
        """Say what was billed beside the conversation."""
        if self.pending:
            prompts, outputs = (sum(tokens) for tokens in zip(*self.pending, strict=True))
            what = "billed beside the conversation, for summaries and checks of the tool's own"
            self.builder.add_note("info", 0, f"{what}: {prompts:,} + {outputs:,} tokens (requests: {len(self.pending)})")
        self.passed.add_notes(self.builder)


def _list_blocks(content: Any) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


@measured
def _convert_usage(used: Record) -> Usage | None:
    """Thoughts are part of the answer with some providers, beside it with others: the total tells."""
    names = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
    prompt, answer, total = (parse_count(used.get(name), name) for name in names)
    return make_usage(prompt, max(answer, total - prompt), used.get("cachedContentTokenCount"))


def _mark_failed(blocks: list[JSON], record: Record) -> list[JSON]:
    failed = as_mapping(record.get("toolCallResult")).get("status") == "error"
    return [{**block, "is_error": True} if failed and block.get("type") == "tool_result" else block for block in blocks]


def _convert_content(content: Record) -> Iterator[tuple[str, list[JSON]]]:
    """One content of a history as the messages of the log: each tool result is one of its own there."""
    parts = content.get("parts")
    blocks = [block for part in parts for block in convert_google_part(part)] if isinstance(parts, list) else []
    if content.get("role") == "model":
        yield "assistant", blocks
    elif any(block.get("type") == "tool_result" for block in blocks):
        yield from (("user", [block]) for block in blocks)
    else:
        yield "user", blocks


def read(source: Source, _entry: Entry) -> Thread:
    chat = _Chat(Builder(source.path.stem, NAME))
    for record, line in iter_objects(source.iter_records(), chat.builder, chat.passed):
        chat.add_line(record, line)
    chat.add_notes()
    return build_thread(chat.builder, chat.nodes.values())


IMPORTER = Importer(
    NAME,
    "Qwen Code session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="record with `uuid` and `sessionId` whose message holds `parts`",
    right="compressions with the history that they left; rewinds as branches",
)
