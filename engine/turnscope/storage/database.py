"""The one database: live chats, and what is remembered of opened sessions. Connections, transactions, migrations, errors.

It is the file that chats have always been in, so chats are never moved: a file of an earlier version gets the new tables in one
transaction, in place. (An earlier version's `--forget` deletes `turnscope.db`, so chats must not go there.) Chats exist nowhere
else. All the rest can be read again from session files and may be deleted (`forget`).

Every operation opens its own connection, so any thread or process may call. `schema` and the modules of this package define the
tables.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnscope.errors import TurnscopeError
from turnscope.storage.schema import STEPS

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

WAIT_SECONDS = 10  # how long to wait for another writer
LOOK, LEAST = 0.1, 0.5  # seconds between two checks of `is_abandoned`; seconds that are always waited
is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("given_up", default=None)
"""Says whether the caller gave up waiting for another writer. Set where a thread may be abandoned; None elsewhere."""


class StorageError(TurnscopeError):
    """The database cannot be made, read or written."""


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a connection. The file is made where there is none. StorageError where it cannot be made, read or written."""
    from sqlite_utils import Database  # imported here, because it loads pandas where that is installed

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = Database(path)
        try:
            db.conn.execute(f"pragma busy_timeout = {WAIT_SECONDS * 1_000}")
            _migrate(db)
            yield db
        finally:
            db.close()
    except (OSError, sqlite3.Error) as error:
        raise _make_error(path, error) from error


@contextmanager
def begin_write(path: Path) -> Iterator[Database]:
    """Begin a write transaction. StorageError where it fails; then nothing of it is written."""
    with open_database(path) as db, begin_immediate(db):
        yield db


@contextmanager
def begin_immediate(db: Database) -> Iterator[None]:
    """Begin a transaction that takes the lock at once, so that two writers wait for each other instead of failing half way.

    `Database.atomic` takes the lock at its first write. Where it has read before and another has written since, SQLite refuses
    that write at once, whatever the timeout. Inside this transaction `atomic` is a savepoint.
    """
    _begin(db, is_abandoned.get())
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise


def _begin(db: Database, left: Callable[[], bool] | None) -> None:
    start, begin = time.monotonic(), "begin immediate"
    if left is None:
        db.conn.execute(begin)
        return
    db.conn.execute(f"pragma busy_timeout = {round(LOOK * 1_000)}")
    while True:
        try:
            db.conn.execute(begin)
        except sqlite3.OperationalError:
            if time.monotonic() - start > (LEAST if left() else WAIT_SECONDS):
                raise
        else:
            db.conn.execute(f"pragma busy_timeout = {WAIT_SECONDS * 1_000}")
            return


def _make_error(path: Path, error: Exception) -> StorageError:
    what = f"chats and opened sessions cannot be kept in {path}: {error}"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return StorageError(what, hint="The file is broken and was not changed. Restore a copy of it, or move it away.")
    hint = "Check that its folder is writable and the disk is not full, or choose another folder with TURNSCOPE_DATA."
    return StorageError(what, hint=hint)


def _migrate(db: Database) -> None:
    """Make the tables, or add what a later version needs. `user_version` holds the number of the format."""
    version = _read_version(db)
    if version > len(STEPS):
        what = f"its format is {version}, and this version of Turnscope reads formats up to {len(STEPS)}"
        raise StorageError(f"chats cannot be read: {what}", hint="Install the newer Turnscope that wrote them.")
    if version == len(STEPS):
        return
    _enable_wal(db)
    with begin_immediate(db):  # several at once: the first one migrates, the others find nothing to do
        _load_migrations().apply(db)
        db.conn.execute(f"pragma user_version = {len(STEPS)}")


@cache
def _load_migrations() -> Migrations:
    from sqlite_utils import Migrations

    known = Migrations("turnscope")
    for step in STEPS:
        known(name=step.__name__.strip("_"))(step)
    return known


def _read_version(db: Database) -> int:
    return int(db.conn.execute("pragma user_version").fetchone()[0])


def _enable_wal(db: Database) -> None:
    """Switch to the write-ahead log. While another connection does the same, SQLite fails at once, whatever its timeout."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return db.enable_wal()
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def stat_files(path: Path) -> dict[Path, os.stat_result]:
    """Look up a database's file and its logs, as far as they exist: whoever closes it last takes the logs away."""
    found = {}
    for file in (path.with_name(path.name + end) for end in ("", "-wal", "-shm")):
        with suppress(FileNotFoundError, NotADirectoryError):
            found[file] = file.stat()
    return found


def measure_files(path: Path) -> int:
    """Measure the bytes on disk of a database's file and its logs."""
    return sum(status.st_size for status in stat_files(path).values())
