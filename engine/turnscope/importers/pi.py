"""pi sessions: JSON lines under `~/.pi/agent/sessions`.

Version 1 is a list whose compactions name a line; later each entry has an id and a parent, and the newest is the current leaf.
Longer than a mapping because both versions name what a compaction kept in ways of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, make_call, make_result, make_thinking
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, iter_objects, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder, observe_drop
from turnscope.session.model import JSON, ObservedEdit, Session
from turnscope.session.thread import Thread
from turnscope.session.usage import drop_empty, parse_usage, parse_usd
from turnscope.settings import Machine

NAME = "pi"
USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}
Record = Mapping[str, Any]


def sniff(source: Source) -> int:
    first = next(iter(source.first), None)
    session = isinstance(first, dict) and first.get("type") == "session" and {"id", "cwd", "timestamp"} <= first.keys()
    return 95 if session else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.home / ".pi" / "agent" / "sessions", "**/*.jsonl")


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    rows = [
        (as_text(record.get("id")) if record.get("type") != "session" else "", record, line)
        for record, line in iter_objects(source.iter_records(), builder, passed)
    ]
    above: dict[str, str] = {}
    nodes: list[Node] = []
    model, before = "", ""
    for number, (named, record, line) in enumerate(rows):
        id = named or f"#{number}"
        kind = record.get("type")
        if kind == "session":
            builder.about |= {
                key: record[key] for key in ("cwd", "version", "parentSession", "branchedFrom") if record.get(key)
            }
            model = as_text(record.get("modelId"))
        elif kind == "session_info":
            builder.title = as_text(record.get("name"))
        above[id] = as_text(record.get("parentId")) if named else before
        model = as_text(record.get("modelId")) if kind == "model_change" else model
        node = Node(id, above[id], _make_messages(record, kind, model), parse_time(record.get("timestamp")))
        if kind == "compaction":
            node.cut = _make_cut(record, id, above, [row[0] or f"#{n}" for n, row in enumerate(rows)])
        elif not node.messages and kind not in ("session", "session_info", "model_change", "thinking_level_change", "label"):
            passed.add(kind if kind != "message" else "message without a role that is known", record, line)
        nodes.append(node)
        before = id
    passed.add_notes(builder)
    return build_thread(builder, nodes, observers=[_is_cut_off])


def _is_cut_off(session: Session) -> Iterator[ObservedEdit]:
    """Calls of an answer that was aborted have no result; pi leaves them out of the next request, which would be refused."""
    for request in session.requests:
        if request.stop_reason in ("aborted", "error"):
            later = next((r.n for r in session.requests[request.n + 1 :] if r.usage), None)
            for block in session.blocks[request.cut : request.stop] if later is not None else ():
                if block.kind == "tool_use" and block.pair < 0:
                    yield observe_drop(
                        later or 0, block.at, block.at + 1, "a call without a result, of an answer that was aborted"
                    )


def _make_cut(record: Record, id: str, above: Mapping[str, str], ids: list[str]) -> Cut:
    """The summary stands before the entries from the first one that was kept on."""
    at, first = record.get("firstKeptEntryIndex"), as_text(record.get("firstKeptEntryId"))
    if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(ids):
        first = ids[at]
    kept: list[str] = []
    up = above[id]
    while up and first and up not in kept:
        kept.append(up)
        if up == first:
            break
        up = above.get(up, "")
    kept = kept[::-1] if kept and kept[-1] == first else []
    facts = {"preTokens": record["tokensBefore"]} if isinstance(record.get("tokensBefore"), int) else {}
    summary = make_message_parts("user", [{"type": "text", "text": as_text(record.get("summary"))}], "summary")
    return Cut("compacted into a summary", [summary, *kept], facts=facts)


def _make_messages(record: Record, kind: Any, model: str) -> list[NodeMessage]:
    message = record.get("message") if kind == "message" else record
    if not isinstance(message, Mapping):
        return []
    role = {"custom_message": "custom", "branch_summary": "branchSummary"}.get(str(kind), as_text(message.get("role")))
    at, content = parse_time(message.get("timestamp")), message.get("content")
    blocks = (
        [_convert_block(part) for part in content] if isinstance(content, list) else content if isinstance(content, str) else []
    )
    match role:
        case "user":
            return [NodeMessage("user", blocks, at=at)]
        case "assistant":
            answer = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            ended = parse_time(record.get("timestamp"))
            return [NodeMessage("assistant" if answer else "", answer, request=_make_request(message, model, at, ended))]
        case "toolResult":
            failed = message.get("isError") is True
            return [NodeMessage("user", [make_result(as_text(message.get("toolCallId")), blocks, failed)], "tool", at=at)]
        case "bashExecution":
            reported = f"Ran `{as_text(message.get('command'))}`\n{as_text(message.get('output'))}"
            return [] if message.get("excludeFromContext") else [NodeMessage("user", reported, "meta", at=at)]
        case "custom" | "hookMessage":
            return [NodeMessage("user", blocks, "meta", at=at)]
        case "branchSummary":
            return [NodeMessage("user", as_text(message.get("summary")), "summary", "summary", at=at)]
    return []


def _make_request(message: Record, model: str, at: float | None, ended: float | None) -> dict[str, Any]:
    usage = as_mapping(message.get("usage"))
    cost = usage.get("cost")
    return {
        "model": as_text(message.get("model")) or model,
        "usage": drop_empty(parse_usage({name: usage.get(key) for key, name in USAGE.items()})),
        "logged_usd": parse_usd(cost.get("total")) if isinstance(cost, Mapping) else None,
        "stop_reason": as_text(message.get("stopReason")) or None,
        "sent_at": at,
        "answered_at": ended,
    }


def _convert_block(part: Any) -> JSON:
    if not isinstance(part, Mapping):
        return {"type": "unknown", "value": part}
    match part.get("type"):
        case "toolCall":
            return make_call(as_text(part.get("id")), as_text(part.get("name")), part.get("arguments"))
        case "thinking":
            found = make_thinking(as_text(part.get("thinking")), as_text(part.get("thinkingSignature")))
            return found[0] if found else {"type": "text", "text": ""}
        case "image" if "data" in part:
            source = {"type": "base64", "media_type": as_text(part.get("mimeType")), "data": as_text(part.get("data"))}
            return {"type": "image", "source": source}
    return part


IMPORTER = Importer(
    NAME,
    "pi session (JSON lines)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".jsonl",),
    wants="first line of type session with `id`, `cwd` and `timestamp`",
    right="compactions and what they kept; the tree with its branches",
)
