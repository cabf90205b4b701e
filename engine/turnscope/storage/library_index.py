"""The index of all sessions: a row for each, the cost of each request, and the words of every block.

It is a file of its own beside the chats, so that no chat waits for it. It is only a cache of session files: a file of another
format, or a broken one, is made anew. A source is written in one transaction, so no half session is ever listed.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from turnscope.errors import QueryError
from turnscope.storage.database import WAIT_SECONDS, StorageError
from turnscope.storage.values import make_sqlite_text

FORMAT = 1  # count up when a table changes, or when rows are computed differently
PICO_PER_USD = 10**12  # costs are stored as whole 10**-12 USD, so that SQL adds them up exactly
PAGE_HITS = 20  # hits on one page
MAX_HITS = 1_000  # hits that are counted
EXCERPT_CHARACTERS = 90  # characters shown on each side of what was found

_TABLES = """
create table sources (path text primary key, stamp text not null, problem text not null, hint text not null) without rowid;
create table sessions (id integer primary key, path text not null, entry text not null, name text not null,
    title text not null, tool text not null, project text not null, models text not null, requests integer not null,
    messages integer not null, peak integer not null, "window" integer not null, filled integer not null,
    fill real not null, band integer not null, cuts integer not null, pico integer, started real, ended real,
    size integer not null, good integer not null, rated integer not null, unique (path, entry));
create table requests (session integer not null, uid text not null, day text not null, model text not null, pico integer);
create index requests_of on requests (session);
create table cuts (session integer not null, day text not null, number integer not null);
create index cuts_of on cuts (session);
create table blocks (id integer primary key, session integer not null, part integer not null, at integer not null,
    request integer not null);
create index blocks_of on blocks (session);
create virtual table words using fts5 (text, split, tokenize='unicode61', columnsize=0);
insert into words (words, rank) values ('automerge', 16);
"""
_HUMP = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])[A-Za-z0-9]*")  # the second and later words of an identifier
_INSIDE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A session in the library.

    Tokens of the provider; times in seconds since the Unix epoch; `pico` 10**-12 USD, None = no price.

    `filled` requests have a known window. They filled `fill` of it on average, `band` of them 40 to 70 %. `messages`: messages
    sent by all requests together. `cuts`: compactions and cuts. `good` of `rated` summaries were rated good.
    """

    path: str
    entry: str
    name: str
    title: str
    tool: str
    project: str
    models: str
    requests: int
    messages: int
    peak: int
    window: int
    filled: int
    fill: float
    band: int
    cuts: int
    pico: int | None
    started: float | None
    ended: float | None
    size: int
    good: int = 0
    rated: int = 0

    @property
    def usd(self) -> float | None:
        """Cost in USD, with branches and subagents."""
        return None if self.pico is None else self.pico / PICO_PER_USD


@dataclass(frozen=True, slots=True)
class BlockText:
    """A block's text: its part of the session (0 = its main path), its address, and the first request that sent it."""

    part: int
    at: int
    request: int
    text: str


@dataclass(frozen=True, slots=True)
class IndexedSession:
    """A session as the index stores it.

    `costs`: id of the request, day, model and 10**-12 USD; `cuts`: number of cuts by day.
    """

    row: IndexRow
    costs: tuple[tuple[str, str, str, int | None], ...]
    cuts: tuple[tuple[str, int], ...]
    texts: tuple[BlockText, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A source that could not be read, why, and what to do."""

    path: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A block that holds the searched words. `marks`: half-open ranges of `excerpt` that hold them."""

    path: str
    entry: str
    title: str
    part: int
    at: int
    request: int
    excerpt: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of the requests of a day, a model and a project, each request once. `pico` None = no known price."""

    day: str
    model: str
    project: str
    requests: int
    pico: int | None


_NAMES = ", ".join(f'"{f.name}"' for f in fields(IndexRow))


@contextmanager
def hold_open(path: Path) -> Iterator[None]:
    """Hold a connection open. Meanwhile a write need not copy its pages into the file, as the last connection to close does."""
    with _connect(path):
        yield


def read_stamps(path: Path) -> dict[str, str]:
    """Read what every source looked like when it was indexed, by path."""
    with _connect(path) as db:
        return dict(db.execute("select path, stamp from sources"))


def keep(path: Path, source: str, stamp: str, sessions: Iterable[IndexedSession], problem: Problem | None = None) -> None:
    """Replace what is known of a source. Several processes may do so; the last one wins.

    Args:
        path: The index.
        source: Path of the source.
        stamp: What the source looks like.
        sessions: Its sessions.
        problem: Why it could not be read; None = it was read.
    """
    reported = (problem.what, problem.hint) if problem else ("", "")
    with _begin_write(path) as db:
        _delete_source(db, [source])
        db.execute("insert into sources values (?, ?, ?, ?)", [source, stamp, *map(make_sqlite_text, reported)])
        for each in sessions:
            _insert_row(db, each)


def drop(path: Path, sources: Sequence[str]) -> None:
    """Remove sources from the index.

    Args:
        path: The index.
        sources: Paths of the sources.
    """
    with _begin_write(path) as db:
        _delete_source(db, sources)


def list_sessions(path: Path) -> tuple[IndexRow, ...]:
    """List every session, the one that ended last first."""
    sql = f"select {_NAMES} from sessions order by ended is null, ended desc"  # noqa: S608 - names are ours
    with _connect(path) as db:
        return tuple(IndexRow(*row) for row in db.execute(sql))


def list_problems(path: Path) -> tuple[Problem, ...]:
    """List the sources that could not be read."""
    with _connect(path) as db:
        return tuple(Problem(*row) for row in db.execute("select path, problem, hint from sources where problem != ''"))


def list_spending(path: Path) -> tuple[Spending, ...]:
    """List the cost by day, model and project. A request in two sessions counts in the first one."""
    sql = """select r.day, r.model, s.project, count(*), sum(r.pico) from requests r join sessions s on s.id = r.session
             where r.uid = '' or r.rowid in (select min(rowid) from requests where uid != '' group by uid)
             group by 1, 2, 3 order by 1"""
    with _connect(path) as db:
        return tuple(Spending(*row) for row in db.execute(sql))


def count_cuts(path: Path) -> tuple[tuple[str, int], ...]:
    """Count how often something was removed from a window, by day."""
    with _connect(path) as db:
        return tuple(db.execute("select day, sum(number) from cuts where day != '' group by day order by day"))


def search(path: Path, query: str, start: int = 0) -> tuple[int, tuple[Hit, ...]]:
    """Search for blocks that hold all words of a query, those indexed last first.

    Words match from their beginning, and inside identifiers. "Quoted" words match together.

    Args:
        path: The index.
        query: The words.
        start: Number of the first hit to return, from 0.

    Returns:
        The number of hits (at most `MAX_HITS`), and one page of them.

    Raises:
        QueryError: The query holds no word.
    """
    wanted = [(quoted or word).strip() for quoted, word in re.findall(r'"([^"]+)"|(\S+)', query)]
    wanted = [word for word in wanted if any(letter.isalnum() for letter in word)]
    if not wanted:
        raise QueryError("the query holds no word", hint="Type a word, or part of an identifier.")
    match = " ".join('"' + word.replace('"', '""') + '"*' for word in map(make_sqlite_text, wanted))
    sql = f"select rowid from words where words match ? order by rowid desc limit {MAX_HITS}"  # noqa: S608 - a number of ours
    with _connect(path) as db:
        try:
            found = [row[0] for row in db.execute(sql, [match])]
        except sqlite3.OperationalError as error:  # FTS5 accepts no NUL byte in a word
            raise QueryError("this text cannot be searched for", hint="Type a word, or part of an identifier.") from error
        return len(found), tuple(_make_hit(db, id, wanted) for id in found[start : start + PAGE_HITS])


def measure_size(path: Path) -> int:
    """Measure the bytes on disk."""
    return sum(file.stat().st_size for file in _list_files(path))


def remove(path: Path) -> int:
    """Delete the index. Gives the bytes that were freed."""
    size = measure_size(path)
    for file in _list_files(path):
        file.unlink(missing_ok=True)
    return size


def read_version(path: Path) -> tuple[int, ...]:
    """Read a value that changes with every write."""
    return tuple(number for file in _list_files(path)[:2] for number in (file.stat().st_mtime_ns, file.stat().st_size))


def _make_hit(db: sqlite3.Connection, id: int, wanted: Sequence[str]) -> Hit:
    sql = """select s.path, s.entry, s.title, b.part, b.at, b.request, w.text from blocks b
             join sessions s on s.id = b.session join words w on w.rowid = b.id where b.id = ?"""
    source, entry, title, part, at, request, text = db.execute(sql, [id]).fetchone()
    forms = [r"[\W_]*".join(map(re.escape, re.findall(r"[^\W_]+", word))) for word in wanted]
    apart = re.compile("|".join(forms), re.IGNORECASE)
    rare = min(forms, key=lambda form: sum(1 for _ in re.finditer(form, text, re.IGNORECASE)) or len(text))
    first = re.search(rare, text, re.IGNORECASE)
    begin = max(0, first.start() - EXCERPT_CHARACTERS) if first else 0
    stop = (first.end() if first else 0) + 2 * EXCERPT_CHARACTERS
    excerpt = _cut_excerpt(text, begin, stop)
    return Hit(source, entry, title, part, at, request, excerpt, tuple(found.span() for found in apart.finditer(excerpt)))


def _cut_excerpt(text: str, begin: int, stop: int) -> str:
    """Cut a stretch of a text to one line. Words stay whole where they can; "…" marks what is left out."""
    part = text[begin:stop].replace("\n", " ")
    if begin:
        part = "… " + re.sub(r"^\S{0,30} +", "", part)
    return part if stop >= len(text) else re.sub(r" +\S{0,30}$", "", part) + " …"


def _insert_row(db: sqlite3.Connection, each: IndexedSession) -> None:
    values = [make_sqlite_text(value) if isinstance(value, str) else value for value in astuple(each.row)]
    sql = f"insert into sessions ({_NAMES}) values ({', '.join('?' * len(values))})"  # noqa: S608 - names are ours
    session = db.execute(sql, values).lastrowid
    costs = ((session, *map(_make_sqlite_value, row)) for row in each.costs)
    db.executemany("insert into requests values (?, ?, ?, ?, ?)", costs)
    db.executemany("insert into cuts values (?, ?, ?)", ((session, *row) for row in each.cuts))
    first = db.execute("select coalesce(max(id), 0) + 1 from blocks").fetchone()[0]
    rows = [(first + n, text) for n, text in enumerate(each.texts)]
    db.executemany("insert into blocks values (?, ?, ?, ?, ?)", ((n, session, t.part, t.at, t.request) for n, t in rows))
    db.executemany("insert into words (rowid, text, split) values (?, ?, ?)", (_split_words(n, t.text) for n, t in rows))


def _make_sqlite_value(value: str | int | None) -> str | int | None:
    return make_sqlite_text(value) if isinstance(value, str) else value


def _split_words(id: int, text: str) -> tuple[int, str, str]:
    """Split the identifiers in a text, so that `getUserName` is found under `user`."""
    split = " ".join(_INSIDE.sub(" ", word) for word in dict.fromkeys(_HUMP.findall(text)))
    return id, make_sqlite_text(text), split


def _delete_source(db: sqlite3.Connection, sources: Sequence[str]) -> None:
    for source in sources:
        db.execute("delete from sources where path = ?", [source])
        for (session,) in db.execute("select id from sessions where path = ?", [source]).fetchall():
            db.execute("delete from words where rowid in (select id from blocks where session = ?)", [session])
            for table in ("blocks", "requests", "cuts"):
                db.execute(f"delete from {table} where session = ?", [session])  # noqa: S608 - names are ours
            db.execute("delete from sessions where id = ?", [session])


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection. Missing tables are made. StorageError where that fails."""
    hint = f"It holds no data of its own: delete {path} and index the sessions again."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as db:
            db.execute("pragma synchronous = normal")
            if _read_format(db) != FORMAT:
                _make_tables(db)
            yield db
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"the index of the library cannot be read or written: {error}", hint=hint) from error


@contextmanager
def _begin_write(path: Path) -> Iterator[sqlite3.Connection]:
    with _connect(path) as db:
        db.execute("begin immediate")
        try:
            yield db
            db.execute("commit")
        except BaseException:
            db.execute("rollback")
            raise


def _make_tables(db: sqlite3.Connection) -> None:
    """Make empty tables in place of another version's. Several processes at once: the first one makes them."""
    _enable_wal(db)
    db.execute("begin immediate")
    if _read_format(db) != FORMAT:
        old = db.execute("select name from sqlite_master where type = 'table' and sql is not null").fetchall()
        for (name,) in sorted(old, key=lambda row: row[0] != "words"):  # dropping it drops its inner tables
            if name == "words" or not name.startswith(("words_", "sqlite_")):
                db.execute(f'drop table "{name}"')
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute(f"pragma user_version = {FORMAT}")
    db.execute("commit")


def _enable_wal(db: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. While another connection does the same, SQLite fails at once, whatever its timeout."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            db.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def _read_format(db: sqlite3.Connection) -> int:
    return int(db.execute("pragma user_version").fetchone()[0])


def _list_files(path: Path) -> list[Path]:
    """List the file and its logs, as far as they exist."""
    return [file for end in ("", "-wal", "-shm") if (file := path.with_name(path.name + end)).is_file()]
