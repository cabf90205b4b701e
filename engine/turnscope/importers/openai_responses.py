"""Logs of OpenAI's Responses API: bodies with `input`, alone or with their responses, as JSON, JSON lines or cassettes.

A call that names a previous response goes on from that one's input and output. Responses may be objects or streams. In
background mode a response is requested until it is complete: that is one call. `/responses/compact` answers with what stands
for the history. Longer than a mapping because of those chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import (
    REQUEST_KEYS,
    RESPONSE_KEYS,
    as_text,
    is_cassette,
    iter_records,
    unwrap_body,
)
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.responses_calls import ResponseChains, find_response, is_response
from turnscope.reading.source import Entry, Source
from turnscope.session.model import Note
from turnscope.session.thread import Thread

NAME = "openai-responses"
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    if source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        if not is_cassette(source.head[:4096]) or b"/responses" not in source.data:
            return 0
        records = iter_records(source)
    else:
        records = iter_records(source) if source.document is not None else ((record, 0) for record in source.first)
    return 85 if any(_find_sides(record) for record, _ in islice(records, 20)) else 0


def _find_sides(record: Any) -> tuple[Value, Value] | None:
    """The body and the response of a record; None where it holds no call of this API."""
    fields = as_mapping(record)
    inner = next((body for key in REQUEST_KEYS if _is_body(body := as_mapping(unwrap_body(fields.get(key))))), None)
    answer = next((found for key in RESPONSE_KEYS if (found := find_response(fields.get(key)))), {})
    if inner is not None:
        return inner, answer
    if is_response(fields):
        return {
            key: fields[key] for key in ("model", "instructions", "tools", "previous_response_id") if fields.get(key)
        }, fields
    return (fields, answer) if _is_body(fields) else ({}, answer) if answer else None


def _is_body(fields: Value) -> bool:
    """Whether a value is a body with `input`. Langfuse's observations have an input and a model, too."""
    called = isinstance(fields.get("input"), (str, list)) and isinstance(fields.get("model"), str)
    return called and not fields.keys() & {"messages", "traceId"}


def _read_conversations(source: Source) -> Conversations:
    if "found" not in source.cache:
        source.cache["found"] = group_calls(_iter_calls(source), source.path.stem)
    found: Conversations = source.cache["found"]
    return found


def _list_exchanges(source: Source) -> Iterator[tuple[Value, Value, Value, int] | Note]:
    """The body, the response, the record and the line of each call; the newest response of each id counts."""
    found: list[tuple[Value, Value, Value, int] | Note] = []
    places: dict[str, int] = {}
    passed = 0
    for record, line in iter_records(source):
        sides = None if isinstance(record, Note) else _find_sides(record)
        id = as_text(sides[1].get("id")) if sides else ""
        if isinstance(record, Note):
            found.append(record)
        elif sides is None:
            passed += 1
        elif id in places and not sides[0].get("input"):  # requested again, until it was complete
            body, _, first, at = found[places[id]]  # type: ignore[misc]
            found[places[id]] = body, sides[1], first, at
        else:
            places[id] = len(found)
            found.append((*sides, as_mapping(record), line))
    yield from found
    if passed:
        yield Note("warning", 0, f"{passed} records hold no call and were skipped")


def _iter_calls(source: Source) -> Iterator[Call | Note]:
    chains = ResponseChains()
    for found in _list_exchanges(source):
        if isinstance(found, Note):
            yield found
        else:
            yield from chains.convert(*found)
    yield from chains.list_notes()


def list_entries(source: Source) -> Iterator[Entry]:
    return _read_conversations(source).list_entries()


def read(source: Source, entry: Entry) -> Thread:
    return Thread(_read_conversations(source).build_session(entry.id, NAME))


IMPORTER = Importer(
    NAME,
    "OpenAI Responses log (JSON, JSON lines or cassette)",
    sniff,
    read,
    list_entries,
    wants="body with `input`, nor a response with `output`",
    right="chains by `previous_response_id`; streams; compactions; background mode",
    version=2,
)
