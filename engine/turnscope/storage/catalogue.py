"""The catalogue of sessions: where each lies, what it is called, how large it became. One row per source and entry.

A source is a path; an entry names one conversation inside it, "" where there is only one. A row says what the source looked
like from outside when it was read, so that a look at its metadata tells whether its session is known. `key` is the digest of
the content: the same content is recognised wherever it lies. Holds no session (see `sessions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from turnscope.session.model import RatingFact
from turnscope.storage.database import begin_write, open_database
from turnscope.storage.values import decode_value, make_sqlite_text

if TYPE_CHECKING:
    from sqlite_utils import Database

SETTLED_NANOSECONDS = 2_000_000_000  # nanoseconds; the clocks of some file systems are as coarse as that


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a source looks like from outside: bytes, nanoseconds, and a digest of the metadata of files that belong to it."""

    size: int
    mtime: int
    beside: str


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A row of the list of opened sessions. `usd` None = no known price; times in seconds since the epoch."""

    key: str
    path: str
    name: str
    title: str
    source: str
    models: str
    requests: int
    peak: int
    window: int
    usd: str | None
    cuts: int
    started: float | None
    opened: float
    size: int
    entry: str = ""  # which conversation of the source; "" = the main one
    formed: str = ""  # by which reading and which prices its numbers came about


NAMES = ", ".join(f'"{f.name}"' for f in fields(CatalogueRow))


def find_key(path: Path, source: str, entry: str, stamp: Stamp) -> str:
    """Key of the session that a source held when it was last read, if it looks as it did then; else "".

    A source that changed within the last moments before it was read may have changed once more without a trace.
    """
    if not path.exists():
        return ""
    sql = "select key, size, mtime, beside, seen from catalogue where path = ? and entry = ?"
    with open_database(path) as db:
        row = db.conn.execute(sql, [make_sqlite_text(source), entry]).fetchone()
    sure = row is not None and row[1:4] == astuple(stamp) and row[4] - stamp.mtime > SETTLED_NANOSECONDS
    return str(row[0]) if sure else ""


def has_size(path: Path, size: int) -> bool:
    """Whether a source of so many bytes is in the catalogue."""
    if not path.exists():
        return False
    with open_database(path) as db:
        return db.conn.execute("select 1 from catalogue where size = ?", [size]).fetchone() is not None


def remember(path: Path, row: CatalogueRow, stamp: Stamp, seen: int) -> None:
    """Put a session into the catalogue. `seen`: nanoseconds since the epoch, before its source was read.

    Where the same content stood under a path that is no more (it was moved, or dropped on the page), that row goes.
    """
    with begin_write(path) as db:
        same = db.conn.execute("select path from catalogue where key = ? and path != ?", [row.key, row.path]).fetchall()
        gone = [other for other in same if not Path(other[0]).exists()]
        db.conn.executemany("delete from catalogue where path = ? and key = ?", [(other[0], row.key) for other in gone])
        put_row(db, asdict(row) | asdict(stamp) | {"seen": seen})


def put_row(db: Database, values: Mapping[str, object]) -> None:
    """Write a row: the columns of `Recent` and `Stamp`, and `seen`."""
    names, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    kept = [make_sqlite_text(value) if isinstance(value, str) else value for value in values.values()]
    db.conn.execute(f"insert or replace into catalogue ({names}) values ({places})", kept)  # noqa: S608 - names are ours


def list_recent(path: Path, limit: int) -> tuple[CatalogueRow, ...]:
    """Opened sessions, the newest first."""
    if not path.exists():
        return ()
    with open_database(path) as db:
        sql = f"select {NAMES} from catalogue order by opened desc limit ?"  # noqa: S608 - names are ours
        return tuple(CatalogueRow(*row) for row in db.conn.execute(sql, [limit]))


def drop(path: Path, sources: Sequence[str]) -> None:
    """Take sources out of the catalogue. What was kept of their sessions goes when the next one is kept (`sessions`)."""
    if path.exists():
        with begin_write(path) as db:
            db.conn.executemany("delete from catalogue where path = ?", ((make_sqlite_text(source),) for source in sources))


def count_ratings(path: Path, user: str = "") -> tuple[int, int]:
    """Of the summaries that a user rated in chats: how many were found good, and how many in all. The newest rating counts."""
    if not path.exists():
        return 0, 0
    sql = """select thread, fact from facts where fact like '{"type":"rated"%'
             and thread in (select id from threads where user_id = ?) order by id"""
    with open_database(path) as db:
        rated = ((thread, decode_value(fact, RatingFact)) for thread, fact in db.conn.execute(sql, [user]))
        newest = {(thread, fact.digest): fact.rating for thread, fact in rated}
    return sum(rating == "up" for rating in newest.values()), sum(bool(rating) for rating in newest.values())
