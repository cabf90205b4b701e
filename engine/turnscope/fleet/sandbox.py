"""SQL that a person types, over the tables of a fleet: one SELECT, which reads the tables and nothing else.

The connection has the tables as views and nothing to write to. DuckDB may open no other file, no network, no extension and no
variable of Python, and its configuration is locked. A query ends after some seconds, and gives a limited number of rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Timer
from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.fleet.dataset import Fleet
from turnscope.fleet.storage import import_package
from turnscope.fleet.tables import TABLES
from turnscope.fleet.warehouse import connect
from turnscope.views.text_tables import format_csv

SECONDS = 20.0
MOST_ROWS = 10_000
MOST_CHARACTERS = 20_000  # of a query
MOST_SHOWN = 2_000  # characters of a value
MEMORY = "2GB"
BATCH = 1_000  # rows


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


class Sandbox:
    """The tables of a fleet, for queries that a person types. Several threads may use it at once."""

    def __init__(self, fleet: Fleet) -> None:
        """Connect to the tables.

        Args:
            fleet: the tables.

        Raises:
            TurnscopeError: DuckDB is not installed, or a table cannot be read.
        """
        self._duckdb = import_package("duckdb")
        self._connection = connect(fleet, memory_limit=MEMORY, temp_directory="")
        files = [file for name in TABLES for file in fleet.list_files(name)]
        self._connection.execute("SET allowed_paths = $1", [files])
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def run(self, text: str, seconds: float = SECONDS, most: int = MOST_ROWS) -> Result:
        """Run a query.

        Args:
            text: one SELECT.
            seconds: how long it may take.
            most: rows that it gives at most.

        Raises:
            TurnscopeError: it is no such query, takes too long, or fails.
        """
        statement = self._parse(text)
        cursor, began = self._connection.cursor(), time.monotonic()
        timer = Timer(seconds, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")  # a SELECT may hold an INSERT into a table without a file
            columns, rows, whole = self._fetch(cursor.execute(statement), most)
        except self._duckdb.InterruptException as error:
            raise TurnscopeError(f"the query took over {seconds:g} s and was stopped", hint="Ask for fewer days.") from error
        except self._duckdb.Error as error:
            raise _explain(error) from error
        finally:
            timer.cancel()
            cursor.close()  # which ends its transaction
        return Result(columns, rows, whole, time.monotonic() - began)

    def _parse(self, text: str) -> Any:
        if len(text) > MOST_CHARACTERS:
            raise TurnscopeError(f"the query has over {MOST_CHARACTERS:,} characters", hint="Shorten it.")
        try:
            statements = self._duckdb.extract_statements(text)
        except self._duckdb.Error as error:
            raise _explain(error) from error
        if len(statements) != 1 or statements[0].type != self._duckdb.StatementType.SELECT:
            raise TurnscopeError("only one SELECT can be run here", hint="The tables are read, and nothing is written.")
        return statements[0]

    @staticmethod
    def _fetch(cursor: Any, most: int) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], bool]:
        columns = tuple(column[0] for column in cursor.description)
        rows: list[tuple[Any, ...]] = []
        while len(rows) <= most and (batch := cursor.fetchmany(min(BATCH, most + 1 - len(rows)))):
            rows += [tuple(_shorten(value) for value in row) for row in batch]
        return columns, tuple(rows[:most]), len(rows) <= most


def _shorten(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        return value[:MOST_SHOWN]
    return str(value)[:MOST_SHOWN] if isinstance(value, (list, dict, tuple)) else value


def _explain(error: Exception) -> TurnscopeError:
    """What DuckDB says, without its advice about settings that are locked here."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return TurnscopeError(lines[0][:500] if lines else "the query failed", hint="\n".join(lines[1:6])[:1_000])
