"""The store of a chat app over OpenRouter: conversations whose messages have `total_tokens`, models with `context_length`.

As localStorage keeps it (`{state, version}`), as its state alone, or as one conversation. `total_tokens` is the recorded size
of an answer, unless the message separates prompt and completion. From the specification; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_usage
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "openrouter"
Value = Mapping[str, Any]


def _read_state(source: Source) -> Value:
    document = as_mapping(source.document)
    return as_mapping(document.get("state")) or document


def _list_chats(source: Source) -> list[Value]:
    """The conversations of a store, the current one first."""
    state = _read_state(source)
    value = next((state[key] for key in ("conversations", "chats", "sessions") if key in state), None)
    chats = as_rows(list(value.values())) if isinstance(value, Mapping) else as_rows(value)
    found = chats or ([state] if isinstance(state.get("messages"), list) else [])
    current = state.get("currentConversationId") or state.get("currentChatId")
    return sorted(found, key=lambda chat: chat.get("id") != current or current is None)


def sniff(source: Source) -> int:
    if source.kind != "file" or not isinstance(source.document, dict):
        return 0
    reported = [message for chat in _list_chats(source)[:20] for message in as_rows(chat.get("messages"))[:20]]
    return 70 if any("total_tokens" in message and "role" in message for message in reported) else 0


def list_entries(source: Source) -> Iterator[Entry]:
    for number, chat in enumerate(_list_chats(source)):
        at = parse_time(chat.get("updatedAt") or chat.get("updated_at") or chat.get("lastMessageTimestamp"))
        yield Entry(str(number), as_text(chat.get("title")), at)


def read(source: Source, entry: Entry) -> Thread:
    chat, state = _list_chats(source)[int(entry.id)], _read_state(source)
    builder, passed = Builder(as_text(chat.get("id")) or f"{source.path.stem}.{entry.id}", NAME, entry.title), SkippedRecords()
    model = chat.get("model") or state.get("model") or state.get("selectedModel")
    named = as_text(as_mapping(model).get("id")) or as_text(model)
    known = [*as_rows(state.get("models")), *as_rows(chat.get("models")), as_mapping(model), chat]
    lengths = {as_text(one.get("id")): one["context_length"] for one in known if isinstance(one.get("context_length"), int)}
    stored = as_rows(chat.get("messages"))
    used = next((as_text(message.get("model")) for message in reversed(stored) if message.get("model")), named)
    window = lengths.get(used) or lengths.get(named) or chat.get("context_length") or state.get("context_length")
    builder.window = window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None

    def request(message: Value) -> dict[str, Any]:
        apart = {"prompt_tokens", "input_tokens", "usage"} & message.keys()
        reported = (
            convert_usage(as_mapping(message.get("usage")) or message) if apart else make_usage(0, message.get("total_tokens"))
        )
        own = lengths.get(as_text(message.get("model")))
        id = as_text(message.get("completion_id"))
        about = {"model": as_text(message.get("model")) or named, "usage": reported, "window": max(0, own or 0), "id": id}
        return {**about, "logged_usd": parse_usd(message.get("cost")), "answered_at": parse_time(message.get("timestamp"))}

    nodes = list(make_nodes(stored, request, passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


IMPORTER = Importer(
    NAME,
    "OpenRouter chat store (JSON)",
    sniff,
    read,
    list_entries,
    wants="conversations whose messages have `total_tokens`",
    right="recorded sizes, models and their windows",
    sample=False,
)
