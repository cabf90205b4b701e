"""Opened sessions as rows and bytes, and exact token counts. All of it is a cache of session files; `forget` deletes it.

A session's row has the digest of its content as key. Its texts are among the blobs, which chats share.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from turnscope.session.model import JSON
from turnscope.storage import blobs
from turnscope.storage.blobs import Content
from turnscope.storage.database import begin_immediate, begin_write, measure_files, open_database
from turnscope.storage.packing import split_digests

if TYPE_CHECKING:
    from sqlite_utils import Database

MAX_SESSIONS = 24  # sessions kept whole; older ones keep only their row in the catalogue
BATCH_BYTES = 4_000_000  # texts in one transaction; a chat never waits long for its own


@dataclass(frozen=True, slots=True)
class Row:
    """A session as it is stored. `importer`, `version` and `form` say who wrote it, `opinion` how its `page` was computed."""

    key: str
    importer: str
    version: int
    form: int
    opinion: str
    session: bytes  # as `packing.pack` writes it
    page: bytes  # computed from it: counts, overview, findings
    blobs: bytes = b""  # digests of its texts, 16 bytes each


_NAMES = ", ".join(f.name for f in fields(Row))


def find_session(path: Path, key: str) -> Row | None:
    """Find a session by its key.

    Args:
        path: The database.
        key: Digest of the session's content.
    """
    if not path.exists():
        return None
    with open_database(path) as db:
        row = db.conn.execute(f"select {_NAMES} from sessions where key = ?", [key]).fetchone()  # noqa: S608 - names are ours
    return Row(*row) if row else None


def keep(path: Path, row: Row, contents: Callable[[], Iterator[tuple[str, Content]]]) -> bytes:
    """Store a session whole, and delete those that are not among the newest.

    Texts come first, in several transactions. The session's own row makes them count.

    Args:
        path: The database.
        row: The session; its `blobs` are computed here.
        contents: Gives its texts in order (`packing.encode_contents`).

    Returns:
        The digests of its texts, 16 bytes each.
    """
    digests = bytearray()

    def note_digests() -> Iterator[tuple[str, Content]]:
        for digest, content in contents():
            digests.extend(bytes.fromhex(digest))
            yield digest, content

    with open_database(path) as db:
        for batch in _split_batches(note_digests()):
            with begin_immediate(db):
                blobs.keep(db, batch, chat=False)
        with begin_immediate(db):
            lost = blobs.find_missing(db, split_digests(bytes(digests)))  # another process may have deleted them meanwhile
            blobs.keep(db, (pair for pair in contents() if pair[0] in lost) if lost else (), chat=False)
            values = astuple(replace(row, blobs=bytes(digests)))
            places = ", ".join("?" * len(values))
            db.conn.execute(f"insert or replace into sessions ({_NAMES}) values ({places})", values)  # noqa: S608
            _drop_old(db, row.key)
    return bytes(digests)


def replace_page(path: Path, key: str, opinion: str, page: bytes) -> None:
    """Replace what is computed from a stored session.

    Args:
        path: The database.
        key: Key of the session.
        opinion: How the page was computed.
        page: The page.
    """
    with begin_write(path) as db:
        db.conn.execute("update sessions set opinion = ?, page = ? where key = ?", [opinion, page, key])


def read_texts(path: Path, digests: Sequence[str]) -> dict[str, JSON]:
    """Read contents of blocks by digest. Deleted ones are left out.

    Args:
        path: The database.
        digests: The digests.
    """
    with open_database(path) as db:
        return blobs.read_contents(db, digests)


def read_counts(path: Path, family: str) -> dict[str, int]:
    """Read exact token counts by digest.

    Args:
        path: The database.
        family: A tokenizer family.
    """
    with open_database(path) as db:
        return dict(db.conn.execute("select digest, tokens from counts where family = ?", [family]).fetchall())


def put_counts(db: Database, rows: Iterable[tuple[str, str, int]]) -> None:
    """Write exact counts.

    Args:
        db: The database, inside a transaction.
        rows: Digest, family and tokens.
    """
    db.conn.executemany("insert or replace into counts (digest, family, tokens) values (?, ?, ?)", rows)


def add_counts(path: Path, family: str, tokens: Mapping[str, int]) -> None:
    """Store exact counts.

    Args:
        path: The database.
        family: A tokenizer family.
        tokens: Tokens by digest.
    """
    with begin_write(path) as db:
        put_counts(db, ((digest, family, count) for digest, count in tokens.items()))


def measure_size(path: Path) -> int:
    """Measure the bytes that `forget` would free: rows, texts that no chat holds, and unused pages of the file."""
    if not path.exists():
        return 0
    one = "select coalesce(sum({}), 0) from {}"
    with open_database(path) as db:
        found = [
            one.format("length(content)", "blobs where chat = 0"),
            one.format("length(blobs) + length(session) + length(page)", "sessions"),
            one.format("length(digest) + length(family) + 8", "counts"),
            "select freelist_count * page_size from pragma_freelist_count, pragma_page_size",
        ]
        return sum(int(db.conn.execute(sql).fetchone()[0]) for sql in found)


def forget(path: Path) -> int:
    """Delete all that is remembered of opened sessions, and nothing of any chat. Gives the bytes that were freed."""
    if not path.exists():
        return 0
    before = measure_files(path)
    with open_database(path) as db:
        with begin_immediate(db):
            for table in ("catalogue", "sessions", "counts", "prompt_sizes", "blobs where chat = 0"):
                db.conn.execute(f"delete from {table}")  # noqa: S608 - names are ours
        with suppress(sqlite3.OperationalError):  # somebody reads or writes: the space is reused, not freed
            db.conn.execute("vacuum")
            db.conn.execute("pragma wal_checkpoint(truncate)")
    return max(0, before - measure_files(path))


def _drop_old(db: Database, newest: str) -> None:
    """Delete sessions whose source holds another one by now, and those beyond the newest, with texts that no other session
    shares.

    `newest` was stored just now. It comes into the catalogue next.
    """
    query = """select s.key from sessions s join catalogue c on c.key = s.key where s.key != ?1
              group by s.key order by max(c.opened) desc limit ?2"""
    sql = f"select key, blobs from sessions where key != ?1 and key not in ({query})"  # noqa: S608 - no value is part of it
    gone = db.conn.execute(sql, [newest, MAX_SESSIONS - 1]).fetchall()
    if not gone:
        return
    db.conn.executemany("delete from sessions where key = ?", [(key,) for key, _ in gone])
    digests = {digest for (packed,) in db.conn.execute("select blobs from sessions") for digest in split_digests(packed)}
    blobs.drop(db, {digest for _, packed in gone for digest in split_digests(packed)} - digests)


def _split_batches(contents: Iterator[tuple[str, Content]]) -> Iterator[Iterator[tuple[str, Content]]]:
    """Split contents into runs of so many bytes. They must be read in order; nothing is held in memory."""
    for first in contents:
        yield _take_batch(first, contents)


def _take_batch(first: tuple[str, Content], rest: Iterator[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
    yield first
    room = BATCH_BYTES - len(first[1])
    while room > 0 and (pair := next(rest, None)):
        room -= len(pair[1])
        yield pair
