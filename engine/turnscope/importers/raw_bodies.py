"""Folders of raw request bodies that Claude Code writes with `OTEL_LOG_RAW_API_BODIES=file:DIR`.

`index.jsonl` names for each call its session, the file of its request and the file of its response; both are the bodies as
they were. A session of the folder has the id of its transcript, and its requests the ids of that transcript's answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from msgspec import structs

from turnscope.importers import Importer
from turnscope.reading.anthropic_calls import convert_call
from turnscope.reading.calls import Exchange, as_text, describe_failure, is_body, parse_time
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.source import Entry, Source
from turnscope.session.model import EXACT_REQUESTS, Note
from turnscope.session.thread import Thread

NAME = "raw-bodies"
INDEX = "index.jsonl"
ENDS = (".request.json", ".response.json")


def sniff(source: Source) -> int:
    index = source if source.kind == "file" else source.open_sibling(INDEX)
    first = index.first if index is not None else ()
    named = (record for record in first if isinstance(record, dict) and record.get("session_id"))
    return 95 if any(isinstance(record.get("request_file"), str) for record in named) else 0


def find_main_path(path: Path) -> Path:
    """A body opens as the log that it is a part of."""
    index = path.with_name(INDEX)
    return index if path.name.endswith(ENDS) and index.is_file() else path


def list_entries(source: Source) -> Iterator[Entry]:
    for session, found in _gather(source).items():
        first = found.all[0]
        count = sum(len(one.sent) for one in found.all)
        yield Entry(session, first.title, first.sent[0].call.about.get("sent_at"), requests=count)


def read(source: Source, entry: Entry) -> Thread:
    sessions = _gather(source)
    found = sessions[entry.id] if entry.id else next(iter(sessions.values()))
    session = found.build_session("", NAME)
    about = {**session.about, EXACT_REQUESTS: {"requests": len(session.requests), "proven": 0}}
    return Thread(structs.replace(session, about=about))


def _gather(source: Source) -> dict[str, Conversations]:
    """The calls of each session, by its id, the session with the most first; read once."""
    if "raw-bodies" not in source.cache:
        calls: dict[str, list[Call | Note]] = {}
        for record, line in (source if source.kind == "file" else source.open_sibling(INDEX) or source).iter_records():
            if isinstance(record, dict) and isinstance(record.get("request_file"), str):
                calls.setdefault(as_text(record.get("session_id")), []).append(_read_call(source, record, line))
        found = {id: group_calls(own, id) for id, own in calls.items()}
        whole = {id: one for id, one in found.items() if one.all}
        source.cache["raw-bodies"] = dict(sorted(whole.items(), key=lambda item: -sum(len(one.sent) for one in item[1].all)))
    conversations: dict[str, Conversations] = source.cache["raw-bodies"]
    return conversations


def _open_body(source: Source, name: str) -> Source | None:
    """The file of that name in the folder; None for a name that leads out of it."""
    return source.open_sibling(name) if name == PurePath(name).name else None


def _read_call(source: Source, record: dict[str, Any], line: int) -> Call | Note:
    """The call that a line of the index names."""
    request = _open_body(source, record["request_file"])
    body = request.document if request is not None else None
    if not isinstance(body, dict) or not is_body(body):
        return Note("warning", line, f"the body {record['request_file']} is not in the folder, or holds no messages; left out")
    name = record.get("response_file")
    answer = _open_body(source, name) if isinstance(name, str) else None
    found = Exchange(body, answer.document if answer is not None else None, line, None, parse_time(record.get("timestamp")))
    found.error = describe_failure(found)
    return convert_call(found)


IMPORTER = Importer(
    NAME,
    "Raw API bodies of Claude Code (folder or its index.jsonl)",
    sniff,
    read,
    list_entries,
    part_of=find_main_path,
    suffixes=(".json", ".jsonl"),
    wants="`index.jsonl` whose lines name `session_id` and `request_file`",
    right="every body as it was sent, under the id of the transcript's session",
)
