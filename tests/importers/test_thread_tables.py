"""The tables of threads and messages: a database, and its rows as CSV and JSON."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, database, list_claims, output_tokens, prompt_tokens, survives, texts, threads
from turnscope.errors import BrokenFile, TurnscopeError
from turnscope.importers.thread_tables import IMPORTER
from turnscope.reading.registry import find_session_paths

USED = {"input_tokens": 30, "output_tokens": 7, "model": "m-1"}
ROWS: list[dict[str, Any]] = [
    {
        "id": 2,
        "thread_id": "a",
        "role": "assistant",
        "content": 'done,\n"so"',
        "created_at": "2026-01-01T00:00:04+00:00",
        "metadata": USED,
    },
    {"id": 1, "thread_id": "a", "role": "user", "content": "go", "created_at": "2026-01-01T00:00:00+00:00", "metadata": {}},
    {"id": 3, "thread_id": "b", "role": "user", "content": "hi", "created_at": "2026-01-01T00:00:09+00:00", "metadata": {}},
    {
        "id": 4,
        "thread_id": "b",
        "role": "assistant",
        "content": "cut o",
        "created_at": "2026-01-01T00:00:10+00:00",
        "metadata": {"status": "interrupted"},
    },
]


def format_csv(rows: list[dict[str, Any]]) -> bytes:
    held = StringIO()
    writer = csv.DictWriter(held, list(rows[0]))
    writer.writeheader()
    writer.writerows([{**row, "metadata": json.dumps(row["metadata"])} for row in rows])
    return held.getvalue().encode()


FILES = [
    format_csv(ROWS),
    data_of(ROWS),
    data_of(ROWS, lines=True),
    data_of({"conversation_threads": [], "conversation_messages": ROWS}),
]


@pytest.mark.parametrize("data", FILES, ids=["csv", "list", "lines", "tables"])
def test_rows_are_put_in_order(data: bytes) -> None:
    one, two = (thread.session for thread in threads(data, "made.csv"))
    assert (one.id, texts(one), texts(two)) == ("a", ["go", 'done,\n"so"'], ["hi", "cut o"])
    assert (prompt_tokens(one), output_tokens(one), one.requests[0].model, one.source) == (30, 7, "m-1", IMPORTER.name)
    assert (one.requests[0].answered_at or 0) - (one.requests[0].sent_at or 0) == 4
    assert (two.requests[0].stop_reason, two.requests[0].usage) == ("interrupted", None)
    assert two.notes[0].what.startswith("1 answers were interrupted")


def test_a_database_lists_its_threads(tmp_path: Path) -> None:
    path = database(tmp_path / "x.db", {"conversation_threads": [{"thread_id": "a"}], "conversation_messages": ROWS})
    assert list_claims(path) == [IMPORTER.name]
    assert [(session.id, texts(session)[0]) for session in turnscope.load_all(path)] == [("b", "hi"), ("a", "go")]


def test_nothing_breaks() -> None:
    assert survives(ROWS, lines=True, count=40)
    assert survives(ROWS, count=40)


CREATED = """
CREATE TABLE public.conversation_messages (
    id integer NOT NULL,
    thread_id text DEFAULT 'x'::text,
    role text,
    content text,
    metadata jsonb,
    created_at timestamp with time zone,
    CONSTRAINT roles CHECK ((role <> ''::text))
);

CREATE TABLE public.conversation_threads (
    id text NOT NULL,
    user_id text,
    title text
);

"""
HEAD = "--\n-- PostgreSQL database dump\n--\n\nSET client_encoding = 'UTF8';\n"
HARD = "tab\there; 'quoted'\nINSERT INTO public.conversation_messages VALUES (9, 'a', 'user', 'no', NULL, NULL);\n\\. \\N end"
STORED = [{**row, "content": HARD if row["id"] == 1 else row["content"]} for row in ROWS]
NAMES = ["id", "thread_id", "role", "content", "metadata", "created_at"]
THREAD = {"id": "a", "user_id": "u-42", "title": "It's odd"}


def list_values(row: dict[str, Any]) -> list[str | None]:
    return [json.dumps(row[name]) if name == "metadata" else str(row[name]) for name in NAMES]


def dump_copied() -> bytes:
    """As `pg_dump` writes tables; see "Text Format" of COPY in PostgreSQL's manual."""
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

    def block(table: str, names: list[str], rows: list[list[str | None]]) -> str:
        lines = ("\t".join("\\N" if one is None else one.translate(escapes) for one in row) for row in rows)
        return f"COPY public.{table} ({', '.join(names)}) FROM stdin;\n" + "".join(f"{line}\n" for line in lines) + "\\.\n\n\n"

    messages = block("conversation_messages", NAMES, [list_values(row) for row in STORED])
    return (HEAD + CREATED + messages + block("conversation_threads", [*THREAD], [[*THREAD.values()]])).encode()


def dump_inserted(*, columns: bool, several: bool = False) -> bytes:
    """As `pg_dump --inserts`, `--column-inserts` and `--rows-per-insert` write tables."""

    def quote(value: str | None) -> str:
        if value is None:
            return "NULL"
        return value if value.isdecimal() else "'" + value.replace("'", "''") + "'"

    def write(table: str, names: list[str], rows: list[list[str | None]]) -> str:
        named = f" ({', '.join(names)})" if columns else ""
        values = [f"({', '.join(map(quote, row))})" for row in rows]
        groups = [",\n\t".join(values)] if several else values
        gap = "\n\t" if several else " "
        return "".join(f"INSERT INTO public.{table}{named} VALUES{gap}{group};\n" for group in groups)

    other = "INSERT INTO public.notes VALUES (1, 'x\n" + "INSERT INTO public.conversation_messages VALUES (7);\n');\n"
    messages = write("conversation_messages", NAMES, [list_values(row) for row in STORED])
    return (HEAD + CREATED + other + messages + write("conversation_threads", [*THREAD], [[*THREAD.values()]])).encode()


DUMPS = [dump_copied(), *(dump_inserted(columns=c, several=s) for c, s in ((False, False), (True, False), (False, True)))]


@pytest.mark.parametrize("data", DUMPS, ids=["copy", "inserts", "columns", "rows"])
def test_a_dump_of_postgresql_holds_what_the_tables_hold(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(data)
    assert list_claims(path) == [IMPORTER.name]
    one, two = turnscope.load_all(path)
    assert (one.id, texts(one), texts(two)) == ("a", [HARD, 'done,\n"so"'], ["hi", "cut o"])
    assert (prompt_tokens(one), output_tokens(one), one.requests[0].model) == (30, 7, "m-1")
    assert (one.title, one.about["user_id"], two.requests[0].stop_reason) == ("It's odd", "u-42", "interrupted")
    assert [Path(each).name for each in find_session_paths([path])] == ["dump.sql"]
    for cut in range(0, len(data), 97):
        with suppress(TurnscopeError):
            turnscope.load_all(write(tmp_path / "cut.sql", data[:cut]))


SPECIFIED = ["id", "thread_id", "role", "content", "created_at", "metadata"]


def dump_data(names: list[str]) -> bytes:
    """As `pg_dump --data-only --inserts` writes the table of messages."""
    rows = [{**row, "metadata": json.dumps(row["metadata"])} for row in STORED]
    values = ("', '".join(str(row[name]).replace("'", "''") for name in names) for row in rows)
    return (HEAD + "".join(f"INSERT INTO chats.conversation_messages VALUES ('{each}');\n" for each in values)).encode()


def test_a_dump_of_data_alone_has_the_columns_of_the_specification(tmp_path: Path) -> None:
    threads = "INSERT INTO chats.conversation_threads VALUES ('a', 'u-42', '2026-01-01 00:00:00+00', NULL);\n"
    one, two = turnscope.load_all(write(tmp_path / "data.sql", dump_data(SPECIFIED) + threads.encode()))
    assert (texts(one), texts(two)) == ([HARD, 'done,\n"so"'], ["hi", "cut o"])
    assert (prompt_tokens(one), one.about["user_id"], one.notes) == (30, "u-42", ())


def test_a_dump_of_data_alone_with_other_columns_wants_their_names(tmp_path: Path) -> None:
    path = write(tmp_path / "data.sql", dump_data(NAMES))
    with pytest.raises(
        BrokenFile, match=r"data\.sql holds rows of conversation_messages, but names no column of them"
    ) as caught:
        turnscope.load(path)
    assert caught.value.hint == "Dump it again with --column-inserts, or without --data-only."
    (tmp_path / "schema.sql").write_text("create table " + CREATED.partition("CREATE TABLE ")[2])
    assert texts(turnscope.load_all(path)[0]) == [HARD, 'done,\n"so"']


def test_threads_whose_columns_are_not_known_leave_their_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "data.sql", dump_data(SPECIFIED) + b"INSERT INTO conversation_threads VALUES ('a', 1);\n")
    one, _ = turnscope.load_all(path)
    assert texts(one)[0] == HARD
    assert "holds rows of conversation_threads, but names no column" in one.notes[0].what


@pytest.mark.parametrize("data", [dump_copied(), dump_data(SPECIFIED)], ids=["copy", "inserts"])
def test_rows_at_the_end_of_a_cut_dump_are_told(tmp_path: Path, data: bytes) -> None:
    session = turnscope.load(write(tmp_path / "cut.sql", data[: data.rindex(b"cut o") + 3]), "b")
    assert texts(session) == ["hi"]
    assert "1 row of conversation_messages could not be read: the dump is cut" in session.notes[0].what


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_user_and_the_title_of_a_thread(tmp_path: Path) -> None:
    tables = {"conversation_threads": [THREAD], "conversation_messages": ROWS}
    for path in (database(tmp_path / "x.db", tables), write(tmp_path / "x.json", data_of(tables))):
        one = next(session for session in turnscope.load_all(path) if session.id == "a")
        assert (one.title, one.about["user_id"]) == ("It's odd", "u-42")
    repeated = write(tmp_path / "rows.json", data_of([{**row, "user_id": "u-7"} for row in ROWS]))
    assert turnscope.load(repeated).about == {"user_id": "u-7"}
