"""SQL that a person types, over the tables of a fleet: one SELECT, which reads the tables and nothing else.

A query runs in a process of its own. That process has the tables as views and nothing to write to; its DuckDB may open no
other file, no network, no extension and no variable of Python, and its configuration is locked. The system limits its memory,
and it is killed where a query neither ends nor lets itself be stopped. Rows and characters of a result are limited.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import BoundedSemaphore, Lock, Timer
from typing import IO, Any

from turnscope.errors import TurnscopeError
from turnscope.fleet.database import connect
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.storage import import_package
from turnscope.fleet.tables import TABLES
from turnscope.library.job import start_worker
from turnscope.views.text_tables import format_csv

SECONDS = 20.0
GRACE = 2.0  # seconds that a query has to let itself be stopped, before its process is killed
START_SECONDS = 60.0  # for a process to open the tables
MOST_ROWS = 10_000
MOST_CHARACTERS = 20_000  # of a query
MOST_SHOWN = 2_000  # characters of a value
MOST_RESULT = 50_000_000  # characters of all values
MEMORY = "2GB"  # that DuckDB may count
ROOM = 3 << 30  # bytes that its process may take beyond what it has when it is ready: some of DuckDB's functions count nothing
AT_ONCE = 2  # queries of one set of tables
NICE = 5  # so that the page stays quick beside it
BATCH = 100  # rows
ENDED = "the query took too much memory and was ended"
HINT = "Ask for fewer rows, or for sums."


@dataclass(frozen=True, slots=True)
class Result:
    """What a query gave.

    Attributes:
        rows: the values, as DuckDB has them; texts are cut after some characters.
        whole: whether these are all rows.
        seconds: how long it took.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    whole: bool
    seconds: float

    def to_csv(self) -> str:
        """A line for each row."""
        return format_csv(self.columns, self.rows)


@dataclass(frozen=True, slots=True)
class Query:
    """What a process is asked. Its fields: see `Sandbox.run`."""

    text: str
    seconds: float
    most: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a process says: a result, an error, or that the tables are open. `fresh`: whether it has room for another query."""

    result: Result | None = None
    error: TurnscopeError | None = None
    fresh: bool = True


class Sandbox:
    """The tables of a fleet, for queries that a person types. Several threads may use it at once.

    Args:
        fleet: the tables.
    """

    def __init__(self, fleet: Fleet) -> None:
        if fleet.storage.protocol == "memory":
            raise TurnscopeError("tables in the memory of this process cannot be asked by SQL", hint="Store them in a folder.")
        self._fleet = fleet
        self._idle: list[subprocess.Popen[bytes]] = []
        self._lock, self._places = Lock(), BoundedSemaphore(AT_ONCE)
        weakref.finalize(self, _end_all, self._idle)

    def run(self, text: str, seconds: float = SECONDS, most: int = MOST_ROWS) -> Result:
        """Run a query.

        Args:
            text: one SELECT.
            seconds: how long it may take.
            most: rows that it gives at most.

        Raises:
            TurnscopeError: it is no such query, takes too long or too much memory, or fails; DuckDB is not installed, or a
                table cannot be read.
        """
        if len(text) > MOST_CHARACTERS:
            raise TurnscopeError(f"the query has over {MOST_CHARACTERS:,} characters", hint="Shorten it.")
        if not self._places.acquire(timeout=seconds):
            raise TurnscopeError("other queries are running", hint="Try again when they have ended.")
        try:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None or process.poll() is not None:
                process = self._start()
            answer = _ask(process, Query(text, seconds, most), seconds)
            if answer.fresh:
                with self._lock:
                    self._idle.append(process)
            else:
                _end(process)
        finally:
            self._places.release()
        if answer.error is not None:
            raise answer.error
        assert answer.result is not None
        return answer.result

    def _start(self) -> subprocess.Popen[bytes]:
        """A process that has the tables open."""
        process = start_worker(__name__)
        answer = _ask(process, self._fleet, START_SECONDS)
        if answer.error is not None:
            _end(process)
            raise answer.error
        return process


def _ask(process: subprocess.Popen[bytes], what: object, seconds: float) -> _Answer:
    """Send a process something and give its answer. One that has none in time, or ends, is ended.

    Raises:
        TurnscopeError: there is no answer.
    """
    late: list[bool] = []

    def kill() -> None:
        late.append(True)
        process.kill()

    assert process.stdin is not None
    assert process.stdout is not None
    timer = Timer(seconds + GRACE, kill)
    timer.daemon = True
    timer.start()
    try:
        pickle.dump(what, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        answer: _Answer = pickle.load(process.stdout)  # noqa: S301 - our own process wrote it
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        _end(process)
        raise (_explain_late(seconds) if late else TurnscopeError(ENDED, hint=HINT)) from error
    except BaseException:
        _end(process)  # what it was about to say would be taken for the next answer
        raise
    finally:
        timer.cancel()
    return answer


def _explain_late(seconds: float) -> TurnscopeError:
    return TurnscopeError(f"the query took over {seconds:g} s and was stopped", hint="Ask for fewer days.")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(OSError, ValueError), process:
        pass


def _end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        _end(process)


def run_worker(asks: IO[bytes] | None = None, replies: IO[bytes] | None = None) -> None:
    """Open tables and run queries over them in this process, until nobody asks any more.

    Args:
        asks: where the tables, then queries come from; None = standard input.
        replies: where answers go; None = standard output.
    """
    asks, replies = asks or sys.stdin.buffer, replies or sys.stdout.buffer
    with suppress(OSError, AttributeError):  # Windows has no such thing
        os.nice(NICE)
    queries: Queries | None = None
    least = 0
    with suppress(EOFError):
        while True:
            what = pickle.load(asks)  # noqa: S301 - the process that started this one wrote it
            result, error = None, None
            try:
                if queries is None:
                    queries = Queries(what)
                    least = _measure_space()
                    _limit_memory(least + ROOM)
                else:
                    _limit_time(what.seconds)
                    result = queries.run(what)
            except TurnscopeError as problem:
                error = problem
            except MemoryError:
                error = TurnscopeError(ENDED, hint=HINT)
            fresh = _measure_space() <= least + ROOM // 2  # what a query gave back stays reserved
            pickle.dump(_Answer(result, error, fresh), replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()


def _measure_space() -> int:
    """Bytes of addresses that this process has; 0 where the system does not say."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return pages * os.sysconf("SC_PAGESIZE")
    return 0


def _limit_memory(limit: int) -> None:
    """Let the system refuse this process more bytes of addresses. Nothing is limited where it cannot."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_time(seconds: float) -> None:
    """Let the system end this process where a query goes on, and nobody is there any more to end it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        threads = os.cpu_count() or 1
        used, (_, most) = sum(os.times()[:2]), resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + threads * (seconds + 2 * GRACE)) + 1, most))


class Queries:
    """The tables in a DuckDB that can do nothing but read them. One query at a time.

    Args:
        fleet: the tables.

    Raises:
        TurnscopeError: DuckDB is not installed, or a table cannot be read.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._duckdb = import_package("duckdb")
        self._connection = connect(fleet, memory_limit=MEMORY, temp_directory="")
        files = [file for name in TABLES for file in fleet.list_files(name)]
        self._connection.execute("SET allowed_paths = $1", [files])
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def run(self, query: Query) -> Result:
        """Run a query. TurnscopeError: see `Sandbox.run`."""
        began = time.monotonic()
        with self._report_errors(query.seconds):
            statement = self._parse(query.text)
            cursor = self._connection.cursor()
            timer = Timer(query.seconds, cursor.interrupt)
            timer.daemon = True
            timer.start()
            try:
                cursor.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may hold an INSERT into a table without a file
                columns, rows, whole = _fetch(cursor.execute(statement), query.most)
            finally:
                timer.cancel()
                cursor.close()  # which ends its transaction
        return Result(columns, rows, whole, time.monotonic() - began)

    @contextmanager
    def _report_errors(self, seconds: float) -> Iterator[None]:
        try:
            yield
        except self._duckdb.InterruptException as error:
            raise _explain_late(seconds) from error
        except self._duckdb.Error as error:
            raise _explain(error) from error

    def _parse(self, text: str) -> Any:
        statements = self._duckdb.extract_statements(text)
        if len(statements) != 1 or statements[0].type != self._duckdb.StatementType.SELECT:
            raise TurnscopeError("only one SELECT can be run here", hint="The tables are read, and nothing is written.")
        return statements[0]


def _fetch(cursor: Any, most: int) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], bool]:
    columns = tuple(column[0] for column in cursor.description)
    rows: list[tuple[Any, ...]] = []
    left = MOST_RESULT
    while left > 0 and len(rows) <= most and (batch := cursor.fetchmany(min(BATCH, most + 1 - len(rows)))):
        new = [tuple(_shorten(value) for value in row) for row in batch]
        left -= sum(len(value) for row in new for value in row if isinstance(value, (str, bytes)))
        rows += new
    return columns, tuple(rows[:most]), len(rows) <= most and left > 0


def _shorten(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        return value[:MOST_SHOWN]
    return str(value)[:MOST_SHOWN] if isinstance(value, (list, dict, tuple)) else value


def _explain(error: Exception) -> TurnscopeError:
    """What DuckDB says, without its advice about settings that are locked here."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return TurnscopeError(lines[0][:500] if lines else "the query failed", hint="\n".join(lines[1:6])[:1_000])
