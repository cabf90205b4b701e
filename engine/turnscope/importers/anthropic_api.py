"""Logs of Anthropic's Messages API: request bodies, alone or with their responses, as JSON, JSON lines or HTTP cassettes.

Every body is an envelope that was really sent; replayed as recorded, each is rendered again exactly. Responses may be bodies,
JSON text, or streams of server-sent events (docs.claude.com, "Streaming Messages").
"""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.importers import Importer
from turnscope.reading.conversations import read_conversations
from turnscope.reading.dialect import score_dialect
from turnscope.reading.openai_calls import convert_anthropic_first
from turnscope.reading.source import Entry, Source
from turnscope.session.thread import Thread

NAME = "anthropic-api"


def sniff(source: Source) -> int:
    return score_dialect(source, "anthropic")


def list_entries(source: Source) -> Iterator[Entry]:
    return read_conversations(source, convert_anthropic_first).list_entries()


def read(source: Source, entry: Entry) -> Thread:
    return Thread(read_conversations(source, convert_anthropic_first).build_session(entry.id, NAME))


IMPORTER = Importer(
    NAME,
    "Anthropic API log (JSON, JSON lines or cassette)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".jsonl", ".yaml", ".yml"),
    version=4,
    wants="body with `messages` for Anthropic's API, bare, with its response, or in a cassette",
    right="every recorded body renders again exactly",
)
