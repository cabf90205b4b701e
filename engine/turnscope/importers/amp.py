"""Amp's threads: a JSON file each, `T-….json` under `threads` (older: `threads3` of its extension in VS Code).

Messages are Anthropic's; a call's result holds its `run`. An answer has its usage, and the ledger next to the messages has
the same once more, with times and credits. The system prompt and tools are not in it. From the schema; no real sample was at
hand. Longer than a mapping for the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_result
from turnscope.reading.messages import convert_message
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import drop_empty, measured, parse_count
from turnscope.settings import Machine

NAME = "amp"
EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
NAMES = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
LEDGER = ("input", "cacheCreationInputTokens", "cacheReadInputTokens", "output")
FAILED = ("error", "cancelled", "rejected-by-user")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    document = as_mapping(source.document if source.kind == "file" else None)
    messages = as_rows(document.get("messages"))
    named = as_text(document.get("id")).startswith("T-") or {"v", "created"} <= document.keys()
    ours = document.keys() & {"usageLedger", "agentMode", "env", "nextMessageId", "v"}
    return 90 if named and ours and "created" in document and all("role" in row for row in messages) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    data = machine.variables.get("XDG_DATA_HOME")
    folder = machine.data if machine.system == "linux" and data else machine.home / ".local" / "share"
    yield Place(folder / "amp" / "threads", "T-*.json")
    for editor in EDITORS:
        yield Place(machine.config / editor / "User" / "globalStorage" / "sourcegraph.amp" / "threads3", "*.json")


@measured
def _convert_usage(counts: Value, names: tuple[str, ...]) -> Usage | None:
    """Anthropic's four numbers, whatever the place calls them."""
    fresh, made, read, answer = (parse_count(counts.get(name), name) for name in names)
    return drop_empty(Usage(fresh, made, read, answer))


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(as_text(document.get("id")) or source.path.stem, NAME), SkippedRecords()
    builder.title = as_text(document.get("title"))
    builder.about |= {key: document[key] for key in ("agentMode", "env") if document.get(key)}
    events = as_rows(as_mapping(document.get("usageLedger")).get("events"))
    ledger = {str(event["toMessageId"]): event for event in events if event.get("toMessageId") is not None}
    nodes: list[Node] = []
    for number, message in enumerate(as_rows(document.get("messages"))):
        id = message.get("messageId", message.get("dbId"))
        node = Node(f"{id} {number}", None, [], parse_time(as_mapping(message.get("meta")).get("sentAt")))
        _fill_node(node, message, ledger.pop(str(id), {}), passed)
        nodes.append(node)
    credits = sum(event.get("credits") or 0 for event in events if isinstance(event.get("credits"), (int, float)))
    if credits:
        builder.add_note("info", 0, f"the thread reports {credits:g} credits")
    if ledger:
        builder.add_note("info", 0, f"{len(ledger)} entries of the ledger belong to no message that is left: titles, summaries")
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _fill_node(node: Node, message: Value, event: Value, passed: SkippedRecords) -> None:
    role = message.get("role")
    parts = as_rows(message.get("content"))
    if role == "info":
        texts = [as_mapping(part.get("summary")) for part in parts if part.get("type") == "summary"]
        summary = "\n".join(as_text(one.get("summary")) or as_text(one.get("thread")) for one in texts)
        if not summary:
            passed.add("message of role info", message)
            return
        node.messages = [NodeMessage("user", summary, "summary", "summary")]
        node.cut = Cut("summarised: what came before is not sent any more", [], node.id)
        return
    results = [_convert_result(part) for part in parts if part.get("type") == "tool_result"]
    converted, blocks = convert_message({**message, "content": [p for p in parts if p.get("type") != "tool_result"]})
    if role == "assistant":
        state, usage = as_mapping(message.get("state")), as_mapping(message.get("usage"))
        request: dict[str, Any] = {"model": as_text(usage.get("model")) or as_text(event.get("model"))}
        tokens = as_mapping(event.get("tokens"))
        request["usage"] = _convert_usage(usage, NAMES) or _convert_usage(tokens, LEDGER)
        request["stop_reason"] = as_text(state.get("stopReason")) or as_text(state.get("type")) or None
        request["answered_at"] = parse_time(event.get("timestamp"))
        node.messages = [NodeMessage("assistant" if blocks else "", blocks, request=request)]
    elif converted == "user":
        node.messages = [NodeMessage("user", results, "tool")] if results else []
        node.messages += [NodeMessage("user", blocks)] if blocks else []
        for key in ("userState", "fileMentions"):
            if message.get(key):
                passed.add(key, message[key])
    else:
        passed.add(f"message of role {role}", message)


def _convert_result(part: Value) -> JSON:
    run = as_mapping(part.get("run"))
    id = next((as_text(part[key]) for key in ("toolUseID", "toolUseId", "tool_use_id") if part.get(key)), "")
    gave = next((run[key] for key in ("result", "error", "progress", "reason") if run.get(key) is not None), None)
    content = gave if gave is not None else part.get("content") or as_text(run.get("status"))
    return make_result(id, content, run.get("status") in FAILED)


IMPORTER = Importer(
    NAME,
    "Amp thread (JSON)",
    sniff,
    read,
    finds=find_places,
    suffixes=(".json",),
    wants="`created` and `messages` of a thread whose id begins with T-",
    right="calls with what their runs gave; usage of each answer, once; summaries",
    sample=False,
)
