"""Logs of Google's `generateContent` and of Bedrock's Converse: request bodies, alone or with their responses or streams.

Bedrock's own invocation log has them as well. Longer than a mapping for two APIs and for bodies without responses. From the
schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import (
    REQUEST_KEYS,
    RESPONSE_KEYS,
    TIME_KEYS,
    as_text,
    is_cassette,
    iter_records,
    parse_time,
    unwrap_body,
    unwrap_invocation,
)
from turnscope.reading.content_blocks import as_mapping, as_rows, rename_google_keys
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.google_calls import convert_call, join_answer
from turnscope.reading.source import Entry, Source
from turnscope.session.model import Note
from turnscope.session.thread import Thread

NAME = "other-apis"
ADDRESSES = (b":generateContent", b":streamGenerateContent", b"/converse")  # what cassettes of the two APIs name
SNIFFED = 5  # records that are looked at
Value = Mapping[str, Any]


def _find_body(record: Any) -> Value:
    """Find a body of either API in a record; an empty one where it holds none."""
    for number, held in enumerate((record, *(as_mapping(record).get(key) for key in REQUEST_KEYS))):
        body = _spell_google(as_mapping(unwrap_body(held)), nested=number > 0)
        contents, messages = as_rows(body.get("contents")), as_rows(body.get("messages"))
        if contents and all(isinstance(one.get("parts"), list) for one in contents):
            return body
        parts = [part for one in messages for part in as_rows(one.get("content"))]
        if "modelId" in body and parts and not any("type" in part for part in parts):
            return body
    return {}


def _spell_google(body: Value, *, nested: bool) -> Value:
    """A body of Google's API as it is sent: SDKs take a text for contents, other names, and the rest as `config`."""
    contents = body.get("contents")
    if contents is None:
        return body
    config = as_mapping(rename_google_keys(body.get("config")))
    if nested and isinstance(contents, str) and contents:
        contents = [{"role": "user", "parts": [{"text": contents}]}]
    known = {key: config[key] for key in ("systemInstruction", "tools") if config.get(key)}
    return {**known, **as_mapping(rename_google_keys({**body, "contents": contents}))}


def _iter_records(source: Source, limit: int | None = None) -> Iterator[tuple[Any, int]]:
    if is_cassette(source.head[:4096]) and any(name in source.data for name in ADDRESSES):
        yield from iter_records(source)
        return
    for value, line in source.iter_values(limit):
        for number, one in enumerate(value, 1) if isinstance(value, list) else [(line, value)]:
            yield unwrap_invocation(one) if isinstance(one, Mapping) else one, number


def sniff(source: Source) -> int:
    records = islice(_iter_records(source, SNIFFED), SNIFFED) if source.kind == "file" else ()
    return 80 if any(_find_body(row) for row, _ in records) else 0


def _find_conversations(source: Source) -> Conversations:
    if "conversations" not in source.cache:
        calls = (_convert(record, line) for record, line in _iter_records(source))
        source.cache["conversations"] = group_calls((call for call in calls if call is not None), source.path.stem)
    found: Conversations = source.cache["conversations"]
    return found


def _convert(record: Any, line: int) -> Call | Note | None:
    if isinstance(record, Note):
        return record
    body = _find_body(record)
    if not body:
        return Note("warning", line, "a record holds no request body and was skipped")
    held = as_mapping(record)
    response = next((held[key] for key in RESPONSE_KEYS if held.get(key) is not None), None)
    sent_at = next((at for key in TIME_KEYS if (at := parse_time(held.get(key))) is not None), None)
    return convert_call(body, join_answer(unwrap_body(response)), line, as_text(held.get("model")), sent_at)


def list_entries(source: Source) -> Iterator[Entry]:
    return _find_conversations(source).list_entries()


def read(source: Source, entry: Entry) -> Thread:
    return Thread(_find_conversations(source).build_session(entry.id, NAME))


IMPORTER = Importer(
    NAME,
    "Google or Bedrock API log (JSON, JSON lines or cassette)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".jsonl", ".yaml", ".yml"),
    wants="body with `contents`, nor one with `modelId` and `messages`",
    right="bodies laid along each other; calls and results paired; usage of each response",
    sample=False,
    version=2,
)
