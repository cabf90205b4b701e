"""The tables of threads and messages: a database, and its rows as CSV and JSON."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, database, list_claims, output_tokens, prompt_tokens, survives, texts, threads
from turnscope.importers.thread_tables import IMPORTER

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
