"""Imports the database of opened sessions of earlier versions, `turnscope.db`, and deletes it.

It held no chats. Its list and its exact token counts are kept. Its sessions are read again when they are opened.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path

from turnscope.storage import catalogue, sessions
from turnscope.storage.catalogue import CatalogueRow, Stamp
from turnscope.storage.database import begin_write, measure_files, stat_files

NAME = "turnscope.db"
_NAMES = ", ".join(f'"{f.name}"' for f in fields(CatalogueRow) if f.name not in ("entry", "formed"))


def measure_size(path: Path) -> int:
    """Measure the bytes on disk of the earlier file next to the database at `path`, with its logs; 0 where there is none."""
    return measure_files(path.with_name(NAME)) if path.name != NAME else 0


def import_sessions(path: Path) -> None:
    """Import what the earlier file holds. The result is the same where this runs twice, at the same time, or is interrupted."""
    if not _list_files(path):
        return
    try:
        with closing(sqlite3.connect(path.with_name(NAME))) as old:
            rows = old.execute(f"select {_NAMES} from opened order by opened").fetchall()  # noqa: S608 - names are ours
            counts = old.execute("select digest, family, tokens from counts").fetchall()
    except sqlite3.DatabaseError:  # broken, or busy: leave it, since everything in it can be read again
        return
    unread = Stamp(0, 0, "").to_columns() | {"seen": 0}
    with begin_write(path) as db:
        newer = {row[0] for row in db.conn.execute("select path from catalogue")}
        for row in (CatalogueRow(*values) for values in rows):
            if row.path not in newer:
                catalogue.put_row(db, unread | asdict(row))
        sessions.put_counts(db, counts)
    remove(path)


def remove(path: Path) -> None:
    """Delete the earlier file. The file itself comes last, so that none of its logs is ever left with another file."""
    for file in reversed(_list_files(path)):
        file.unlink(missing_ok=True)


def _list_files(path: Path) -> list[Path]:
    return [*stat_files(path.with_name(NAME))] if path.name != NAME else []
