"""Conversations in the tables `conversation_threads` and `conversation_messages`: SQLite, a dump of PostgreSQL, or rows as CSV,
JSON or JSON lines.

Usage and model stand in an answer's metadata, as does `status: "interrupted"`; title and user in the row of the thread. Longer
than a mapping because of six holders. From the specification; no real sample exists.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from turnscope.errors import BrokenFile
from turnscope.importers import Importer
from turnscope.reading import postgres_dump
from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "thread-tables"
COLUMNS = {"thread_id", "role", "content"}
LISTED = (
    "select thread_id, max(created_at) as at, sum(role = 'assistant') as n from conversation_messages "
    "group by thread_id order by at desc"
)
MESSAGES, THREADS = "conversation_messages", "conversation_threads"
SCHEMA = {  # the tables' columns as they were specified
    MESSAGES: ("id", "thread_id", "role", "content", "created_at", "metadata"),
    THREADS: ("thread_id", "user_id", "created_at", "updated_at"),
}
ROLES = ("user", "assistant", "system", "tool")
LARGEST_SCHEMA = 1 << 22  # bytes of a file beside a dump that is searched for CREATE TABLE
FACTS = ("user_id", "created_at", "updated_at")  # columns of a thread that are kept
LONGEST = 1 << 28  # characters of a cell
Row = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind == "sqlite":
        return 90 if "conversation_messages" in source.list_tables() else 0
    if source.kind != "file":
        return 0
    if _is_dump(source):
        return 90
    document = source.document
    if isinstance(document, dict) and "conversation_messages" in document:
        return 90
    if document is None and source.head[:1] not in (b"{", b"["):
        names = source.head.split(b"\n")[0].decode("utf-8-sig", "replace").strip().replace('"', "").split(",")
        return 90 if {*names} >= COLUMNS else 0
    first = next(iter(document[:1]), None) if isinstance(document, list) else document or next(iter(source.first), None)
    return 85 if isinstance(first, dict) and first.keys() >= COLUMNS and first.keys() & {"created_at", "metadata"} else 0


def _is_dump(source: Source) -> bool:
    """Whether a file is a dump of PostgreSQL with the table of messages."""
    return source.head.lstrip(b"\xef\xbb\xbf \r\n").startswith(postgres_dump.HEADS) and postgres_dump.has_rows(
        source.data, MESSAGES
    )


def _iter_dumped(source: Source, table: str) -> Iterator[Row]:
    """The rows of a table of a dump. A dump of data alone may name no column: then a schema beside it does, or the table's own.

    BrokenFile where none fits. Rows that cannot be read are told in a note.
    """
    dump, unread = source.data.decode("utf-8", "replace"), 0
    near = [] if postgres_dump.list_columns(dump, table) else _find_columns(source, table)

    def guess(row: postgres_dump.Values) -> Sequence[str]:
        return near or (SCHEMA[table] if _fits(dict(zip(SCHEMA[table], row, strict=False)), len(row), table) else ())

    try:
        for row in postgres_dump.iter_rows(dump, table, guess):
            unread += row is None
            yield from [row] if row is not None else ()
    except postgres_dump.UnknownColumns as error:
        what = f"{source.path.name} holds rows of {table}, but names no column of them"
        raise BrokenFile(what, hint="Dump it again with --column-inserts, or without --data-only.") from error
    if unread:
        why = "the dump is cut, or holds what is no value"
        _add_note(
            source, Note("warning", 0, f"{unread} {'row' if unread == 1 else 'rows'} of {table} could not be read: {why}")
        )


def _find_columns(source: Source, table: str) -> list[str]:
    """The columns of a table as a file of SQL beside a dump creates it."""
    files = (file for file in source.find_siblings("*.sql") if file.path != source.path and file.size <= LARGEST_SCHEMA)
    listed = (postgres_dump.list_columns(file.data.decode("utf-8", "replace"), table) for file in files)
    return next(filter(None, listed), [])


def _fits(row: Mapping[str, str | None], count: int, table: str) -> bool:
    """Whether so many values are a row of the table as it was specified."""
    timed = all(row.get(name) is None or parse_time(row[name]) is not None for name in row if name.endswith("_at"))
    return count == len(SCHEMA[table]) and timed and row.get("role", "user") in ROLES


def _find_thread(source: Source, id: str) -> Row:
    """The row of a thread; an empty one where the file has none."""
    if "about" not in source.cache:
        source.cache["about"] = [row for row in _list_threads(source) if isinstance(row, Mapping)]
    return next((row for row in source.cache["about"] if id in (str(row.get("id")), str(row.get("thread_id")))), {})


def _list_threads(source: Source) -> list[Any]:
    """The rows of threads in a file. What is said of threads may be missing: messages are read all the same."""
    if source.kind == "sqlite":
        return list(source.query("select * from conversation_threads")) if THREADS in source.list_tables() else []
    if not _is_dump(source):
        return list(as_rows(as_mapping(source.document).get(THREADS)))
    try:
        return list(_iter_dumped(source, THREADS))
    except BrokenFile as error:
        _add_note(source, Note("warning", 0, f"{error.what}: titles and users are not known"))
        return []


def _add_note(source: Source, note: Note) -> None:
    source.cache.setdefault("notes", []).append(note)


def _describe_thread(source: Source, rows: list[Row], id: str) -> dict[str, JSON]:
    """What is known of a thread: from its row, or from columns that its messages repeat."""
    thread = _find_thread(source, id)
    known = {key: thread[key] for key in FACTS if isinstance(thread.get(key), (str, int)) and thread[key]}
    users = (row.get("user_id") for row in rows)
    user = next((user for user in users if isinstance(user, (str, int)) and user), None)
    return {"title": as_text(thread.get("title")), **({"user_id": user} if user else {}), **known}


def _iter_stored(source: Source) -> Iterator[Any]:
    """The rows of messages in a file."""
    if _is_dump(source):
        yield from _iter_dumped(source, MESSAGES)
        return
    document = source.document
    if isinstance(document, dict) and "conversation_messages" in document:
        yield from as_rows(document["conversation_messages"])
    elif document is None and source.head[:1] not in (b"{", b"["):
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # a message may be longer than what is usual
        yield from csv.DictReader(StringIO(source.data.decode("utf-8-sig", "replace"), newline=""))
    else:
        for value, _ in source.iter_values():
            yield from value if isinstance(value, list) else [value]


def _group_threads(source: Source) -> dict[str, list[Row]]:
    """The rows of each thread of a file, in order."""
    if "threads" not in source.cache:
        found: dict[str, list[Row]] = {}
        try:
            for row in _iter_stored(source):
                if isinstance(row, Mapping):
                    found.setdefault(str(row.get("thread_id")), []).append(row)
        except csv.Error as error:
            _add_note(source, Note("error", 0, f"the rest is not readable as CSV: {error}"))
        for rows in found.values():
            rows.sort(key=_make_sort_key)
        source.cache["threads"] = found
    threads: dict[str, list[Row]] = source.cache["threads"]
    return threads


def _make_sort_key(row: Row) -> tuple[float, int]:
    id = str(row.get("id"))
    return parse_time(row.get("created_at")) or 0.0, int(id) if id.isdecimal() and len(id) < 20 else 0


def list_entries(source: Source) -> Iterator[Entry]:
    if source.kind == "sqlite":
        for row in source.query(LISTED):
            yield Entry(str(row["thread_id"]), "", parse_time(row["at"]), requests=int(row["n"] or 0))
        return
    for id, rows in _group_threads(source).items():
        yield Entry(
            id, "", parse_time(rows[-1].get("created_at")), requests=sum(row.get("role") == "assistant" for row in rows)
        )


def read(source: Source, entry: Entry) -> Thread:
    if source.kind == "sqlite":
        sql = "select * from conversation_messages where cast(thread_id as text) = ? order by created_at, rowid"
        rows: list[Row] = list(source.query(sql, (entry.id,)))
    else:
        rows = _group_threads(source)[entry.id]
    about = _describe_thread(source, rows, entry.id)
    builder, passed = Builder(entry.id, NAME, as_text(about.pop("title")), **about), SkippedRecords()
    builder.notes += source.cache.get("notes", ())
    messages = [{**row, "metadata": _parse_metadata(row), "content": _convert_content(row)} for row in rows]
    nodes = list(make_nodes(messages, _make_request, passed, "created_at"))
    cut = sum(row["metadata"].get("status") == "interrupted" for row in messages)
    if cut:
        builder.add_note("info", 0, f"{cut} answers were interrupted: what the client had got is kept")
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _parse_metadata(row: Row) -> Row:
    metadata = row.get("metadata")
    return as_mapping(parse_if_json(metadata) if isinstance(metadata, str) else metadata)


def _convert_content(row: Row) -> Any:
    """The content; blocks may stand in the column as JSON text."""
    content = row.get("content")
    inner = parse_if_json(content) if isinstance(content, str) and content[:2] == "[{" else content
    return inner if isinstance(inner, list) and all("type" in as_mapping(part) for part in inner) else content


def _make_request(row: Row) -> dict[str, Any]:
    about = as_mapping(row.get("metadata"))
    stopped = as_text(about.get("status")) or as_text(about.get("stop_reason"))
    used = as_mapping(about.get("usage")) or about
    return {
        "model": as_text(about.get("model")),
        "usage": convert_usage(used),
        "stop_reason": stopped or None,
        "logged_usd": parse_usd(about.get("cost")),
    }


IMPORTER = Importer(
    NAME,
    "Thread tables (SQLite, PostgreSQL dump, or rows as CSV or JSON)",
    sniff,
    read,
    list_entries,
    suffixes=(".json", ".jsonl", ".csv", ".sql", ".db", ".sqlite", ".sqlite3"),
    wants="tables `conversation_threads` and `conversation_messages`",
    right="interrupted answers; usage and model of the metadata; title and user of the thread",
    sample=False,
    version=3,
)
