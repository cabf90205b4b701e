"""The catalogue of sessions: where each lies, its title and its size. One row per source and entry.

A source is a path. An entry names one conversation inside it, "" where there is only one. A row holds what the source looked
like from outside when it was read, so its metadata shows whether its session is known. `key` is the digest of the content: the
same content is recognised wherever it lies. The sessions themselves are in `sessions`.
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

CLOCK_NANOSECONDS = 2_000_000_000  # the clocks of some file systems are as coarse as that


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a source looks like from outside: bytes, nanoseconds, and a digest of the metadata of files that belong to it."""

    size: int
    mtime: int
    attached: str

    def to_columns(self) -> dict[str, int | str]:
        """Return the values by column."""
        return {"size": self.size, "mtime": self.mtime, "beside": self.attached}


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A row of the list of opened sessions. `usd` None = no known price; times in seconds since the Unix epoch."""

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
    entry: str = ""  # conversation of the source; "" = the main one
    formed: str = ""  # version of the reader and of the prices behind its numbers


NAMES = ", ".join(f'"{f.name}"' for f in fields(CatalogueRow))


def find_key(path: Path, source: str, entry: str, stamp: Stamp) -> str:
    """Find the key of the session that a source held when it was last read, if the source still looks the same; else "".

    A source that changed just before it was read may have changed again without a trace, so it does not count.

    Args:
        path: The database.
        source: Path of the source.
        entry: Its conversation.
        stamp: What the source looks like now.
    """
    if not path.exists():
        return ""
    sql = "select key, size, mtime, beside, seen from catalogue where path = ? and entry = ?"
    with open_database(path) as db:
        row = db.conn.execute(sql, [make_sqlite_text(source), entry]).fetchone()
    sure = row is not None and row[1:4] == astuple(stamp) and row[4] - stamp.mtime > CLOCK_NANOSECONDS
    return str(row[0]) if sure else ""


def has_size(path: Path, size: int) -> bool:
    """Whether the catalogue holds a source of so many bytes.

    Args:
        path: The database.
        size: Bytes.
    """
    if not path.exists():
        return False
    with open_database(path) as db:
        return db.conn.execute("select 1 from catalogue where size = ?", [size]).fetchone() is not None


def remember(path: Path, row: CatalogueRow, stamp: Stamp, seen: int) -> None:
    """Add a session to the catalogue.

    A row of the same content under a path that is gone (moved, or dropped on the page) is deleted.

    Args:
        path: The database.
        row: The session.
        stamp: What its source looked like.
        seen: Nanoseconds since the Unix epoch, before the source was read.
    """
    with begin_write(path) as db:
        same = db.conn.execute("select path from catalogue where key = ? and path != ?", [row.key, row.path]).fetchall()
        gone = [other for other in same if not Path(other[0]).exists()]
        db.conn.executemany("delete from catalogue where path = ? and key = ?", [(other[0], row.key) for other in gone])
        put_row(db, asdict(row) | stamp.to_columns() | {"seen": seen})


def put_row(db: Database, values: Mapping[str, object]) -> None:
    """Write a row: the columns of `CatalogueRow` and `Stamp`, and `seen`.

    Args:
        db: The database, inside a transaction.
        values: The columns.
    """
    names, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    texts = [make_sqlite_text(value) if isinstance(value, str) else value for value in values.values()]
    db.conn.execute(f"insert or replace into catalogue ({names}) values ({places})", texts)  # noqa: S608 - names are ours


def list_recent(path: Path, limit: int) -> tuple[CatalogueRow, ...]:
    """List opened sessions, the newest first.

    Args:
        path: The database.
        limit: How many.
    """
    if not path.exists():
        return ()
    with open_database(path) as db:
        sql = f"select {NAMES} from catalogue order by opened desc limit ?"  # noqa: S608 - names are ours
        return tuple(CatalogueRow(*row) for row in db.conn.execute(sql, [limit]))


def drop(path: Path, sources: Sequence[str]) -> None:
    """Remove sources from the catalogue. The sessions themselves are deleted when the next one is kept (`sessions`).

    Args:
        path: The database.
        sources: Paths of the sources.
    """
    if path.exists():
        with begin_write(path) as db:
            db.conn.executemany("delete from catalogue where path = ?", ((make_sqlite_text(source),) for source in sources))


def count_ratings(path: Path, user: str = "") -> tuple[int, int]:
    """Count the summaries that a user rated in chats: how many were good, and how many in all. The newest rating counts.

    Args:
        path: The database.
        user: Id of the user.
    """
    if not path.exists():
        return 0, 0
    sql = """select thread, fact from facts where fact like '{"type":"rated"%'
             and thread in (select id from threads where user_id = ?) order by id"""
    with open_database(path) as db:
        rated = ((thread, decode_value(fact, RatingFact)) for thread, fact in db.conn.execute(sql, [user]))
        newest = {(thread, fact.digest): fact.rating for thread, fact in rated}
    return sum(rating == "up" for rating in newest.values()), sum(bool(rating) for rating in newest.values())
