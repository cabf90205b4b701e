"""Logs of OpenAI's Chat Completions API and of the many that speak it: bodies, message lists, requests with responses.

Messages become blocks in Anthropic's shape (see `chat_completions`). Rendering gives bodies in that shape, not in OpenAI's.
Longer than a mapping for lists of messages without requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import Exchange, as_text, is_bare_list
from turnscope.reading.chat_completions import convert_body, convert_content, convert_usage
from turnscope.reading.conversations import TITLE_CHARACTERS, Call, read_conversations
from turnscope.reading.dialect import score_dialect
from turnscope.reading.source import Entry, Source
from turnscope.reading.streams import join_completion, parse_events
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import Session
from turnscope.session.thread import Thread

NAME = "openai-chat"
NAMED = {"model"}  # what a saved conversation may have beside its messages


def sniff(source: Source) -> int:
    return score_dialect(source, "openai")


def list_entries(source: Source) -> Iterator[Entry]:
    return (
        iter([Entry(at=source.modified_at, size=source.size)])
        if _is_history(source)
        else read_conversations(source, convert_call).list_entries()
    )


def read(source: Source, entry: Entry) -> Thread:
    if _is_history(source):
        saved = source.document if isinstance(source.document, dict) else {"messages": source.document}
        return Thread(_build_history(saved["messages"], source.path.stem, as_text(saved.get("model"))))
    return Thread(read_conversations(source, convert_call).build_session(entry.id, NAME))


def _is_history(source: Source) -> bool:
    """A saved conversation without its requests: a list of messages, alone or under `messages`, that ends in an answer.

    Its model may stand beside `messages`, but nothing else that a request has.
    """
    document = source.document
    if isinstance(document, dict) and document.keys() - NAMED == {"messages"} and isinstance(document["messages"], list):
        found = document["messages"]
        return is_bare_list(found) and found[-1]["role"] == "assistant"
    return isinstance(document, list) and is_bare_list(document) and any(m["role"] == "assistant" for m in document)


def _build_history(messages: list[dict[str, Any]], stem: str, model: str) -> Session:
    """Each answer had a request of its own, with all that stands before it."""
    body = convert_body({"messages": messages})
    prompts = [extract_text(m["content"]) for m in body["messages"] if m["role"] == "user"]
    builder = Builder(stem, NAME, " ".join(prompts[0].split())[:TITLE_CHARACTERS] if prompts else "")
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


def convert_call(found: Exchange) -> Call:
    """A recorded call in Anthropic's shape."""
    response = join_completion(parse_events(found.response)) if isinstance(found.response, str) else found.response
    about: dict[str, Any] = {
        "model": as_text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    body = convert_body(found.body)
    choices = response.get("choices") if isinstance(response, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    if not isinstance(response, Mapping) or not isinstance(choice.get("message"), Mapping):
        return Call(body, None, about, found.error, found.line)
    about |= {"usage": convert_usage(response.get("usage")), "id": as_text(response.get("id"))}
    about["model"] = as_text(response.get("model")) or about["model"]
    about["stop_reason"] = as_text(choice.get("finish_reason")) or None
    return Call(body, {"content": convert_content(choice["message"])}, about, "", found.line)


IMPORTER = Importer(
    NAME,
    "OpenAI chat log (JSON or JSON lines)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".jsonl", ".yaml", ".yml"),
    wants="body with `messages` for chat completions, bare or with its response",
    version=3,
    right="recorded bodies laid along each other; calls and results paired",
)
