"""Deletes a chat: its rows, and the texts that no other chat and no opened session holds. The caller holds the transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from turnscope.errors import TurnscopeError
from turnscope.storage.packing import split_digests

if TYPE_CHECKING:
    from sqlite_utils import Database

TABLES = ("messages", "statics", "requests", "decisions", "policies", "facts", "places")


def remove_thread(db: Database, thread: str) -> None:
    """Delete a thread. TurnscopeError where it has branches, which share its messages.

    Args:
        db: The database, inside a transaction.
        thread: Id of the thread.
    """
    branches = next(db.query("select count(*) as many from threads where parent = ?", [thread]))["many"]
    if branches:
        raise TurnscopeError(
            f"this chat has {branches:,} {'branch' if branches == 1 else 'branches'}, which share its beginning",
            hint="Delete them first.",
        )
    gone = set(_iter_digests(db, "= ?", thread))
    for row in [*db.query("select id, text from messages where thread = ?", [thread])]:
        db.execute("insert into messages_fts (messages_fts, rowid, text) values ('delete', ?, ?)", [row["id"], row["text"]])
    for table in TABLES:
        db.execute(f"delete from {table} where thread = ?", [thread])  # noqa: S608 - names are ours
    db.execute("delete from threads where id = ?", [thread])
    shared = set(_iter_digests(db, "!= ?", thread))
    for row in db.query("select blobs from sessions"):
        shared.update(split_digests(row["blobs"]))
    db.conn.executemany("delete from blobs where digest = ?", ((digest,) for digest in gone - shared))


def _iter_digests(db: Database, which: str, thread: str) -> Iterator[str]:
    """Iterate over the digests of the texts that threads hold."""
    for table in ("messages", "statics"):
        for row in db.query(f"select blobs from {table} where thread {which}", [thread]):  # noqa: S608 - ours
            yield from json.loads(row["blobs"])
    for row in db.query(f"select base from threads where base is not null and id {which}", [thread]):  # noqa: S608 - ours
        if row["base"][:1] != b"{":
            yield from split_digests(msgspec.msgpack.decode(row["base"], type=tuple[bytes, bytes])[0])
