"""DuckDB over the Parquet files of a fleet, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.fleet.dataset import RESTORE, Fleet
from turnscope.fleet.storage import import_package, report_errors
from turnscope.fleet.tables import TABLES, make_schema


def open_database(fleet: Fleet, **config: object) -> Any:
    """Open a DuckDB in memory that can read the files of a fleet, wherever they lie.

    Args:
        fleet: the tables.
        **config: settings of DuckDB.

    Raises:
        TurnscopeError: DuckDB is not installed.
    """
    # No variable of Python, and no extension from the network, is ever found by a name in a query.
    safe = {"python_enable_replacements": False, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = import_package("duckdb").connect(config={**safe, **config})
    if not fleet.storage.is_local:
        connection.register_filesystem(fleet.storage.fs)
    return connection


def connect(fleet: Fleet, **config: object) -> Any:
    """Connect to a DuckDB in memory that has a view of each table of a fleet.

    Args:
        fleet: the tables.
        **config: settings of DuckDB.

    Raises:
        TurnscopeError: DuckDB is not installed, or a table cannot be read.
    """
    connection = open_database(fleet, **config)
    with report_errors(fleet.storage.make_url(fleet.storage.root), "read"), report_damage(fleet):
        for name in TABLES:
            files = list(fleet.list_files(name))
            if files:
                connection.from_parquet(files, hive_partitioning=False, union_by_name=False).create_view(name)
            else:
                connection.from_arrow(make_schema(name).empty_table()).create(name)
    return connection


@contextmanager
def report_damage(fleet: Fleet) -> Iterator[None]:
    """Raise what DuckDB finds wrong with files as a sentence."""
    try:
        yield
    except import_package("duckdb").Error as error:
        where, first = fleet.storage.make_url(fleet.storage.root), str(error).splitlines()[0]
        hint = f"If another run writes there, try again. {RESTORE}"
        raise TurnscopeError(f"the tables at {where} cannot be read: {first.rstrip('.')}", hint=hint) from error
