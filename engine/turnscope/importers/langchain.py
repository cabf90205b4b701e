"""Messages of LangChain as JSON: `messages_to_dict`, `dumps`, `model_dump`, in a list or under `messages`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import Note
from turnscope.session.thread import Thread

NAME = "langchain"
TYPES = ("human", "ai", "system", "tool", "function", "HumanMessageChunk", "AIMessageChunk")
OWN = ("additional_kwargs", "response_metadata", "usage_metadata", "invalid_tool_calls", "example")


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    document = source.document
    messages = _find_messages(document) if document is not None else list(source.first)
    if messages and all(_is_message(value) for value in messages[:5]):
        return 85
    bare = [as_mapping(value) for value in messages[:5]]  # dumps without what is empty
    known = all(value.get("type") in TYPES and "content" in value for value in bare)
    return 70 if known and any(value.get("type") in ("human", "ai") for value in bare) else 0


def _find_messages(document: Any) -> list[Any]:
    """The list of messages in a document: its own, or that of a graph's state."""
    inner = document
    for key in ("values", "kwargs", "messages"):
        inner = inner[key] if isinstance(inner, Mapping) and isinstance(inner.get(key), (Mapping, list)) else inner
    return inner if isinstance(inner, list) else []


def _is_message(value: Any) -> bool:
    fields = as_mapping(value)
    if fields.get("lc") == 1 and isinstance(fields.get("id"), list):
        return as_text(fields["id"][-1] if fields["id"] else "").rstrip("Chunk").endswith("Message")
    if fields.get("type") not in TYPES:
        return False
    return "content" in as_mapping(fields.get("data")) or ("content" in fields and any(key in fields for key in OWN))


def _convert_message(value: Any) -> dict[str, Any]:
    """A message with the keys that LangChain gives it, whatever wraps them."""
    fields = as_mapping(value)
    if fields.get("lc") == 1:
        names = fields.get("id")
        role = as_text(names[-1]) if isinstance(names, list) and names else ""
        return {"type": role.removesuffix("Chunk"), **as_mapping(fields.get("kwargs")), "role": role.removesuffix("Chunk")}
    data = as_mapping(fields.get("data"))
    return {**data, "role": as_text(fields.get("type"))} if data else {**fields, "role": as_text(fields.get("type"))}


def _make_request(message: Mapping[str, Any]) -> dict[str, Any]:
    about = as_mapping(message.get("response_metadata"))
    reported = message.get("usage_metadata") or about.get("token_usage") or about.get("usage")
    return {
        "model": as_text(about.get("model_name")) or as_text(about.get("model")) or as_text(about.get("model_id")),
        "usage": convert_usage(reported),
        "id": as_text(message.get("id")) or as_text(about.get("id")),
        "stop_reason": as_text(about.get("finish_reason") or about.get("stop_reason") or about.get("stopReason")) or None,
    }


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    values = [value for value, _ in source.iter_records()] if source.document is None else _find_messages(source.document)
    builder.notes += [value for value in values if isinstance(value, Note)]
    messages = [_convert_message(value) for value in values if not isinstance(value, Note)]
    nodes = list(make_nodes(messages, _make_request, passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


IMPORTER = Importer(
    NAME,
    "LangChain messages (JSON)",
    sniff,
    read,
    wants="messages with a LangChain `type` and `data`, `kwargs` or `content`",
    right="calls, results and usage of the dumps",
)
