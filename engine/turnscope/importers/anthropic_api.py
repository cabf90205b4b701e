"""Logs of Anthropic's Messages API: request bodies, alone or with their responses, as JSON, JSON lines or HTTP cassettes.

Every body is an envelope that was really sent; replayed as recorded, each is rendered again exactly. Responses may be bodies,
JSON text, or streams of server-sent events (docs.claude.com, "Streaming Messages").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import Exchange, as_text
from turnscope.reading.conversations import Call, conversations
from turnscope.reading.dialect import speaks
from turnscope.reading.source import Entry, Source
from turnscope.reading.streams import events, message_of
from turnscope.session.builder import parse_applied_edits, parse_usage
from turnscope.session.thread import Thread

NAME = "anthropic-api"


def sniff(source: Source) -> int:
    return speaks(source, "anthropic")


def entries(source: Source) -> Iterator[Entry]:
    return conversations(source, call_of).entries()


def read(source: Source, entry: Entry) -> Thread:
    return Thread(conversations(source, call_of).session(entry.id, NAME))


def call_of(found: Exchange) -> Call:
    """A recorded call as one in Anthropic's shape, which it is."""
    response = found.response
    if isinstance(response, str):
        response = message_of(events(response))
    elif isinstance(response, list):
        response = message_of(event for event in response if isinstance(event, dict))
    about: dict[str, Any] = {
        "model": as_text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    answer = response if isinstance(response, Mapping) else {}
    if answer.get("type") == "error" or not isinstance(answer.get("content"), (list, str)):
        error = answer.get("error")
        what = as_text(error.get("message")) if isinstance(error, Mapping) else ""
        return Call(found.body, None, about, found.error or what, found.line)
    about |= {"usage": parse_usage(answer.get("usage")), "id": as_text(answer.get("id"))}
    about["applied"] = parse_applied_edits(answer.get("context_management"))
    about["model"] = as_text(answer.get("model")) or about["model"]
    about["stop_reason"] = as_text(answer.get("stop_reason")) or None
    return Call(found.body, {"content": answer["content"]}, about, "", found.line)


IMPORTER = Importer(
    NAME,
    "Anthropic API log (JSON, JSON lines or cassette)",
    sniff,
    read,
    entries,
    suffixes=(".json", ".jsonl", ".yaml", ".yml"),
    version=3,
    wants="body with `messages` for Anthropic's API, bare, beside its response, or in a cassette",
    right="every recorded body renders again exactly",
)
