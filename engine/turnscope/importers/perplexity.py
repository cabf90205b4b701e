"""Perplexity: a thread as its server answers it (`entries` with `query_str` and `blocks`), or `threads` with messages.

An entry is a prompt and its answer; the searches of its plan are calls of a server's tool with what they found. Usage is not
known. From the schema; no real sample was at hand. Longer than a mapping for the two forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "perplexity"
LIST = "threads"
SHOWN = ("related_queries", "answer_modes")  # of a block's use: what the page offers next
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    first = peek_first(source, LIST) if source.kind == "file" else {}
    entries, messages = as_rows(first.get("entries")), as_rows(first.get("messages"))
    if entries and all("query_str" in entry for entry in entries[:3]):
        return 90
    listed = isinstance(as_mapping(source.document).get(LIST), list) if source.kind == "file" else False
    cited = first.keys() & {"thread_id", "thread_title", "citations"} or any(
        row.keys() & {"citations", "search_results"} for row in messages[:10]
    )
    return 60 if listed and messages and cited and all("role" in row and "content" in row for row in messages[:3]) else 0


def _describe(thread: Value) -> Entry:
    entries = as_rows(thread.get("entries"))
    title = as_text(thread.get("title")) or as_text((entries or [{}])[0].get("thread_title"))
    id = as_text(thread.get("thread_id")) or as_text((entries or [{}])[0].get("context_uuid"))
    return Entry(id, title, parse_time(thread.get("updated_at") or thread.get("created_at")))


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _describe, LIST)


def read(source: Source, entry: Entry) -> Thread:
    thread = as_mapping(get_conversation(source, entry, LIST))
    known = _describe(thread)
    builder, passed = Builder(entry.id or known.id or source.path.stem, NAME, known.title), SkippedRecords()
    nodes: list[Node] = []
    for number, row in enumerate(as_rows(thread.get("entries"))):
        at = parse_time(row.get("entry_updated_datetime") or row.get("updated_datetime"))
        nodes.append(Node(as_text(row.get("uuid")) or f"#{number}", None, list(_convert_entry(row, at, passed)), at))
    for number, row in enumerate(as_rows(thread.get("messages"))):
        role, text = row.get("role"), as_text(row.get("content"))
        for key in ("citations", "search_results"):
            if row.get(key):
                passed.add(key, row[key])
        request = {"model": as_text(thread.get("model"))} if role == "assistant" else None
        if role in ("user", "assistant"):
            node = NodeMessage(str(role), make_text(text), request=request)
            nodes.append(Node(f"m{number}", None, [node], parse_time(row.get("created_at"))))
        else:
            passed.add(f"message of role {role}", row)
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _convert_entry(row: Value, at: float | None, passed: SkippedRecords) -> Iterator[NodeMessage]:
    yield NodeMessage("user", make_text(as_text(row.get("query_str"))))
    request: dict[str, Any] = {"model": as_text(row.get("display_model")) or as_text(row.get("user_selected_model"))}
    request["answered_at"] = at
    texts: dict[str, None] = {}
    calls: list[JSON] = []
    for block in as_rows(row.get("blocks")):
        use = as_text(block.get("intended_usage"))
        markdown, plan = as_mapping(block.get("markdown_block")), as_mapping(block.get("plan_block"))
        if markdown:  # the same answer stands in several blocks
            chunks = markdown.get("chunks")
            texts[as_text(markdown.get("answer")) or "".join(map(as_text, chunks if isinstance(chunks, list) else []))] = None
        elif plan:
            calls += _convert_steps(as_rows(plan.get("steps")), as_text(row.get("uuid")), passed)
        elif use not in SHOWN:
            passed.add(f"block {use or 'without a name'}", block)
    stored = as_mapping(parse_if_json(as_text(row.get("text"))))
    texts = texts or {as_text(stored.get("answer")) or as_text(row.get("answer")): None}
    blocks = [*calls, *(block for text in texts for block in make_text(text))]
    yield NodeMessage("assistant" if blocks else "", blocks, request=request)


def _convert_steps(steps: list[Value], entry: str, passed: SkippedRecords) -> Iterator[JSON]:
    """A search is a call of a tool that ran at the server; what it found stands in the step after it."""
    open_ = ""
    for number, step in enumerate(steps):
        search, found = as_mapping(step.get("search_web_content")), as_mapping(step.get("web_results_content"))
        if search:
            open_ = as_text(step.get("uuid")) or f"{entry} {number}"
            yield make_call(open_, "search_web", {"queries": search.get("queries")}, "server_tool_use")
        elif found and open_:
            yield {**make_result(open_, found.get("web_results")), "type": "web_search_tool_result"}
            open_ = ""
        elif not step.get("initial_query_content") and not step.get("terminate_content"):
            passed.add(f"step {step.get('step_type')}", step)


IMPORTER = Importer(
    NAME,
    "Perplexity thread (JSON)",
    sniff,
    read,
    list_entries,
    suffixes=(".json",),
    wants="`entries` with `query_str`",
    right="each entry a prompt and its answer; searches with what they found",
    sample=False,
)
