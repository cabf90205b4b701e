"""Continue sessions: `~/.continue/sessions/<uuid>.json`, written by the IDE extensions and by the CLI.

A turn's tool calls, their states and their outputs stand on the assistant's item; stored `tool` items repeat them. Requests are
not stored; a rendered prompt (`promptLogs`) holds the system prompt where there is one. Times stand in the interaction log of
`dev_data`, the profile and the models of the workspace in `index/globalContext.json`.
Longer than a mapping because IDE and CLI keep calls and summaries in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    convert_content,
    join_blocks,
    make_call,
    make_result,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, make_message_parts
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import dumps, extract_text
from turnscope.session.model import JSON
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "continue"
MAX_LOG = 64 << 20  # bytes of a log beside a session; a larger one is not searched
SYSTEM = re.compile(r"<system>\n(.*?)\n\n<user>|<\|start_header_id\|>system<\|end_header_id\|>\n+(.*?)<\|eot_id\|>", re.DOTALL)
Item = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = source.document
    if not isinstance(document, dict) or not isinstance(document.get("history"), list) or "sessionId" not in document:
        return 0
    return 95 if any(isinstance(item, dict) and "message" in item for item in document["history"]) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    folder = machine.find_folder("CONTINUE_GLOBAL_DIR", machine.home / ".continue")
    yield Place(folder / "sessions", "*-*.json")


def read(source: Source, _entry: Entry) -> Thread:
    document = source.document
    builder = Builder(source.path.stem, NAME, as_text(document.get("title")))
    used = document.get("usage")
    builder.about |= {key: document[key] for key in ("workspaceDirectory", "mode", "chatModelTitle") if document.get(key)}
    builder.about |= {"usage": used} if isinstance(used, Mapping) else {}
    logs = [log for item in as_rows(document["history"]) for log in as_rows(item.get("promptLogs"))]
    options = as_mapping(next((log["completionOptions"] for log in reversed(logs) if log.get("completionOptions")), None))
    builder.about |= {key: options[key] for key in ("contextLength", "maxTokens", "temperature") if options.get(key)}
    window = options.get("contextLength")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    items = [item for item in document["history"] if isinstance(item, Mapping) and isinstance(item.get("message"), Mapping)]
    if odd := len(document["history"]) - len(items):
        builder.add_note("warning", 0, f"{odd} items of the history hold no message and were skipped")
    passed = SkippedRecords()
    builder.about |= _read_global_context(source, as_text(document.get("workspaceDirectory")))
    times = _AnswerTimes(source, as_text(document.get("sessionId")))
    nodes = list(_make_nodes(items, as_text(document.get("chatModelTitle")), passed, times))
    prompts = [log["prompt"] for item in items for log in as_rows(item.get("promptLogs")) if isinstance(log.get("prompt"), str)]
    if prompts:
        size = sum(map(len, prompts))
        builder.add_note(
            "info",
            0,
            f"{len(prompts)} rendered prompts ({size:,} characters) repeat the conversation; read for the system prompt",
        )
    system = next((found[1] or found[2] for prompt in prompts if (found := SYSTEM.search(prompt[:100_000]))), "")
    passed.add_notes(builder)
    return build_thread(builder, nodes, "", [NodeMessage("system", system, "system")] if system.strip() else [])


class _AnswerTimes:
    """When answers were logged: looked up by their texts, in order."""

    def __init__(self, source: Source, session: str) -> None:
        logs = source.find_siblings("../dev_data/*/chatInteraction.jsonl") if session else []
        rows = (row for log in logs if log.size <= MAX_LOG for row, _ in log.iter_records() if isinstance(row, Mapping))
        self._left = [
            (as_text(row.get("completion")).strip(), row.get("timestamp")) for row in rows if row.get("sessionId") == session
        ]

    def find(self, text: str) -> float | None:
        """Find the time of the next answer with this text, in seconds since 1970; None where none is logged."""
        at = next((n for n, (logged, _) in enumerate(self._left) if logged and logged == text.strip()), None)
        if at is None:
            return None
        found, self._left = self._left[at][1], self._left[at + 1 :]
        return parse_time(found)


def _read_global_context(source: Source, workspace: str) -> dict[str, Any]:
    """Read which profile the workspace has, and its models. Other keys, of which some hold tokens, are not read."""
    siblings = source.find_siblings("../index/globalContext.json") if workspace else []
    known = as_mapping(siblings[0].document) if siblings and siblings[0].size <= MAX_LOG else {}
    profiles = as_mapping(known.get("lastSelectedProfileForWorkspace"))
    profile = as_text(next((value for name, value in profiles.items() if workspace in name), None))
    models = as_mapping(as_mapping(known.get("selectedModelsByProfileId")).get(profile))
    chosen = {role: title for role, title in models.items() if isinstance(title, str)}
    return {"profile": profile, "selectedModels": chosen} if profile else {}


def _make_nodes(items: list[Item], model: str, passed: SkippedRecords, times: _AnswerTimes) -> Iterator[Node]:
    thoughts: list[JSON] = []
    answered: set[str] = set()
    summary: str = ""
    for number, item in enumerate(items):
        message = item["message"]
        role, content = as_text(message.get("role")), convert_content(message.get("content"))
        if role == "thinking":
            thoughts += make_thinking(
                extract_text(content), as_text(message.get("signature")) or as_text(message.get("redactedThinking"))
            )
            continue
        node = Node(str(number))
        if summary:
            node.cut, summary = (
                Cut("compacted: a summary in the system prompt replaced the history", [make_message_parts("system", summary)]),
                "",
            )
        reported = as_text(item.get("conversationSummary"))
        if reported and extract_text(content) == reported:  # the CLI's summary is a message
            node.messages = [NodeMessage(role or "assistant", reported, "summary", "summary")]
        elif role == "user":
            files = [
                {"type": "text", "text": as_text(row.get("content"))}
                for row in as_rows(item.get("contextItems"))
                if row.get("content")
            ]
            node.messages = [NodeMessage("user", join_blocks(content), files=files)]
        elif role == "assistant":
            node.messages = list(_make_answer(item, [*thoughts, *content], model, answered, times))
            thoughts = []
        elif role == "system":
            node.messages = [NodeMessage("system", join_blocks(content), "system", fence=True)]
        elif role == "tool" and as_text(message.get("toolCallId")) not in answered:
            node.messages = [
                NodeMessage("user", [make_result(as_text(message.get("toolCallId")), message.get("content"))], "tool")
            ]
        elif role != "tool":
            passed.add(role, item)
        if reported and not (node.messages and node.messages[0].kind):
            summary = reported
        yield node


def _make_answer(item: Item, content: list[JSON], model: str, answered: set[str], times: _AnswerTimes) -> Iterator[NodeMessage]:
    """An answer, and the outputs of its calls as far as they ended."""
    message, states = item["message"], as_rows(item.get("toolCallStates"))
    reasoning = item.get("reasoning")
    ahead = make_thinking(as_text(reasoning.get("text"))) if isinstance(reasoning, Mapping) else []
    if len(content) == 1 and content[0].get("type") == "text":
        content = split_thinking(content[0]["text"])
    calls = as_rows(message.get("toolCalls")) or [
        state["toolCall"] for state in states if isinstance(state.get("toolCall"), Mapping)
    ]
    uses = [_make_call(row) for row in calls]
    logs = as_rows(item.get("promptLogs"))
    named = as_text(as_mapping(logs[-1].get("completionOptions")).get("model")) if logs else ""
    used = as_mapping(message.get("usage"))
    details = as_mapping(used.get("promptTokensDetails"))
    usage = make_usage(
        used.get("promptTokens"), used.get("completionTokens"), details.get("cachedTokens"), details.get("cacheWriteTokens")
    )
    title = as_text(logs[-1].get("modelTitle")) if logs else ""
    request = {
        "model": named or title or model,
        "usage": usage,
        "answered_at": times.find(extract_text(message.get("content"))),
    }
    yield NodeMessage("assistant", [*ahead, *content, *uses], request=request)
    ended = [state for state in states if state.get("status") in ("done", "errored", "canceled") or state.get("output")]
    answered |= {as_text(state.get("toolCallId")) for state in ended}
    if ended:
        yield NodeMessage("user", [_make_output(state) for state in ended], "tool")


def _make_call(row: Item) -> JSON:
    function = as_mapping(row.get("function"))
    return make_call(as_text(row.get("id")), as_text(function.get("name")), function.get("arguments"))


def _make_output(state: Item) -> JSON:
    reported = "\n".join(as_text(row.get("content")) for row in as_rows(state.get("output")))
    failed = state.get("status") in ("errored", "canceled")
    return make_result(
        as_text(state.get("toolCallId")), reported or (dumps(state["status"]).strip('"') if failed else ""), failed
    )


IMPORTER = Importer(
    NAME,
    "Continue session (JSON)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".json",),
    wants="`sessionId` with a `history` of messages",
    right="calls and outputs of a turn in order; the system prompt from a rendered prompt, times from a log beside it",
    version=4,
)
