"""Jan threads: a folder with `thread.json` and `messages.jsonl`, either file alone, or an exported conversation.

`metadata.parentId` makes a tree (missing: the message before it), `activeChildId` says where it goes on; an answer that lost
its parent hangs from the question before it, as in Jan. What Jan sends of a message, and the speed that it measured, stand in
`about`, by the message's id. From the schema; no real sample was at hand.
Longer than a mapping because a thread is two files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import (
    as_mapping,
    as_rows,
    join_blocks,
    make_call,
    make_image,
    make_result,
    make_text,
    make_thinking,
    make_usage,
    split_thinking,
)
from turnscope.reading.jan_threads import convert_message, find_active_path, find_new_parents, split_waves
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Note, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import measured, parse_count
from turnscope.settings import Machine

NAME = "jan"
FILES = ("thread.json", "messages.jsonl")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "folder":
        file = source.open_sibling(FILES[1]) if source.open_sibling(FILES[0]) else None
        return 90 if file and sniff(file) else 0
    head = as_mapping(source.document if source.document is not None else next(iter(source.first), None))
    if _is_message(head):
        return 90
    if head.get("object") == "thread" and "assistants" in head:
        return 85 if source.open_sibling(FILES[1]) else 0
    return 90 if {"exported_at", "title"} <= head.keys() and isinstance(head.get("messages"), list) else 0


def _is_message(value: Value) -> bool:
    """Whether a value is a stored message; some versions leave `object` out."""
    if value.get("object") == "thread.message":
        return True
    texts = [part.get("text") for part in as_rows(value.get("content"))]
    plain = {"thread_id", "role"} <= value.keys() and "object" not in value
    return plain and any(isinstance(text, Mapping) and "value" in text for text in texts)


def find_places(machine: Machine) -> Iterator[Place]:
    for folder in (machine.data / "Jan" / "data", machine.config / "Jan" / "data", machine.home / "jan"):
        yield Place(folder / "threads", "*/messages.jsonl", find_main_path)


def find_related(source: Source) -> Iterator[Source]:
    """The other file of the thread."""
    if source.kind == "folder" or source.path.name in FILES:
        found = (source.open_sibling(name) for name in FILES if name != source.path.name)
        yield from (file for file in found if file is not None)


def find_main_path(path: Path) -> Path:
    """A thread's files open as their folder."""
    return path.parent if path.name in FILES and all((path.parent / name).is_file() for name in FILES) else path


@measured
def _convert_usage(used: Mapping[str, Any], out: Any) -> Usage | None:
    """Where the prompt has no number of its own, it is what the answer leaves of the total."""
    prompt = used.get("inputTokens", used.get("promptTokens"))
    if prompt is None and used.get("totalTokens") is not None:
        prompt = max(0, parse_count(used["totalTokens"], "totalTokens") - parse_count(out, "outputTokens"))
    return make_usage(prompt, out, used.get("cachedInputTokens"))


def read(source: Source, _entry: Entry) -> Thread:
    about, stored, notes = _read_thread(source)
    assistant = next(iter(as_rows(about.get("assistants"))), {})
    model = as_text(as_mapping(assistant.get("model")).get("id")) or as_text(as_mapping(about.get("model")).get("id"))
    name = source.path.absolute().name if source.kind == "folder" else source.path.stem
    builder = Builder(as_text(about.get("id")) or name, NAME, as_text(about.get("title")))
    builder.notes += notes
    builder.about |= {key: assistant[key] for key in ("assistant_name",) if assistant.get(key)}
    settings, loaded = (_find_settings(assistant, about, key) for key in ("parameters", "settings"))
    builder.about |= {"model settings": loaded} if loaded else {}
    window = loaded.get("ctx_len")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
    messages = [_clean_message(message, number) for number, message in enumerate(stored)]
    known = {one["id"]: one for one in reversed(messages)}
    for id, parent in find_new_parents(messages).items():
        known[id]["metadata"]["parentId"] = parent
    path = list(
        dict.fromkeys(find_active_path(messages, as_text(as_mapping(about.get("metadata")).get("activeRootId")) or None))
    )
    above = dict(zip(path, ["", *path], strict=False))
    times = {one["id"]: one["created_at"] for one in messages}
    passed, speeds = SkippedRecords(), dict[str, Any]()
    nodes = list[Node]()
    for one in messages:
        parent = above.get(one["id"], one["metadata"].get("parentId", nodes[-1].id if nodes else "")) or ""
        nodes.append(_make_node(one, parent, times, model, passed))
        for each in nodes[-1].messages:
            if each.request is not None and settings:
                each.request = {**each.request, "settings": settings}
        speed = one["metadata"].get("tokenSpeed")
        speeds |= {one["id"]: speed} if speed is not None else {}
    details = {id: facts for one, node in zip(messages, nodes, strict=True) for id, facts in _iter_stored(one, node)}
    builder.about |= {"stored": {NAME: details}} if details else {}
    if speeds:
        builder.about["tokenSpeed"] = speeds
    passed.add_notes(builder)
    reported = as_text(assistant.get("instructions"))
    return build_thread(
        builder, nodes, path[-1] if path else "", [NodeMessage("system", reported, "system")] if reported else []
    )


def _find_settings(assistant: Value, thread: Value, key: str) -> dict[str, JSON]:
    """Of the thread's model: `parameters` of its requests, such as `temperature`, or `settings` that it is loaded with."""
    holders = (as_mapping(thread.get("model")), assistant, as_mapping(assistant.get("model")))
    given = (as_mapping(each.get(key)) for each in holders)
    return {name: value for each in given for name, value in each.items() if isinstance(value, (int, float, str))}


def _clean_message(message: Value, number: int) -> dict[str, Any]:
    """A stored message with what its place in the thread hangs on read safely: id, time, parent, the child that is shown."""
    metadata = dict(as_mapping(message.get("metadata")))
    for key in ("parentId", "activeChildId"):
        if key in metadata and not isinstance(metadata[key], str):
            metadata[key] = None
    id = as_text(message.get("id")) or f"#{number}"
    return {**message, "id": id, "created_at": parse_time(message.get("created_at")), "metadata": metadata}


def _read_thread(source: Source) -> tuple[Value, list[Value], list[Note]]:
    """What is known of the thread, its messages, and notes on lines that cannot be read."""
    document = as_mapping(source.document)
    if isinstance(document.get("messages"), list):
        return document, as_rows(document["messages"]), []
    lines = source if _is_message(document) or source.path.name == FILES[1] else source.open_sibling(FILES[1])
    near = source if document.get("object") == "thread" else source.open_sibling(FILES[0])
    if lines is None or (source.kind == "file" and document.get("object") != "thread" and source.path.suffix == ".jsonl"):
        lines = source
    found = [value for value, _ in lines.iter_values()]
    notes = [value for value in found if isinstance(value, Note)]
    if near and not isinstance(near.document, dict):
        notes.append(Note("warning", 0, f"{near.path.name} cannot be read: title, model and instructions are missing"))
    return as_mapping(near.document) if near else {}, [value for value in found if isinstance(value, dict)], notes


def _make_node(message: Value, above: str, times: Mapping[str, float | None], model: str, passed: SkippedRecords) -> Node:
    metadata = message["metadata"]
    node = Node(message["id"], above, [], message["created_at"])
    blocks = [block for part in _get_rows(message.get("content")) for block in _convert_part(part, passed)]
    for made in as_rows(metadata.get("tool_calls")):  # as older versions keep them
        tool, gave = as_mapping(made.get("tool")), as_mapping(made.get("response"))
        function = as_mapping(tool.get("function"))
        blocks.append(make_call(as_text(tool.get("id")), as_text(function.get("name")), function.get("arguments")))
        blocks += [make_result(as_text(tool.get("id")), extract_text(gave.get("content") or gave.get("error")))] if gave else []
    if message.get("role") == "assistant":
        used, speed = as_mapping(metadata.get("usage")), as_mapping(metadata.get("tokenSpeed"))
        out = used.get("outputTokens", used.get("completionTokens", speed.get("tokenCount", speed.get("count", 0))))
        ended, status = parse_time(message.get("completed_at")), as_text(message.get("status"))
        later = ended is not None and node.at is not None and ended > node.at
        request = {
            "model": as_text(metadata.get("modelId")) or model,
            "usage": _convert_usage(used, out),
            "sent_at": node.at if later else times.get(above),
            "answered_at": ended or node.at,
            "stop_reason": as_text(metadata.get("finishReason")) or (status if status not in ("", "ready") else None),
        }
        node.messages = split_rounds(blocks, request, parallel=True) or [NodeMessage("", request=request)]
    elif message.get("role") == "user":
        files = [
            block for row in as_rows(metadata.get("inline_file_contents")) for block in make_text(as_text(row.get("content")))
        ]
        node.messages = [NodeMessage("user", join_blocks(blocks), "prompt", files=files)]
    elif message.get("role") == "tool":
        node.messages = [NodeMessage("user", [make_result(as_text(message.get("tool_call_id")), extract_text(blocks))], "tool")]
    elif message.get("role") == "system":
        node.messages = [NodeMessage("system", join_blocks(blocks), "system", fence=True)]
    else:
        passed.add(f"message of role {message.get('role')}", message)
    return node


def _iter_stored(message: Value, node: Node) -> Iterator[tuple[str, JSON]]:
    """What Jan sends of a stored message, by the ids of the session's: its parts, a message for each round of calls."""
    content, files = [_clean_part(part) for part in _get_rows(message.get("content"))], list[JSON]()
    calls = [_clean_call(made) for made in as_rows(message["metadata"].get("tool_calls"))]
    shown = convert_message({"id": node.id, "role": message.get("role"), "content": content, "metadata": {"tool_calls": calls}})
    for file in as_rows(message["metadata"].get("inline_file_contents")):
        files.append({"name": as_text(file.get("name")), "content": as_text(file.get("content"))})
    parted = split_waves([shown])
    answers = [n for n, each in enumerate(node.messages) if each.role == shown["role"]]
    plain = not files and all(part == {"type": "text", "text": part.get("text")} for part in shown["parts"])
    if not plain and len(answers) == len(parted):
        for number, wave in zip(answers, parted, strict=True):
            metadata = {"metadata": {"inline_file_contents": files}} if files else {}
            yield f"{node.id}:{number}" if number else node.id, {"parts": wave["parts"], **metadata}


def _clean_part(part: Value) -> Value:
    """A part of a stored message whose texts are texts."""
    reported = as_text(as_mapping(part.get("text")).get("value")) or as_text(part.get("text"))
    return {**part, "text": {"value": reported}, "image_url": {"url": as_text(as_mapping(part.get("image_url")).get("url"))}}


def _clean_call(made: Value) -> Value:
    """A call as older versions keep it, read safely."""
    tool, gave = as_mapping(made.get("tool")), as_mapping(made.get("response"))
    texts = [{"text": as_text(part.get("text"))} for part in as_rows(gave.get("content"))]
    function = as_mapping(tool.get("function"))
    return {"tool": {"id": tool.get("id"), "function": function}, "state": made.get("state"), "response": {"content": texts}}


def _get_rows(content: Any) -> list[Value]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_rows(content)


def _convert_part(part: Value, passed: SkippedRecords) -> list[JSON]:
    kind, text = part.get("type"), part.get("text")
    reported = as_text(as_mapping(text).get("value")) or as_text(text)
    if kind == "text":
        return split_thinking(reported)
    if kind == "reasoning":
        return make_thinking(reported)
    if kind == "image_url":
        return [make_image(as_text(as_mapping(part.get("image_url")).get("url")))]
    if kind == "tool_call":
        id, gave = as_text(part.get("tool_call_id")), part.get("output")
        use = make_call(id, as_text(part.get("tool_name")), part.get("input"))
        return [use, *([make_result(id, gave if isinstance(gave, str) else extract_text(gave))] if gave is not None else [])]
    passed.add(f"part {kind}", part)
    return []


IMPORTER = Importer(
    NAME,
    "Jan thread (folder or export)",
    sniff,
    read,
    finds=find_places,
    related=find_related,
    part_of=find_main_path,
    wants="`object` thread or thread.message, nor an export with `exported_at`",
    right="the tree with its branches; the speed that Jan measured",
    sample=False,
    version=5,
)
