"""The one database: live chats, and what is remembered of opened sessions. Connections, transactions, migrations, trouble.

It is the file that chats have always been in, so chats are never moved: a file of an earlier version gets the new tables in
one transaction, where it lies. (An earlier version's `--forget` deletes `turnscope.db`, so chats must not go there.) Chats are
the only copy of what was said; all else in here can be read again from session files and may be deleted (`forget`).

Every operation opens its own connection, so any thread or process may call. Holds the tables as migrations; what stands in
them is told by the modules beside it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import TurnscopeError

if TYPE_CHECKING:
    from sqlite_utils import Database, Migrations

WAIT = 10  # seconds to wait for another writer


class StorageError(TurnscopeError):
    """The database cannot be made, read or written."""


@contextmanager
def reading(path: Path) -> Iterator[Database]:
    """A connection; the file is made where there is none. StorageError where it cannot be made, read or written."""
    from sqlite_utils import Database  # loads pandas where that is installed; readers of a single file need neither

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = Database(path)
        try:
            db.conn.execute(f"pragma busy_timeout = {WAIT * 1_000}")
            _migrate(db)
            yield db
        finally:
            db.close()
    except (OSError, sqlite3.Error) as error:
        raise _trouble(path, error) from error


@contextmanager
def writing(path: Path) -> Iterator[Database]:
    """One write transaction. StorageError where it cannot be done; then nothing of it is."""
    with reading(path) as db, immediate(db):
        yield db


@contextmanager
def immediate(db: Database) -> Iterator[None]:
    """A transaction that is taken at once, so that two writers wait for each other instead of failing half way.

    `Database.atomic` begins one that takes the lock at its first write. Where it has read before and another has written
    since, SQLite refuses that write at once, whatever the timeout. Inside this one `atomic` is a savepoint.
    """
    db.conn.execute("begin immediate")
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise


def storable(value: str) -> str:
    """SQLite cannot write lone surrogates. What has to come back as it was is kept as JSON, which escapes them."""
    return value.encode("utf-8", "replace").decode()


def _trouble(path: Path, error: Exception) -> StorageError:
    what = f"chats and opened sessions cannot be kept in {path}: {error}"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return StorageError(what, hint="The file is broken and was left as it is. Put back a copy of it, or move it elsewhere.")
    hint = "See that its folder can be written and its disk is not full, or choose another folder with TURNSCOPE_DATA."
    return StorageError(what, hint=hint)


def _migrate(db: Database) -> None:
    """Make the tables, or add what a later version needs. `user_version` tells every version, older ones too, the format."""
    version = _version(db)
    if version > len(_STEPS):
        what = f"its format is {version}, and this version of Turnscope knows {len(_STEPS)}"
        raise StorageError(f"chats cannot be read: {what}", hint="Install the newer Turnscope that wrote them.")
    if version == len(_STEPS):
        return
    _wal(db)
    with immediate(db):  # several at once: the first one migrates, the others find nothing left to do
        _migrations().apply(db)
        db.conn.execute(f"pragma user_version = {len(_STEPS)}")


@cache
def _migrations() -> Migrations:
    from sqlite_utils import Migrations

    known = Migrations("turnscope")
    for step in _STEPS:
        known(name=step.__name__.strip("_"))(step)
    return known


def _version(db: Database) -> int:
    return int(db.conn.execute("pragma user_version").fetchone()[0])


def _wal(db: Database) -> None:
    """Switch to the write-ahead log. While another connection does the same SQLite fails at once, whatever its timeout."""
    end = time.monotonic() + WAIT
    while True:
        try:
            return db.enable_wal()
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _chats(db: Database) -> None:
    """Format 1. Files of before migrations had names have these tables already."""
    if "threads" in db.table_names():
        return
    db.executescript("""
create table threads (id text primary key, user_id text not null, title text not null, created real not null,
    updated real not null, parent text not null, at integer not null, about text not null, base blob);
create table blobs (digest text primary key, content text not null) without rowid;
create table messages (id integer primary key, thread text not null, n integer not null, uid text not null,
    parent text not null, role text not null, origin text not null, bare integer not null, status text not null, sent real,
    blobs text not null, text text not null, unique (thread, n));
create table statics (thread text not null, n integer not null, role text not null, bare integer not null, sent real,
    blobs text not null, primary key (thread, n)) without rowid;
create table requests (thread text not null, n integer not null, turn integer not null, cut integer not null,
    stop integer not null, model text not null, usage text, sent real, answered real, stop_reason text, provider_id text,
    settings text not null, status text not null, verdict text not null, seconds real not null, system text, tools text,
    primary key (thread, n)) without rowid;
create table decisions (thread text not null, request integer not null, seq integer not null, rule text not null,
    edit text not null, changed integer not null, primary key (thread, request, seq)) without rowid;
create table answers (thread text not null, key text not null, answer text not null, primary key (thread, key)) without rowid;
create table policies (thread text not null, request integer not null, toml text not null,
    primary key (thread, request)) without rowid;
create virtual table messages_fts using fts5 (text, content='messages', content_rowid='id', tokenize='porter unicode61');
""")


def _opened_sessions(db: Database) -> None:
    """Format 2: opened sessions live beside chats and share their texts. `chat`: 1 where a chat holds the text."""
    db.executescript("""
create table texts (digest text primary key, content not null, chat integer not null);
insert into texts select digest, content, 1 from blobs;
drop table blobs;
alter table texts rename to blobs;
create table catalogue (path text not null, entry text not null, size integer not null, mtime integer not null,
    beside text not null, seen integer not null, key text not null, name text not null, title text not null,
    source text not null, models text not null, requests integer not null, peak integer not null, "window" integer not null,
    usd text, cuts integer not null, started real, opened real not null, primary key (path, entry));
create index catalogue_key on catalogue (key);
create table sessions (key text primary key, importer text not null, version integer not null, form integer not null,
    opinion text not null, used real not null, blobs blob not null, session blob not null, page blob not null);
create table counts (digest text not null, family text not null, tokens integer not null,
    primary key (digest, family)) without rowid;
""")


_STEPS = (_chats, _opened_sessions)  # a file's format is how many were done: add at the end, change none
