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
from turnscope.reading.messages import build_body, convert_message, find_answers, find_messages
from turnscope.reading.source import Entry, Source
from turnscope.reading.streams import join_converse, join_google, parse_events
from turnscope.reading.usage import convert_usage
from turnscope.session.model import Note
from turnscope.session.thread import Thread

NAME = "other-apis"
ADDRESSES = (b":generateContent", b":streamGenerateContent", b"/converse")  # what cassettes of the two APIs name
SNIFFED = 5  # records that are looked at
USAGE = {
    "thoughtsTokenCount": "reasoning_tokens",
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
}
USAGE |= {"cachedContentTokenCount": "cached_content_token_count", "totalTokenCount": "total_token_count"}
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
    response = as_mapping(rename_google_keys(_join_response(unwrap_body(response))))
    listed = as_rows(body.get("tools")) or as_rows(as_mapping(body.get("toolConfig")).get("tools"))
    tools = [inner for tool in listed for inner in as_rows(tool.get("functionDeclarations")) or [tool]]
    used = as_mapping(response.get("usageMetadata")) or as_mapping(response.get("usage"))
    first = next(iter(as_rows(response.get("candidates"))), {})
    reason = as_text(first.get("finishReason")) or as_text(response.get("stopReason"))
    model = as_text(response.get("modelVersion")) or as_text(body.get("modelId")) or as_text(body.get("model"))
    about: dict[str, Any] = {"model": model or as_text(held.get("model")), "stop_reason": reason or None}
    about["usage"] = convert_usage({USAGE.get(key, key): count for key, count in _add_tool_tokens(used).items()})
    about["sent_at"] = next((at for key in TIME_KEYS if (at := parse_time(held.get(key))) is not None), None)
    content = [block for message in find_answers(response) for block in convert_message(message)[1]]
    return Call(build_body(find_messages(body), tools), {"content": content} if content else None, about, "", line)


def _add_tool_tokens(used: Value) -> Value:
    """Google counts what its own tools put into the prompt apart from the prompt; the total has both."""
    prompt, more = used.get("promptTokenCount"), used.get("toolUsePromptTokenCount")
    if isinstance(prompt, int) and isinstance(more, int):
        return {**used, "promptTokenCount": prompt + more}
    return used


def _join_response(response: Any) -> Value:
    """A response of either API; of a stream what its chunks or events come to."""
    if isinstance(response, str):
        response = list(parse_events(response))
    if not isinstance(response, list):
        return as_mapping(response)
    chunks = [dict(one) for one in as_rows(response)]
    chunks = [dict(as_mapping(rename_google_keys(one))) for one in chunks]
    google = any(one.keys() & {"candidates", "usageMetadata"} for one in chunks)
    return (join_google(chunks) if google else join_converse(chunks)) or {}


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
