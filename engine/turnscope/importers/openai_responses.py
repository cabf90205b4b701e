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
    TIME_KEYS,
    as_text,
    is_cassette,
    iter_records,
    parse_if_json,
    parse_time,
    unwrap_body,
)
from turnscope.reading.content_blocks import as_mapping, as_rows, convert_item
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.messages import build_body
from turnscope.reading.nodes import SkippedRecords
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread

NAME = "openai-responses"
SETTINGS = ("reasoning", "text", "temperature", "truncation", "max_output_tokens", "tool_choice", "store", "stream", "metadata")
COMPACTION = "response.compaction"
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
    answer = next((found for key in RESPONSE_KEYS if (found := _find_response(fields.get(key)))), {})
    if inner is not None:
        return inner, answer
    if _is_response(fields):
        return {
            key: fields[key] for key in ("model", "instructions", "tools", "previous_response_id") if fields.get(key)
        }, fields
    return (fields, answer) if _is_body(fields) else ({}, answer) if answer else None


def _is_body(fields: Value) -> bool:
    """Whether a value is a body with `input`. Langfuse's observations have an input and a model, too."""
    called = isinstance(fields.get("input"), (str, list)) and isinstance(fields.get("model"), str)
    return called and not fields.keys() & {"messages", "traceId"}


def _is_response(fields: Value) -> bool:
    return fields.get("object") in ("response", COMPACTION) and isinstance(fields.get("output"), list)


def _find_response(value: Any) -> Value:
    body = unwrap_body(value)
    if isinstance(body, str) and "data:" in body:
        events = [as_mapping(parse_if_json(line[5:].strip())) for line in body.splitlines() if line.startswith("data:")]
        done = ("response.completed", "response.incomplete", "response.failed")
        body = next((event.get("response") for event in reversed(events) if event.get("type") in done), None)
    return as_mapping(body) if _is_response(as_mapping(body)) else {}


def _make_messages(items: Any, passed: SkippedRecords) -> list[JSON]:
    """Items as messages: neighbours of one role are one message."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}] if items else []
    found: list[dict[str, Any]] = []
    for one in as_rows(items):
        role, blocks = convert_item(one)
        if one.get("type") in ("compaction", "context_compaction"):  # an answer, known again where it is sent back
            role, blocks = "assistant", [{key: value for key, value in blocks[0].items() if key not in ("id", "created_by")}]
        results = bool(blocks) and all(block["type"] == "tool_result" for block in blocks)
        last = found[-1] if found else {}
        if last.get("role") == role == "assistant" or (results and last.get("results")):
            last["content"] = [*last["content"], *blocks]
        elif role:
            found.append({"role": role, "content": blocks, "results": results})
        else:
            passed.add(one.get("type") or "item", one)
    return [{"role": one["role"], "content": one["content"]} for one in found]


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
    known: dict[str, list[JSON]] = {}  # the conversation up to the end of a response
    passed = SkippedRecords()
    for found in _list_exchanges(source):
        if isinstance(found, Note):
            yield found
            continue
        body, response, record, line = found
        before = as_text(body.get("previous_response_id"))
        if before and before not in known:
            yield Note("warning", line, "a call goes on from a response that the log does not hold: its beginning is not known")
        messages = [*known.get(before, ()), *_make_messages(body.get("input"), passed)]
        answers = _make_messages(response.get("output"), passed)
        if id := as_text(response.get("id")):
            known[id] = [*messages, *answers]
        yield _make_call(body, response, record, line, messages, answers)
    builder = Builder("", NAME)
    passed.add_notes(builder)
    yield from builder.notes


def _make_call(body: Value, response: Value, record: Value, line: int, messages: list[JSON], answers: list[JSON]) -> Call:
    """One call. A compaction answers with what stands for the history; the prompts in it are no words of the model."""
    lead: list[JSON] = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    settings = {key: body[key] for key in SETTINGS if body.get(key) is not None}
    tools = body.get("tools")
    whole = build_body([*lead, *messages], tools if isinstance(tools, list) else (), **settings)
    compacted = response.get("object") == COMPACTION
    content = [block for message in answers for block in message["content"]]
    content = [block for block in content if not compacted or block.get("type") == "compaction"]
    about: dict[str, Any] = {
        "model": as_text(response.get("model")) or as_text(body.get("model")),
        "id": as_text(response.get("id")),
        "usage": convert_usage(response.get("usage")),
        "stop_reason": "compaction" if compacted else as_text(response.get("status")) or None,
        "sent_at": parse_time(response.get("created_at"))
        or next((at for k in TIME_KEYS if (at := parse_time(record.get(k)))), None),
        "answered_at": parse_time(response.get("completed_at")),
    }
    failed = as_text(as_mapping(response.get("error")).get("message")) or ("" if content else "no answer is logged")
    return Call(whole, {"content": content} if content else None, about, "" if content else failed, line)


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
