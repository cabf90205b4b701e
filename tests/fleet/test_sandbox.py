"""SQL that somebody types reads the tables of a fleet, and nothing else on this machine or any other."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from turnscope.errors import TurnscopeError
from turnscope.fleet import sandbox as sandboxes
from turnscope.fleet.dataset import Fleet, open_fleet
from turnscope.fleet.sandbox import MOST_CHARACTERS, MOST_RESULT, MOST_SHOWN, Queries, Query, Sandbox

from tests.fleet.conftest import make_fleet

HOSTILE = {
    "attach": "ATTACH '{folder}/other.db'",
    "attach a database": "SELECT * FROM '{folder}/other.db'",
    "copy out": "COPY (SELECT 1) TO '{folder}/out.csv'",
    "copy over a table": "COPY (SELECT 1 AS session) TO '{table}' (FORMAT parquet)",
    "explain that copies": "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
    "export": "EXPORT DATABASE '{folder}'",
    "read_csv": "SELECT * FROM read_csv('{folder}/secret.txt')",
    "read_text": "SELECT * FROM read_text('{folder}/secret.txt')",
    "read_blob": "SELECT * FROM read_blob('{folder}/secret.txt')",
    "read_json": "SELECT * FROM read_json('{folder}/secret.txt')",
    "sniff_csv": "SELECT * FROM sniff_csv('{folder}/secret.txt')",
    "a file as a table": "SELECT * FROM '{folder}/secret.txt'",
    "a file through query": "SELECT * FROM query('SELECT * FROM read_text(''{folder}/secret.txt'')')",
    "query_table": "SELECT * FROM query_table('{folder}/secret.txt')",
    "glob": "SELECT * FROM glob('{folder}/*')",
    "http": "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
    "s3": "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "pragma": "PRAGMA database_list",
    "pragma that writes": "PRAGMA enable_profiling='json'",
    "set": "SET enable_external_access = true",
    "set in a query": "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/log')",
    "call": "CALL pragma_version()",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "create a secret": "CREATE SECRET s (TYPE s3)",
    "create a table": "CREATE TABLE t AS SELECT 1",
    "create a macro": "CREATE MACRO m() AS 1",
    "drop": "DROP VIEW requests",
    "insert": "INSERT INTO requests SELECT * FROM requests",
    "insert within": "WITH x AS (INSERT INTO requests SELECT * FROM requests RETURNING *) SELECT * FROM x",
    "update": "UPDATE requests SET usd = 0",
    "delete": "DELETE FROM requests",
    "two statements": "SELECT 1; SELECT 2",
    "a second one that attaches": "SELECT 1; ATTACH '{folder}/other.db'",
    "a comment, then another": "SELECT 1 -- \n; DROP VIEW requests",
    "nothing": "  -- nothing",
    "no SQL": "what did payments cost?",
    "an environment variable": "SELECT getenv('HOME')",
    "a variable of Python": "SELECT * FROM statement",
    "python": "SELECT * FROM python_map_function((SELECT 1))",
    "arrow": "SELECT * FROM arrow_scan(1, 2, 3)",
    "too long": "SELECT 1 " + " " * MOST_CHARACTERS,
    "deep": "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "null bytes": "SELECT 'a\0b' FROM \0",
}


@pytest.fixture(scope="module")
def sandbox(small_fleet: Fleet) -> Sandbox:
    return Sandbox(small_fleet)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_but_the_tables_is_read_and_nothing_is_written(
    sandbox: Sandbox, small_fleet: Fleet, tmp_path: Path, text: str
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    table = Path(small_fleet.list_files("requests")[0])
    before = table.read_bytes()
    with pytest.raises(TurnscopeError) as caught:
        sandbox.run(text.replace("{folder}", str(tmp_path)).replace("{table}", str(table)), seconds=5)
    assert caught.value.what
    assert "secret\n" not in f"{caught.value.what}\n{caught.value.hint}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert table.read_bytes() == before
    assert sandbox.run("SELECT count(*) FROM requests").rows == ((small_fleet.count_rows("requests"),),), "it goes on"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM range(1000000000000) a, range(1000000) b",
        "SELECT * FROM range(100000000000) ORDER BY random()",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM requests a, requests b, requests c WHERE a.prompt * b.prompt < c.prompt",
    ],
)
def test_a_query_without_end_is_stopped(sandbox: Sandbox, text: str) -> None:
    began = time.monotonic()
    with pytest.raises(TurnscopeError):  # stopped, or out of the memory that it may take
        sandbox.run(text, seconds=0.3)
    assert time.monotonic() - began < 30
    assert sandbox.run("SELECT 1").rows == ((1,),)


def test_rows_and_texts_are_limited(sandbox: Sandbox) -> None:
    result = sandbox.run("SELECT n, repeat('x', 5000) AS text FROM range(5000) t(n)", most=1_234)
    assert (len(result.rows), result.whole) == (1_234, False)
    assert result.columns == ("n", "text")
    assert {len(row[1]) for row in result.rows} == {MOST_SHOWN}
    assert sandbox.run("SELECT 1 FROM range(1234)", most=1_234).whole
    with pytest.raises(TurnscopeError, match=r"(?i)memory"):
        sandbox.run("SELECT sum(length(t)) FROM (SELECT string_agg(repeat('x', 1000000), '') AS t FROM range(10000))")


def test_a_query_reads_every_table(sandbox: Sandbox, small_fleet: Fleet) -> None:
    for name in ("sessions", "requests", "decisions", "findings", "losses", "tools", "sources"):
        assert sandbox.run(f"SELECT count(*) FROM {name}").rows == ((small_fleet.count_rows(name),),)
    result = sandbox.run("FROM sessions SELECT team, count(*) AS many, min(started) AS first GROUP BY ALL ORDER BY ALL;")
    assert result.columns == ("team", "many", "first")
    assert sum(row[1] for row in result.rows) == small_fleet.count_rows("sessions")
    assert all(isinstance(row[2], datetime) for row in result.rows)
    assert result.to_csv().splitlines()[0] == "team,many,first"
    assert sandbox.run("DESCRIBE requests").rows


def test_tables_in_object_storage_are_read_and_no_other_object_is() -> None:
    fleet = make_fleet("memory://fleet-of-sandbox", 300, 10, 5)
    fleet.storage.fs.pipe_file("/secret.txt", b"secret")
    queries = Queries(fleet)  # in this process, whose memory no other one sees
    count = queries.run(Query("SELECT count(*) FROM requests", 20, 10))
    assert count.rows == ((fleet.count_rows("requests"),),)
    for text in ("SELECT * FROM read_text('memory://secret.txt')", "SELECT * FROM read_text('memory:///secret.txt')"):
        with pytest.raises(TurnscopeError, match=r"(?i)cannot access"):
            queries.run(Query(text, 20, 10))
    with pytest.raises(TurnscopeError, match="memory of this process"):
        Sandbox(fleet)


def read_status(process: subprocess.Popen[bytes], name: str) -> int:
    """A number of the system about a process, in bytes."""
    line = next(each for each in Path(f"/proc/{process.pid}/status").read_text().splitlines() if each.startswith(name))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the system must limit memory, and say how much was held")
def test_a_query_gets_no_more_memory_than_its_process_may_have(small_fleet: Fleet) -> None:
    sandbox = Sandbox(small_fleet)
    for text in (
        "SELECT length(repeat('x', 4000000000))",
        "SELECT sum(length(repeat(repeat('x', 1000000), 1000))) FROM range(8)",
        "SELECT list_sum(range(2000000000))",
    ):
        with pytest.raises(TurnscopeError, match=r"(?i)memory|over 5 s"):
            sandbox.run(text, seconds=5)
        for process in sandbox._idle:
            assert read_status(process, "VmHWM:") < sandboxes.ROOM + (1 << 30)
    assert sandbox.run("SELECT 1").rows == ((1,),)


def test_a_query_that_does_not_let_itself_be_stopped_is_killed(small_fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(small_fleet)
    sandbox.run("SELECT 1")
    [process] = sandbox._idle
    process.send_signal(signal.SIGSTOP)  # it does not even hear that it is late
    monkeypatch.setattr(sandboxes, "GRACE", 0.2)
    began = time.monotonic()
    with pytest.raises(TurnscopeError, match=r"over 0\.3 s and was stopped"):
        sandbox.run("SELECT 1", seconds=0.3)
    assert time.monotonic() - began < 5
    assert process.poll() is not None
    assert sandbox._idle == []
    assert sandbox.run("SELECT 2").rows == ((2,),)


def test_a_process_that_was_ended_is_started_again(small_fleet: Fleet) -> None:
    sandbox = Sandbox(small_fleet)
    sandbox.run("SELECT 1")
    [process] = sandbox._idle
    process.kill()
    process.wait()
    assert sandbox.run("SELECT 2").rows == ((2,),)
    [process] = sandbox._idle
    del sandbox
    gc.collect()
    assert process.wait(5) is not None, "it ends with the tables"


def test_queries_wait_for_a_place(small_fleet: Fleet) -> None:
    sandbox = Sandbox(small_fleet)
    with ExitStack() as stack:
        for _ in range(sandboxes.AT_ONCE):
            sandbox._places.acquire()
            stack.callback(sandbox._places.release)
        with pytest.raises(TurnscopeError, match="other queries are running"):
            sandbox.run("SELECT 1", seconds=0.1)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(sandbox.run, f"SELECT {n}") for n in range(8)]
        assert [each.result().rows for each in asked] == [((n,),) for n in range(8)]


def test_a_result_has_a_limited_number_of_characters(sandbox: Sandbox) -> None:
    columns = ", ".join(f"repeat('x', 2000) AS c{n}" for n in range(30))
    result = sandbox.run(f"SELECT {columns} FROM range(10000)")
    assert not result.whole
    assert MOST_RESULT <= len(result.rows) * 30 * 2_000 < 1.2 * MOST_RESULT


@pytest.mark.parametrize("verb", ["INSERT INTO sources BY NAME SELECT 'x' AS source_id", "DELETE FROM sources"])
def test_a_table_without_a_file_is_not_written_to(tmp_path: Path, verb: str) -> None:
    sandbox = Sandbox(open_fleet(str(tmp_path / "empty")))
    with pytest.raises(TurnscopeError, match="read-only"):
        sandbox.run(f"WITH x AS ({verb} RETURNING *) SELECT * FROM x")
    assert sandbox.run("SELECT count(*) FROM sources").rows == ((0,),)


def test_the_tables_are_found_under_a_name_with_quotes(tmp_path: Path) -> None:
    url = str(tmp_path / 'it\'s "a" fleet; DROP')
    fleet: Any = make_fleet(url, 300, 10, 5)
    assert Sandbox(fleet).run("SELECT count(*) FROM requests").rows == ((fleet.count_rows("requests"),),)
