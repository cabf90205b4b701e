"""Messages of a chat interface as the Vercel AI SDK keeps them (`UIMessage`, versions 4 to 7), and the stream that makes one.

A tool's part holds the call and what came back. Each `step-start` begins a request. A stored stream is a list of `chunks`, or
their server-sent events. Longer than a mapping for the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_image, make_result, make_text, make_thinking
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON
from turnscope.session.thread import Thread

NAME = "vercel-ui"
ROLES = ("system", "user", "assistant")
MESSAGE_KEYS = ("parts", "toolInvocations")
CHUNKS = (
    "start",
    "start-step",
    "text-start",
    "text-delta",
    "reasoning-start",
    "tool-input-start",
    "tool-input-available",
    "error",
)
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    if source.document is None and source.head.lstrip()[:5] == b"data:":
        return 85 if _are_chunks(_parse_stream(source)[:5]) else 0
    messages, chunks = _find(source)
    listed = as_rows(messages[:20])
    known = [one for one in listed if one.get("role") in ROLES and any(_are_parts(one.get(key)) for key in MESSAGE_KEYS)]
    return 85 if (known and len(known) == len(listed)) or _are_chunks(chunks[:5]) else 0


def _are_parts(value: Any) -> bool:
    listed = isinstance(value, list) and all(isinstance(part, dict) for part in value)
    return bool(listed and value and all(isinstance(part.get("type"), str) or "toolCallId" in part for part in value))


def _are_chunks(chunks: Sequence[Any]) -> bool:
    return bool(chunks) and as_mapping(chunks[0]).get("type") in CHUNKS and all(isinstance(one, dict) for one in chunks)


def _find(source: Source) -> tuple[Sequence[Any], Sequence[Any]]:
    """Find the messages, and the chunks of one more."""
    document = source.document
    chat = as_mapping(document)
    if isinstance(document, list):
        return ([], document) if _are_chunks(document[:5]) else (document, [])
    stream = as_mapping(chat.get("input")) if "chunks" in as_mapping(chat.get("input")) else chat
    listed = [chat.get("messages"), [stream["lastMessage"]] if stream.get("lastMessage") else [], stream.get("chunks")]
    messages, last, chunks = (value if isinstance(value, list) else [] for value in listed)
    return (messages or last, chunks)


def _parse_stream(source: Source) -> list[Any]:
    lines = (line.removeprefix(b"data:").strip() for line in source.data.splitlines() if line.startswith(b"data:"))
    return [parse_if_json(line.decode("utf-8", "replace")) for line in lines if line and line != b"[DONE]"]


def read(source: Source, _entry: Entry) -> Thread:
    stream = source.document is None
    messages, chunks = ([], _parse_stream(source)) if stream else _find(source)
    chat = as_mapping(source.document)
    named = as_text(chat.get("title")) or as_text(chat.get("name"))
    builder, passed = Builder(as_text(chat.get("id")) or source.path.stem, NAME, named), SkippedRecords()
    whole = list(messages)
    if chunks:
        last = whole.pop() if whole and as_mapping(whole[-1]).get("role") == "assistant" else {}
        whole.append(_join_chunks(as_rows(chunks), as_mapping(last), builder, passed))
    nodes: list[Node] = []
    for number, message in enumerate(as_rows(whole)):
        if message.get("role") in ROLES:
            nodes.append(Node(f"{number}", None, _convert(message, passed), _find_time(message)))
        else:
            passed.add(f"message of role {message.get('role')}", message)
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _find_time(message: Value) -> float | None:
    return parse_time(message.get("createdAt") or as_mapping(message.get("metadata")).get("createdAt"))


def _convert(message: Value, passed: SkippedRecords) -> list[NodeMessage]:
    """Convert a message: an answer's steps with the results between them."""
    role, parts = as_text(message.get("role")), list(as_rows(message.get("parts")))
    if not any("toolCallId" in part or "toolInvocation" in part for part in parts):  # version 3 keeps its calls apart
        parts += [{"type": "tool-invocation", "toolInvocation": one} for one in as_rows(message.get("toolInvocations"))]
    if not any(part.get("type") == "text" for part in parts) and as_text(message.get("content")):
        parts.insert(0, {"type": "text", "text": message["content"]})
    if role != "assistant":
        return [NodeMessage(role, [b for part in parts for b in _convert_part(part, passed)[0]], fence=role == "system")]
    messages: list[NodeMessage] = []
    back: list[JSON] = []
    stepped = any(part.get("type") == "step-start" for part in parts)  # older versions do not say where a step begins
    begins = True  # the next block is the first of one
    for part in parts:
        own, results = _convert_part(part, passed)
        begins = begins or part.get("type") == "step-start"
        if back and own and (begins or not (stepped or results)):
            messages.append(NodeMessage("user", back, "tool"))
            back, begins = [], True
        if own and begins:
            messages.append(NodeMessage("assistant", [], request={}))
            begins = False
        if own:
            messages[-1].content = [*messages[-1].content, *own]
        back += results
    messages += [NodeMessage("user", back, "tool")] if back else []
    answers = [one for one in messages if one.role == "assistant"] or [NodeMessage("", request={})]
    metadata = as_mapping(message.get("metadata"))
    model, steps = as_text(metadata.get("model")) or as_text(metadata.get("modelId")), len(answers)
    usage = convert_usage(metadata.get("usage") or metadata.get("totalUsage") or metadata) if steps == 1 else None
    for one in answers:
        one.request = {"model": model, "usage": usage}
    if steps > 1 and (metadata.get("usage") or metadata.get("totalUsage")):
        passed.add("usage of all steps of an answer together", metadata.get("usage") or metadata.get("totalUsage"))
    return messages or answers


def _convert_part(part: Value, passed: SkippedRecords) -> tuple[list[JSON], list[JSON]]:
    """Convert a part into blocks of its message, and what came back from its tool."""
    kind = as_text(part.get("type"))
    call = as_mapping(part.get("toolInvocation")) or part
    match kind:
        case "text":
            return make_text(as_text(part.get("text"))), []
        case "reasoning":
            return make_thinking(as_text(part.get("text")) or as_text(part.get("reasoning"))), []
        case "file":
            address, media = as_text(part.get("url")), as_text(part.get("mediaType") or part.get("mimeType"))
            if not address and isinstance(part.get("data"), str):
                address = f"data:{media};base64,{part['data']}"
            image = make_image(address)
            return [image if media.startswith("image/") else {"type": "document", "source": image["source"]}], []
        case "step-start":
            return [], []
    if "toolCallId" in call:
        return _convert_tool(call, as_text(call.get("toolName")) or kind.removeprefix("tool-"))
    passed.add(f"part {kind}", part)  # sources, data and marks that the interface shows
    return [], []


def _convert_tool(call: Value, name: str) -> tuple[list[JSON], list[JSON]]:
    id, server = as_text(call.get("toolCallId")), call.get("providerExecuted") is True
    arguments = next((call[key] for key in ("input", "rawInput", "args") if call.get(key) is not None), None)
    use = make_call(id, name, arguments, "server_tool_use" if server else "tool_use")
    output = next((call[key] for key in ("output", "result", "errorText") if call.get(key) is not None), None)
    denied = call.get("state") == "output-denied" or as_mapping(call.get("approval")).get("approved") is False
    if output is None and not denied:
        return [use], []
    failed = denied or call.get("errorText") is not None
    result = make_result(id, output if output is not None else as_text(as_mapping(call.get("approval")).get("reason")), failed)
    return ([use, result], []) if server else ([use], [result])


def _join_chunks(chunks: Sequence[Value], last: Value, builder: Builder, passed: SkippedRecords) -> dict[str, Any]:
    """Join the chunks of a stream into the message that the interface shows."""
    message: dict[str, Any] = {**last, "role": "assistant", "parts": [dict(part) for part in as_rows(last.get("parts"))]}
    parts: list[dict[str, Any]] = message["parts"]
    open_: dict[tuple[str, str], dict[str, Any]] = {}
    tools = {as_text(part.get("toolCallId")): part for part in parts if "toolCallId" in part}
    for chunk in chunks:
        kind = as_text(chunk.get("type"))
        base, _, step = kind.rpartition("-")
        if kind == "start-step":
            parts.append({"type": "step-start"})
        elif base in ("text", "reasoning") and step == "start":
            open_[base, as_text(chunk.get("id"))] = part = {"type": base, "text": ""}
            parts.append(part)
        elif base in ("text", "reasoning") and step == "delta":
            if part := open_.get((base, as_text(chunk.get("id"))), {}):
                part["text"] += as_text(chunk.get("delta"))
            else:
                passed.add(f"{kind} of a part that never began", chunk)
        elif kind == "tool-input-delta" and as_text(chunk.get("toolCallId")) not in tools:
            passed.add(f"{kind} of a part that never began", chunk)
        elif kind.startswith("tool-"):
            _change_call(kind, chunk, tools, parts)
        elif kind in ("start", "finish", "message-metadata"):
            message["id"] = chunk.get("messageId") or message.get("id")
            message["metadata"] = {**as_mapping(message.get("metadata")), **as_mapping(chunk.get("messageMetadata"))}
        elif kind in ("error", "abort"):
            builder.add_note(
                "warning", 0, f"the stream ended: {as_text(chunk.get('errorText') or chunk.get('reason')) or kind}"
            )
        elif kind in ("file", "custom", "source-url", "source-document") or kind.startswith("data-"):
            parts.append(dict(chunk))
    return message


def _change_call(kind: str, chunk: Value, tools: dict[str, dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    """Change the part of the call that a chunk tells of; a new call is a new part.

    Args:
        kind: The chunk's type.
        chunk: The chunk.
        tools: Parts of calls by their ids.
        parts: All parts of the message.
    """
    if kind == "tool-approval-response":  # it names what was asked, not the call
        decision = {"approved": chunk.get("approved"), "reason": chunk.get("reason")}
        for tool in tools.values():
            request = as_mapping(tool.get("approval"))
            if request and request.get("id") == chunk.get("approvalId"):
                tool["approval"] = {**request, **decision}
        return
    id = as_text(chunk.get("toolCallId"))
    if "toolCallId" in chunk and id not in tools:
        tools[id] = {"type": f"tool-{as_text(chunk.get('toolName'))}"}
        parts.append(tools[id])
    if "toolCallId" in chunk:
        tools[id] |= {key: value for key, value in chunk.items() if key not in ("type", "dynamic", "inputTextDelta")}
        tools[id] |= {"state": "output-denied"} if kind == "tool-output-denied" else {}
        tools[id] |= {"approval": {"id": chunk.get("approvalId")}} if kind == "tool-approval-request" else {}


IMPORTER = Importer(
    NAME,
    "Vercel AI SDK messages (JSON) or their stream",
    sniff,
    read,
    version=2,
    suffixes=(".json", ".jsonl"),
    wants="messages with `parts`, nor chunks such as text-delta",
    right="each step of an answer as a request; calls with what came back",
)
