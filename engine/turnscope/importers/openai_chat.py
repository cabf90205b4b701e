"""Logs of OpenAI's Chat Completions API and of the many that speak it: bodies, message lists, requests with responses.

Messages become blocks in Anthropic's shape (see `chat_completions`). Rendering gives bodies in that shape, not in OpenAI's.
Longer than a mapping for lists of messages without requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, is_bare_list
from turnscope.reading.chat_completions import convert_body
from turnscope.reading.conversations import TITLE_CHARACTERS, read_conversations
from turnscope.reading.dialect import score_dialect
from turnscope.reading.openai_calls import convert_openai_first
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import Session
from turnscope.session.thread import Thread

NAME = "openai-chat"
NAMED = {"model"}  # what a saved conversation may have beside its messages


def sniff(source: Source) -> int:
    return score_dialect(source, "openai")


def list_entries(source: Source) -> Iterator[Entry]:
    histories = _list_histories(source)
    if not histories:
        return read_conversations(source, convert_openai_first).list_entries()
    if len(histories) == 1:
        return iter([Entry(at=source.modified_at, size=source.size)])
    return (Entry(str(number), _make_title(saved["messages"])) for number, saved in enumerate(histories, 1))


def read(source: Source, entry: Entry) -> Thread:
    if histories := _list_histories(source):
        number = int(entry.id or 1)
        stem = f"{source.path.stem}~{number - 1}" if number > 1 else source.path.stem
        saved = histories[number - 1]
        return Thread(_build_history(saved["messages"], stem, as_text(saved.get("model"))))
    return Thread(read_conversations(source, convert_openai_first).build_session(entry.id, NAME))


def _list_histories(source: Source) -> list[dict[str, Any]]:
    """The saved conversations of a file without their requests; none where it holds anything else.

    A file is one, or has one in each line. A line that goes on with the conversation of the line before takes its place.
    """
    if "histories" not in source.cache:
        document = source.document
        found: list[dict[str, Any]] = []
        if isinstance(document, list) and is_bare_list(document) and any(m["role"] == "assistant" for m in document):
            found = [{"messages": document}]
        elif document is not None:
            found = [document] if _is_history(document) else []
        else:
            found = _join_growing(value for value, _ in source.iter_records())
        source.cache["histories"] = found
    histories: list[dict[str, Any]] = source.cache["histories"]
    return histories


def _join_growing(values: Iterable[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for value in values:
        if not _is_history(value):
            return []
        if found and value["messages"][: len(found[-1]["messages"])] == found[-1]["messages"]:
            found.pop()
        found.append(value)
    return found


def _is_history(value: Any) -> bool:
    """Whether a value is messages that end in an answer. Their model may stand beside them, but nothing else of a request."""
    if not isinstance(value, dict) or value.keys() - NAMED != {"messages"} or not isinstance(value["messages"], list):
        return False
    return is_bare_list(value["messages"]) and bool(value["messages"][-1]["role"] == "assistant")


def _make_title(messages: list[dict[str, Any]]) -> str:
    """How the first prompt begins."""
    prompts = (extract_text(message["content"]) for message in messages if message["role"] == "user")
    return " ".join(next(prompts, "").split())[:TITLE_CHARACTERS]


def _build_history(messages: list[dict[str, Any]], stem: str, model: str) -> Session:
    """Each answer had a request of its own, with all that stands before it."""
    body = convert_body({"messages": messages})
    builder = Builder(stem, NAME, _make_title(body["messages"]))
    if "system" in body:
        builder.add_message("system", body["system"], origin="system")
    for message in body["messages"]:
        extra = {key: value for key, value in message.items() if key not in ("role", "content")}
        draft = builder.add_message(message["role"], message["content"], extra=extra, fence=message["role"] == "system")
        if message["role"] == "assistant":
            builder.set_request(draft, model=model)
    builder.add_note(
        "info", 0, "a list of messages without requests: each answer is taken to have seen all that stands before it"
    )
    return builder.build()


IMPORTER = Importer(
    NAME,
    "OpenAI chat log (JSON or JSON lines)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".jsonl", ".yaml", ".yml"),
    wants="body with `messages` for chat completions, bare or with its response",
    version=5,
    right="recorded bodies laid along each other; calls and results paired",
)
