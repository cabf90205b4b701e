"""Folders of raw request bodies that Claude Code writes with `OTEL_LOG_RAW_API_BODIES=file:DIR`.

`index.jsonl` names for each call its session, the file of its request and the file of its response. Both are the bodies as they
were, but for the text of thinking, which is redacted: it is taken as not in the log, so that its signature tells its size. A
session of the folder has the id of its transcript, and its requests the ids of that transcript's answers. Calls of a session
that share nothing with its first conversation are those of its subagents. Longer than a mapping, for bodies that no line of the
index names, and for the subagents.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from turnscope.importers import Importer
from turnscope.reading.anthropic_calls import convert_call
from turnscope.reading.calls import Exchange, as_text, describe_failure, parse_time
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.conversations import Call, Conversations, group_calls, hang_below_call
from turnscope.reading.raw_bodies import INDEX, open_body, read_request, restore_thinking
from turnscope.reading.source import Entry, Source
from turnscope.session.model import EXACT_REQUESTS, Note, Session
from turnscope.session.thread import Thread

NAME = "raw-bodies"
ENDS = (".request.json", ".response.json")


def sniff(source: Source) -> int:
    index = _find_index(source)
    first = index.first if index is not None else ()
    named = (record for record in first if isinstance(record, dict) and record.get("session_id"))
    return 95 if any(isinstance(record.get("request_file"), str) for record in named) else 0


def _find_index(source: Source) -> Source | None:
    """The index of a folder, or of a body in it; any other file itself."""
    return source if source.kind == "file" and not source.path.name.endswith(ENDS) else source.open_sibling(INDEX)


def find_main_path(path: Path) -> Path:
    """A body opens as the log that it is a part of."""
    index = path.with_name(INDEX)
    return index if path.name.endswith(ENDS) and index.is_file() else path


def find_transcripts(source: Source) -> dict[str, str]:
    """The sessions of an index, each with the name of its transcript, which gets the bodies. A body stands in the index."""
    if source.path.name.endswith(ENDS) and source.kind == "file" and sniff(source):
        return {"": INDEX}
    if source.path.name != INDEX or source.kind != "file" or not sniff(source):
        return {}
    named = (as_text(as_mapping(record).get("session_id")) for record, _ in source.iter_records())
    return {id: f"{id}.jsonl" for id in named if id}


def list_entries(source: Source) -> Iterator[Entry]:
    for session, found in _gather(source).items():
        first = found.all[0]
        count = sum(len(one.sent) for one in found.all)
        yield Entry(session, first.title, first.sent[0].call.about.get("sent_at"), requests=count)


def read(source: Source, entry: Entry) -> Thread:
    sessions = _gather(source)
    found = sessions[entry.id] if entry.id else next(iter(sessions.values()))
    first, *others = found.list_entries()
    main = _state_exact(found.build_session(first.id, NAME))
    subagents = (_state_exact(found.build_session(other.id, NAME)) for other in others)
    return Thread(structs.replace(main, subagents=tuple(hang_below_call(one, main) for one in subagents)))


def _state_exact(session: Session) -> Session:
    return structs.replace(session, about={**session.about, EXACT_REQUESTS: {"requests": len(session.requests), "proven": 0}})


def _gather(source: Source) -> dict[str, Conversations]:
    """The calls of each session, by its id, the session with the most first; read once."""
    if "raw-bodies" not in source.cache:
        calls: dict[str, list[Call | Note]] = {}
        named: set[str] = set()
        for record, line in (_find_index(source) or source).iter_records():
            if isinstance(record, dict) and isinstance(record.get("request_file"), str):
                named.add(record["request_file"])
                calls.setdefault(as_text(record.get("session_id")), []).extend(_read_call(source, record, line))
        for note, session in _note_unlisted(source, named):
            calls.get(session, next(iter(calls.values()), [])).append(note)
        found = {id: group_calls(own, id) for id, own in calls.items()}
        whole = {id: one for id, one in found.items() if one.all}
        source.cache["raw-bodies"] = dict(sorted(whole.items(), key=lambda item: -sum(len(one.sent) for one in item[1].all)))
    conversations: dict[str, Conversations] = source.cache["raw-bodies"]
    return conversations


def _note_unlisted(source: Source, named: Collection[str]) -> Iterator[tuple[Note, str]]:
    """Notes about bodies that no line of the index names, each with its session; "" = unknown. A line comes with an answer.

    Args:
        source: The folder, or its index.
        named: Names of the bodies that the index has.
    """
    for body in source.find_siblings(f"*{ENDS[0]}"):
        if body.path.name not in named:
            why = "it was aborted, or the answer is still to come; left out"
            yield (
                Note("warning", 0, f"the request {body.path.name} has no line in {INDEX}: {why}"),
                _find_session(body.document),
            )


def _find_session(body: Any) -> str:
    """The session that a body names in its metadata: as JSON, or behind `session_`; "" = none."""
    user = as_text(as_mapping(as_mapping(body).get("metadata")).get("user_id"))
    try:
        return as_text(as_mapping(json.loads(user)).get("session_id"))
    except (ValueError, RecursionError):
        return user.rpartition("session_")[2]


def _read_call(source: Source, record: dict[str, Any], line: int) -> Iterator[Call | Note]:
    """The call that a line of the index names, and notes on what of it cannot be read."""
    body = read_request(source, record["request_file"])
    if body is None:
        yield Note("warning", line, f"the body {record['request_file']} is not in the folder, or holds no messages; left out")
        return
    name = record.get("response_file")
    answer = open_body(source, name) if isinstance(name, str) else None
    response = restore_thinking(answer.document, {}) if answer is not None else None
    if response is None and name:
        yield Note("warning", line, f"the answer {name} is not in the folder, or is no JSON: this request has no answer")
    body = {**body, "messages": [restore_thinking(message, {}) for message in body["messages"]]}
    found = Exchange(body, response, line, None, parse_time(record.get("timestamp")))
    found.error = describe_failure(found)
    yield convert_call(found)


IMPORTER = Importer(
    NAME,
    "Raw API bodies of Claude Code (folder or its index.jsonl)",
    sniff,
    read,
    list_entries,
    part_of=find_main_path,
    repeats=find_transcripts,
    suffixes=(".json", ".jsonl"),
    wants="`index.jsonl` whose lines name `session_id` and `request_file`",
    right="every body as it was sent, under the id of the transcript's session; subagents",
    version=3,
)
