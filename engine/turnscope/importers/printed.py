"""What agents print while they work: Claude Code and Gemini CLI with `--output-format stream-json`, `codex exec --json`.

Claude Code prints whole messages, an answer block by block under one id, without the first prompt; Gemini CLI prints texts in
pieces, and calls and results apart from them; Codex prints items as they end, and what each turn took, without any prompt.
Longer than a mapping for three tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, make_call, make_result, make_text, make_thinking, make_usage
from turnscope.reading.nodes import SkippedRecords, iter_objects, make_title
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usage, parse_usd

NAME = "printed"
Event = Mapping[str, Any]


def sniff(source: Source) -> int:
    events = [as_mapping(event) for event in source.first] if source.kind == "file" else []
    claude = any(event.get("type") in ("user", "assistant") and _is_claude(event) for event in events)
    gemini = any(event.get("type") == "init" and {"session_id", "model"} <= event.keys() for event in events[:5])
    codex = any(event.get("type") == "thread.started" and "thread_id" in event for event in events[:5])
    items = any(event.get("type") == "item.completed" and isinstance(event.get("item"), dict) for event in events)
    return 80 if claude or gemini or codex or items else 0


def _is_claude(event: Event) -> bool:
    return isinstance(event.get("message"), dict) and "session_id" in event and "parentUuid" not in event


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    about: dict[str, Any] = {}
    before: float | None = None
    begun: dict[str, tuple[Event, int]] = {}  # items of Codex that have not ended
    for event, line in iter_objects(source.iter_records(), builder, passed):
        kind, at = event.get("type"), parse_time(event.get("timestamp"))
        if kind == "init" or (kind == "system" and event.get("subtype") == "init"):
            about = {key: event[key] for key in ("session_id", "model", "cwd", "permissionMode", "tools") if event.get(key)}
        elif kind in ("user", "assistant") and isinstance(event.get("message"), dict) and not event.get("parent_tool_use_id"):
            _read_claude(builder, kind, event["message"], f"line {line}")
        elif kind in ("message", "tool_use", "tool_result"):
            _read_gemini(builder, event, as_text(about.get("model")), before, at)
        elif kind == "result":
            _add_run_usage(builder, event, line)
        elif isinstance(kind, str) and kind.startswith(("thread.", "turn.", "item.", "error")):
            _read_codex(builder, event, line, passed)
            _track_item(event, line, begun)
        else:
            passed.add("message of a subagent" if event.get("parent_tool_use_id") else kind, event, line)
        before = at or before
    for item, line in begun.values():
        _add_codex_item(builder, item, line, passed, ended=False)
    if begun:
        builder.add_note("info", 0, f"{len(begun)} items had not ended when the print stopped: they stand at the end")
    builder.id = as_text(about.get("session_id")) or builder.id
    builder.about |= about
    builder.title = make_title(builder)
    passed.add_notes(builder)
    return Thread(builder.build())


def _read_claude(builder: Builder, role: str, message: Event, line: str) -> None:
    content = message.get("content")
    blocks = content if isinstance(content, (str, list)) else ""
    if role == "user":
        builder.add_message("user", blocks)
        return
    id = as_text(message.get("id")) or line
    draft = builder.add_message("assistant", blocks, id=id)
    stop = as_text(message.get("stop_reason")) or None
    builder.set_request(
        draft, id=id, model=as_text(message.get("model")), usage=parse_usage(message.get("usage")), stop_reason=stop
    )


def _read_gemini(builder: Builder, event: Event, model: str, before: float | None, at: float | None) -> None:
    """A piece of a text, a call or a result. Pieces and calls without a result between them are one answer."""
    id, last = as_text(event.get("tool_id")), builder.drafts[-1] if builder.drafts else None
    if event["type"] == "tool_result":
        failed = event.get("status") == "error"
        output = event.get("output") or as_mapping(event.get("error")).get("message")
        builder.add_message("user", [make_result(id, output, failed)], origin="tool", sent_at=at)
    elif event["type"] == "message" and event.get("role") != "assistant":
        builder.add_message("user", as_text(event.get("content")), sent_at=at)
    else:
        use = event["type"] == "tool_use"
        reported = as_text(event.get("content"))
        if last is None or last.role != "assistant":
            last = builder.add_message("assistant", [], id=f"answer {len(builder.drafts)}", sent_at=at)
            builder.set_request(last, model=model, sent_at=before, answered_at=at)
        elif not use and last.parts and as_mapping(last.parts[-1][0]).get("type") == "text":
            reported = as_mapping(last.parts.pop()[0])["text"] + reported
        blocks = [make_call(id, as_text(event.get("tool_name")), event.get("parameters"))] if use else make_text(reported)
        builder.add_message("assistant", blocks, id=last.id)


def _read_codex(builder: Builder, event: Event, line: int, passed: SkippedRecords) -> None:
    """An item that ended, or a turn: it reports what all of its requests took, so they are counted as one request."""
    item, kind = as_mapping(event.get("item")), event.get("type")
    if kind == "thread.started":
        builder.about["thread_id"] = as_text(event.get("thread_id"))
        builder.id = as_text(event.get("thread_id")) or builder.id
    elif kind == "item.completed":
        _add_codex_item(builder, item, line, passed)
    elif kind == "turn.completed":
        used = as_mapping(event.get("usage"))
        took = make_usage(used.get("input_tokens"), used.get("output_tokens"), used.get("cached_input_tokens"))
        last = next((draft for draft in reversed(builder.drafts) if draft.request), None)
        turn = [draft for draft in builder.drafts if draft.request and draft.request.usage is None]
        if last is not None and len(turn) == 1:
            builder.set_request(last, usage=took)
        elif took:
            builder.add_note("info", line, f"the turn took {_describe_usage(took)} over all of its requests")
    elif kind in ("turn.failed", "error"):
        what = as_text(as_mapping(event.get("error")).get("message")) or as_text(event.get("message"))
        builder.add_note("warning", line, f"the turn failed: {what}"[:300])
    elif kind not in ("turn.started", "item.started", "item.updated"):
        passed.add(kind, event, line)


def _track_item(event: Event, line: int, begun: dict[str, tuple[Event, int]]) -> None:
    """Keep the newest state of an item until it ends."""
    item = as_mapping(event.get("item"))
    id = as_text(item.get("id"))
    if event.get("type") == "item.completed":
        begun.pop(id, None)
    elif item and id:
        begun[id] = item, line


def _add_codex_item(builder: Builder, item: Event, line: int, passed: SkippedRecords, *, ended: bool = True) -> None:
    """Items until the next result are one answer. One that has not ended has no result."""
    id = as_text(item.get("id"))
    match item.get("type"):
        case "reasoning":
            blocks, result = make_thinking(as_text(item.get("text"))), None
        case "agent_message":
            blocks, result = make_text(as_text(item.get("text"))), None
        case "command_execution":
            blocks = [make_call(id, "shell", {"command": item.get("command")})]
            result = make_result(id, item.get("aggregated_output"), item.get("exit_code") not in (0, None))
        case "mcp_tool_call":
            blocks = [make_call(id, as_text(item.get("tool")), item.get("arguments"))]
            failed = as_mapping(item.get("error")).get("message")
            result = make_result(id, failed or as_mapping(item.get("result")).get("content"), bool(failed))
        case "file_change" | "web_search" | "todo_list" as kind:
            fields = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
            blocks, result = [make_call(id, kind, fields)], make_result(id, as_text(item.get("status")) or "done")
        case kind:
            passed.add(f"item {kind}", item, line)
            return
    last = builder.drafts[-1] if builder.drafts else None
    if last is None or last.role != "assistant":
        last = builder.add_message("assistant", [], id=f"answer {len(builder.drafts)}")
        builder.set_request(last)
    builder.add_message("assistant", blocks, id=last.id)
    if result is not None and ended:
        builder.add_message("user", [result], origin="tool")


def _add_run_usage(builder: Builder, event: Event, line: int) -> None:
    """What the whole run took: its one request's usage, or a note."""
    stats, requests = as_mapping(event.get("stats")), [draft.request for draft in builder.drafts if draft.request]
    if cost := parse_usd(event.get("total_cost_usd")):
        builder.about["run_usd"] = cost
    took = make_usage(stats.get("input_tokens"), stats.get("output_tokens"), stats.get("cached"))
    if took and len(requests) == 1 and not requests[0].usage:
        draft = next(draft for draft in builder.drafts if draft.request)
        builder.set_request(draft, model=requests[0].model, usage=took, sent_at=requests[0].sent_at)
    elif took:
        builder.add_note("info", line, f"the run took {_describe_usage(took)}")
    if event.get("is_error") is True or event.get("status") == "error":
        builder.add_note(
            "warning", line, f"the run failed: {as_text(event.get('result')) or as_text(event.get('subtype'))}"[:300]
        )


def _describe_usage(took: Usage) -> str:
    cached = f" ({took.cache_read_input_tokens:,} of them cached)" if took.cache_read_input_tokens else ""
    return f"{took.prompt_tokens:,} tokens of prompts{cached} and {took.output_tokens:,} of answers"


IMPORTER = Importer(
    NAME,
    "What an agent prints (stream-json of Claude Code, Gemini CLI; codex exec --json)",
    sniff,
    read,
    wants="events with a `session_id` and messages",
    right="fragments of an answer merged, each with its usage",
)
