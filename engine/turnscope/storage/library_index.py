"""The index of all sessions: a row for each, the cost of each request, and the words of every block.

It is a file of its own next to the chats, so that no chat waits for it. It is only a cache of session files: a file of another
format, or a broken one, is made anew. A source is written in one transaction, so no half session is ever listed.

Words are indexed without their positions, which would take twice the space of all the rest: blocks that hold all words of a
"quoted" search are read, and those that do not hold them together are left out.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain, groupby, islice
from math import inf
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

import msgspec
from msgspec import Struct, structs

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from turnscope.errors import QueryError
from turnscope.storage.database import WAIT_SECONDS, StorageError, measure_files, stat_files
from turnscope.storage.folder_digest import digest_folders
from turnscope.storage.values import make_sqlite_text
from turnscope.views.cache_misses import MissRow, WarmRow
from turnscope.views.usage import PICO_PER_USD, QUARTER_HOUR, UsageRow

FILE = "library.db"  # beside the chats
FORMAT = 14  # count up when a table changes, or when rows are computed differently
PAGE_HITS = 20  # hits on one page
MAX_HITS = 1_000  # hits that are counted
MAX_READ_HITS = 100  # hits that are counted where texts have to be read to know them
READ_SECONDS = 2.0  # how long texts are read for one search
CHUNK_CHARACTERS = 1 << 19  # texts are compressed together from here on: more takes longer to read for one hit
COMPRESSION = 9  # of zstd; 19 takes 0.3 % less of the source and ten times the time
LEARNED_SESSIONS = 100  # from so many on, what sessions have in common is kept once: a dictionary for those that follow
DICTIONARY_BYTES = 112_640  # zstd's own default
SAMPLE_BYTES, SAMPLES = 4_096, 16  # of each of those sessions
TABLE_BLOCKS = 1 << 17  # blocks of one table of words: a search need not look into older ones once it has found enough
CURVE_POINTS = 40  # numbers of a session's curve at most
EXCERPT_CHARACTERS = 90  # characters shown on each side of what was found

_TABLES = """
create table sources (path text primary key, stamp text not null, problem text not null, hint text not null) without rowid;
create table sessions (id integer primary key, path text not null, entry text not null, title text not null,
    tool text not null, project text not null, warm_until real, sent integer not null, packed blob not null,
    unique (path, entry));
create table misses (session integer not null, uid integer not null, part integer not null, part_name text not null,
    request integer not null, at real, cause text not null, tokens integer not null, pico integer, idle real,
    evidence text not null);
create index misses_of on misses (session);
create table spending (id integer primary key, session integer not null, quarter integer, model text not null,
    requests integer not null, pico integer, uncached integer, written integer, written_1h integer, read integer,
    output integer);
create index spending_of on spending (session);
create table requests (spending integer not null, uid integer not null, pico integer, uncached integer not null,
    written integer not null, written_1h integer not null, read integer not null, output integer not null,
    counts integer not null default 1);
create index requests_of on requests (spending);
create index requests_by on requests (uid) where uid != 0;
create index requests_again on requests (spending) where counts = 0;
create table snapshots (key text primary key, folders text not null, digest text not null, sources text not null) without rowid;
create table cuts (session integer not null, day text not null, number integer not null);
create index cuts_of on cuts (session);
create table texts (first integer primary key, stop integer not null, session integer not null, packed blob not null);
create index texts_of on texts (session);
create table dictionary (data blob not null);
"""
_WORDS = "using fts5 (text, split, content='', tokenize='unicode61 remove_diacritics 2', columnsize=0, detail=none)"
_OF_SESSION = "select id from spending where session = ?"
_HUMP = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])[A-Za-z0-9]*")  # the second and later words of an identifier
_INSIDE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_BEGIN = re.compile(rf"(?<![^\W_])|{_INSIDE.pattern}")  # of a word, or of one inside an identifier
_ACCENTS = re.compile(r"[\u0300-\u036f]+")


class IndexRow(Struct, frozen=True, array_like=True, gc=False):
    """A session in the library.

    Tokens of the provider; times in seconds since the Unix epoch; `pico` 10**-12 USD, None = no price.

    `filled` requests have a known window. They filled `fill` of it on average, `band` of them 40 to 70 %. `messages`: messages
    sent by all requests together. `cuts`: compactions and cuts. `good` of `rated` summaries were rated good. `misses`: cache
    misses of all paths, and `missed` what they cost beyond reading, in 10**-12 USD. `curve`: the fill in percent over the
    requests, at most `CURVE_POINTS` numbers with commas between them; "" where no window is known. `warm_until`: until when the
    provider holds the last prompt in its cache, None = unknown or not at all. `sent`: tokens of that prompt. `latest`: what
    fills it, a `LatestRequest` as JSON; "" = there is no request. `recorded`: of a recording of a tap its own mark
    (`mark_recording`); of a session that was joined with some, theirs, a line for each.
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
    misses: int = 0
    missed: int | None = None
    curve: str = ""
    warm_until: float | None = None
    sent: int = 0
    latest: str = ""
    recorded: str = ""

    @property
    def recordings(self) -> tuple[str, ...]:
        """Names of the recordings of a tap that were joined with it; () = none, or it is one itself."""
        names = tuple(mark.partition("#")[0] for mark in self.recorded.splitlines())
        return () if self.name in names else names

    @property
    def usd(self) -> float | None:
        """Cost in USD, with branches and subagents."""
        return None if self.pico is None else self.pico / PICO_PER_USD


class LatestRequest(Struct, frozen=True):
    """The last request of a session, in tokens of the provider.

    `answer`: of the answer. `window` 0 = unknown; `evidence`: how it is known, in words. `output`: the model's limit of an
    answer, 0 = unknown. `parts`: what fills the prompt, by the names of `views.overview.LABELS`.
    """

    model: str
    prompt: int
    answer: int
    window: int
    evidence: str
    output: int
    parts: dict[str, int]


class IndexedMiss(NamedTuple):
    """A cache miss of a session; see `views.cache_misses.MissRow`. `uid`: the provider's id of the request, "" = unknown."""

    uid: str
    part: int
    part_name: str
    request: int
    at: float | None
    cause: str
    tokens: int
    pico: int | None
    idle: float | None
    evidence: str


class BlockText(Struct, frozen=True, array_like=True, gc=False):
    """A block's text: its part of the session (0 = its main path), its address, and the first request that sent it."""

    part: int
    at: int
    request: int
    text: str


class BilledRequest(NamedTuple):
    """What one request was billed, in tokens and in 10**-12 USD.

    `uid`: the provider's id, "" = unknown. `quarter`: the number of its quarter hour since 1970, None = the log has no time.
    `pico` None = no known price. `written`: to the cache, for five minutes; `written_1h`: for an hour.
    """

    uid: str
    quarter: int | None
    model: str
    pico: int | None
    uncached: int = 0
    written: int = 0
    written_1h: int = 0
    read: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True)
class IndexedSession:
    """A session as the index stores it. `cuts`: number of cuts by day."""

    row: IndexRow
    costs: tuple[BilledRequest, ...]
    cuts: tuple[tuple[str, int], ...]
    texts: tuple[BlockText, ...]
    misses: tuple[IndexedMiss, ...] = ()


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


class SearchResult(NamedTuple):
    """How many blocks a search found, and one page of them. `is_all`: there are no more."""

    total: int
    hits: tuple[Hit, ...]
    is_all: bool


class _Term(NamedTuple):
    """What a query asks for: words that match together, the last one from its beginning."""

    words: tuple[str, ...]

    @property
    def match(self) -> str:
        """Finds blocks that hold each of the words."""
        return " ".join(f'"{word}"' for word in self.words) + "*"

    def stands_in(self, text: str) -> bool:
        """Whether a text holds the words one behind the other."""
        text = _fold(text)
        lower = text.lower()  # a pattern that ignores case is ten times slower
        text = text if len(text) == len(lower) else lower
        pattern = re.compile(r"[\W_]*".join(f"({re.escape(_fold(word).lower())})" for word in self.words))
        at = 0
        while found := pattern.search(lower, at):
            if all(_BEGIN.match(text, found.start(number)) for number in range(1, len(self.words) + 1)):
                return True
            at = found.start() + 1
        return False


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of the requests of a day, a model, a project and a tool, each request once. `pico` None = no known price."""

    day: str
    model: str
    project: str
    tool: str
    requests: int
    pico: int | None


_COLUMNS = ("path", "entry", "title", "tool", "project", "warm_until", "sent")  # of a row: those that queries ask for
_decode_row = msgspec.msgpack.Decoder(IndexRow).decode
_TOKENS = ("uncached", "written", "written_1h", "read", "output")
# What the chosen sessions were billed, each request once: what counts in them, and one of each that counts in another session.
_OF_CHOSEN = "requests r join spending p on p.id = r.spending join chosen on chosen.id = p.session"
_BILLED = f"""select p.session, p.quarter, p.model, p.requests, p.pico, {", ".join(f"p.{name}" for name in _TOKENS)}
    from spending p join chosen on chosen.id = p.session where p.requests
    union all select p.session, p.quarter, p.model, 1, r.pico, {", ".join(f"r.{name}" for name in _TOKENS)}
    from requests r join spending p on p.id = r.spending where r.rowid in (
        select min(r.rowid) from {_OF_CHOSEN} where r.counts = 0 and r.uid not in (
            select r.uid from {_OF_CHOSEN} where r.counts = 1) group by r.uid)"""  # noqa: S608 - text is ours


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
    with _connect(path) as db:
        packer = _TextPacker(db)
        packed = map(packer.pack, sessions)
        first = [*islice(packed, 1)]  # most sources are one session: it is compressed before others have to wait
        with _write(db):
            _delete_source(db, [source])
            db.execute("insert into sources values (?, ?, ?, ?)", [source, stamp, *map(make_sqlite_text, reported)])
            for each, parts in chain(first, packed):
                _insert_row(db, each, parts)
                packer.learn()


def drop(path: Path, sources: Sequence[str]) -> None:
    """Remove sources from the index.

    Args:
        path: The index.
        sources: Paths of the sources.
    """
    with _begin_write(path) as db:
        db.execute("delete from snapshots")
        _delete_source(db, sources)


def keep_snapshot(path: Path, key: str, state: str, folders: Sequence[str], digest: str, sources: Sequence[str]) -> None:
    """Remember that all of some folders is indexed, as they were.

    Args:
        path: The index.
        key: What the folders were looked for by; there is one snapshot of each.
        state: What else decides what is found and how it is read, such as the version of the program.
        folders: The folders, those that do not exist yet as well.
        digest: Their `digest_folders`, taken before anything was read.
        sources: The sources that were found in them.
    """
    with _begin_write(path) as db:
        values = [key, json.dumps([*folders]), f"{state}\n{digest}", json.dumps([*sources])]
        db.execute("insert or replace into snapshots values (?, ?, ?, ?)", values)


def find_unchanged(path: Path, key: str, state: str) -> tuple[str, ...] | None:
    """The sources that a snapshot remembers, if nothing in its folders has changed since; else None. Opens no source.

    Args:
        path: The index.
        key, state: As they were kept.
    """
    with _connect(path) as db:
        found = db.execute("select folders, digest, sources from snapshots where key = ?", [key]).fetchone()
    if not found or f"{state}\n{digest_folders(json.loads(found[0]))}" != found[1]:
        return None
    return tuple(json.loads(found[2]))


def mark_recording(name: str, session: str) -> str:
    """Make the mark of a recorded session.

    Args:
        name: Name of the recording's file.
        session: The session's id.
    """
    return f"{name}#{session}".replace("\n", " ")


def drop_joined(rows: Sequence[IndexRow]) -> list[IndexRow]:
    """Leave out the recordings of a tap that were joined with the log of their tool: there they are one session."""
    joined = {mark for row in rows if row.recorded and row.recordings for mark in row.recorded.splitlines()}
    return [row for row in rows if not row.recorded or row.recordings or row.recorded not in joined]


def list_sessions(path: Path) -> tuple[IndexRow, ...]:
    """List every session, the one that ended last first. One that a tap recorded and its tool logged is listed once."""
    return tuple(drop_joined(list_rows(path)))


def list_rows(path: Path) -> tuple[IndexRow, ...]:
    """List every row, the session that ended last first, recordings among them that were joined with another row."""
    with _connect(path) as db:
        rows = [_decode_row(packed) for (packed,) in db.execute("select packed from sessions")]
    rows.sort(key=lambda row: -inf if row.ended is None else row.ended, reverse=True)
    return tuple(rows)


def find_session(path: Path, source: str) -> IndexRow | None:
    """Find the main session of a source; None = it is not in the index.

    Args:
        path: The index.
        source: Path of the source.
    """
    with _connect(path) as db:
        found = db.execute("select packed from sessions where path = ? order by id limit 1", [source]).fetchone()
    return _decode_row(found[0]) if found else None


def list_problems(path: Path) -> tuple[Problem, ...]:
    """List the sources that could not be read."""
    with _connect(path) as db:
        return tuple(Problem(*row) for row in db.execute("select path, problem, hint from sources where problem != ''"))


def list_spending(path: Path, of: Iterable[tuple[str, str]] | None = None) -> tuple[Spending, ...]:
    """List the cost by day of this machine's time zone, model, project and tool. A request in two sessions counts in the first.

    Args:
        path: The index.
        of: Source and entry of the sessions to look at; None = all.
    """
    day = f"coalesce(date(b.quarter * {QUARTER_HOUR}, 'unixepoch', 'localtime'), '')"
    sql = f"""select {day}, b.model, s.project, s.tool, sum(b.requests), sum(b.pico) from ({_BILLED}) b
             join sessions s on s.id = b.session group by 1, 2, 3, 4 order by 1"""  # noqa: S608 - text is ours
    with _connect(path) as db:
        _choose_sessions(db, of)
        return tuple(Spending(*row) for row in db.execute(sql))


def list_usage(path: Path, sources: Iterable[str]) -> tuple[UsageRow, ...]:
    """List what was billed in every quarter hour, the oldest first; those without a time before them.

    Args:
        path: The index.
        sources: Paths of the sources whose sessions count. A request that several of them hold counts once.
    """
    sql = f"""select b.quarter, b.model, s.path, s.entry, s.title, s.project, s.tool, b.requests, b.pico,
             {", ".join(f"b.{name}" for name in _TOKENS)} from ({_BILLED}) b
             join sessions s on s.id = b.session order by 1"""  # noqa: S608 - text is ours
    wanted = frozenset(sources)
    with _connect(path) as db:
        _choose_sessions(db, [row for row in db.execute("select path, entry from sessions") if row[0] in wanted])
        return tuple(UsageRow(*row) for row in db.execute(sql))


def list_misses(path: Path, sources: Iterable[str]) -> tuple[MissRow, ...]:
    """List every cache miss, the oldest first; those without a time before them.

    Args:
        path: The index.
        sources: Paths of the sources whose sessions count. The miss of a request that several of them hold counts once.
    """
    sql = """select m.uid, s.path, s.entry, s.title, s.project, s.tool, m.part, m.part_name, m.request, m.at, m.cause, m.tokens,
             m.pico, m.idle, m.evidence from misses m join sessions s on s.id = m.session order by m.rowid"""
    wanted, known, found = frozenset(sources), set[int](), list[MissRow]()
    with _connect(path) as db:
        for uid, *row in db.execute(sql):
            if row[0] in wanted and uid not in known:
                found.append(MissRow(*row))
                known |= {uid} - {0}
    return tuple(sorted(found, key=lambda row: (row.at is not None, row.at or 0.0, row.path, row.part, row.request)))


def list_warm(path: Path, sources: Iterable[str], now: float) -> tuple[WarmRow, ...]:
    """List the sessions whose cache is still held, the one that goes cold first before the others.

    Args:
        path: The index.
        sources: Paths of the sources whose sessions count.
        now: The present time in seconds since the Unix epoch.
    """
    sql = "select path, title, project, tool, sent, warm_until from sessions where warm_until > ? order by warm_until"
    wanted = frozenset(sources)
    with _connect(path) as db:
        return tuple(WarmRow(*row) for row in db.execute(sql, [now]) if row[0] in wanted)


def count_cuts(path: Path, of: Iterable[tuple[str, str]] | None = None) -> tuple[tuple[str, int], ...]:
    """Count how often something was removed from a window, by day.

    Args:
        path: The index.
        of: Source and entry of the sessions to look at; None = all.
    """
    sql = """select c.day, sum(c.number) from cuts c join chosen on chosen.id = c.session
             where c.day != '' group by c.day order by c.day"""
    with _connect(path) as db:
        _choose_sessions(db, of)
        return tuple(db.execute(sql))


def _choose_sessions(db: sqlite3.Connection, of: Iterable[tuple[str, str]] | None) -> None:
    """Make the table `chosen` of the sessions to look at, by source and entry; None = all. It ends with the connection."""
    db.execute("create temp table chosen (id integer primary key)")
    if of is None:
        db.execute("insert into chosen select id from sessions")
        return
    rows = json.dumps([[make_sqlite_text(source), make_sqlite_text(entry)] for source, entry in of])
    one = "select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(?)"
    db.execute(f"insert into chosen select id from sessions where (path, entry) in ({one})", [rows])  # noqa: S608 - text is ours


def search(path: Path, query: str, start: int = 0) -> SearchResult:
    """Search for blocks that hold all words of a query, those indexed last first.

    Words match from their beginning, and inside identifiers. "Quoted" words match together, as do those of `a_name`.
    At most `MAX_HITS` are counted; of what has to be read `MAX_READ_HITS`, and what is found in `READ_SECONDS`.

    Args:
        path: The index.
        query: The words.
        start: Number of the first hit to return, from 0.

    Raises:
        QueryError: The query holds no word.
    """
    wanted = _split_query(query)
    with _connect(path) as db:
        reader = _TextReader(db)
        found, is_all = _find_blocks(reader, wanted)
        hits = tuple(_make_hit(reader, id, wanted) for id in found[start : start + PAGE_HITS])
        return SearchResult(len(found), hits, is_all)


def find_sessions(path: Path, query: str) -> frozenset[tuple[str, str]]:
    """Find the sessions that the hits of `search` lie in: source and entry of each.

    Args:
        path: The index.
        query: The words.

    Raises:
        QueryError: The query holds no word.
    """
    wanted = _split_query(query)
    sql = """select s.path, s.entry from sessions s where s.id in (select (select session from texts where first <= value
             order by first desc limit 1) from json_each(?))"""
    with _connect(path) as db:
        return frozenset(db.execute(sql, [json.dumps(_find_blocks(_TextReader(db), wanted)[0])]))


def _split_query(query: str) -> list[_Term]:
    terms = [quoted or word for quoted, word in re.findall(r'"([^"]+)"|(\S+)', make_sqlite_text(query))]
    wanted = [_Term(words) for term in terms if (words := tuple(_WORD.findall(term)))]
    if not wanted:
        raise QueryError("the query holds no word", hint="Type a word, or part of an identifier.")
    return wanted


def _fold(text: str) -> str:
    """A text without accents, as the index knows it."""
    return text if text.isascii() else _ACCENTS.sub("", normalize("NFD", text))


def _find_blocks(reader: _TextReader, wanted: Sequence[_Term]) -> tuple[list[int], bool]:
    """The blocks of a query, those indexed last first, and whether there are no more."""
    together = [term for term in wanted if len(term.words) > 1]
    most, until = MAX_READ_HITS if together else MAX_HITS, time.monotonic() + READ_SECONDS
    found: list[int] = []
    for id in _iter_candidates(reader.db, " ".join(term.match for term in wanted)):
        if len(found) == most or (together and time.monotonic() > until):
            return found, False
        if not together or all(term.stands_in(reader.read(id)[1].text) for term in together):
            found.append(id)
    return found, True


def _iter_candidates(db: sqlite3.Connection, match: str) -> Iterator[int]:
    """The blocks that hold all words, those indexed last first."""
    for table in reversed(_list_word_tables(db)):
        try:
            sql = f"select rowid from {table} where {table} match ? order by rowid desc"  # noqa: S608 - names are ours
            for (id,) in db.execute(sql, [match]):
                yield id
        except sqlite3.OperationalError as error:  # a letter that FTS5 takes for none
            raise QueryError("this text cannot be searched for", hint="Type a word, or part of an identifier.") from error


class _TextReader:
    """Reads blocks; neighbours are unpacked together, once for those in a row."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._packer = _TextPacker(db)
        self._first, self._stop, self._session = 0, 0, 0
        self._texts: list[BlockText] = []

    def read(self, id: int) -> tuple[int, BlockText]:
        """The session of a block, and the block."""
        if not self._first <= id < self._stop:
            sql = "select first, stop, session, packed from texts where first <= ? order by first desc limit 1"
            self._first, self._stop, self._session, packed = self.db.execute(sql, [id]).fetchone()
            self._texts = self._packer.unpack(packed)
        return self._session, self._texts[id - self._first]


def remove(path: Path) -> int:
    """Delete the index. Gives the bytes that were freed."""
    size = measure_files(path)
    for file in stat_files(path):
        file.unlink(missing_ok=True)
    return size


def read_version(path: Path) -> tuple[int, ...]:
    """Read a value that changes with every write."""
    found = [*stat_files(path).values()][:2]
    return tuple(number for status in found for number in (status.st_mtime_ns, status.st_size))


def _make_hit(reader: _TextReader, id: int, wanted: Sequence[_Term]) -> Hit:
    session, block = reader.read(id)
    sql = "select path, entry, title from sessions where id = ?"
    source, entry, title = reader.db.execute(sql, [session]).fetchone()
    text = block.text
    forms = [r"[\W_]*".join(map(re.escape, term.words)) for term in wanted]
    apart = re.compile("|".join(forms), re.IGNORECASE)
    rare = min(forms, key=lambda form: sum(1 for _ in re.finditer(form, text, re.IGNORECASE)) or len(text))
    first = re.search(rare, text, re.IGNORECASE)
    begin = max(0, first.start() - EXCERPT_CHARACTERS) if first else 0
    stop = (first.end() if first else 0) + 2 * EXCERPT_CHARACTERS
    excerpt = _cut_excerpt(text, begin, stop)
    marks = tuple(found.span() for found in apart.finditer(excerpt))
    return Hit(source, entry, title, block.part, block.at, block.request, excerpt, marks)


def _cut_excerpt(text: str, begin: int, stop: int) -> str:
    """Cut a stretch of a text to one line. Words stay whole where they can; "…" marks what is left out."""
    part = text[begin:stop].replace("\n", " ")
    if begin:
        part = "… " + re.sub(r"^\S{0,30} +", "", part)
    return part if stop >= len(text) else re.sub(r" +\S{0,30}$", "", part) + " …"


def _insert_row(db: sqlite3.Connection, each: IndexedSession, parts: Iterable[_Part] = ()) -> None:
    """Insert a session. `parts`: its texts, compressed."""
    texts_of_row = {name: make_sqlite_text(value) for name, value in structs.asdict(each.row).items() if isinstance(value, str)}
    row = structs.replace(each.row, **texts_of_row)
    values = [*(getattr(row, name) for name in _COLUMNS), msgspec.msgpack.encode(row)]
    sql = f"insert into sessions ({', '.join(_COLUMNS)}, packed) values ({', '.join('?' * len(values))})"  # noqa: S608 - names are ours
    session = db.execute(sql, values).lastrowid
    for (_, quarter, model), costs in groupby(sorted(each.costs, key=_get_spending_key), _get_spending_key):
        sql = "insert into spending (session, quarter, model, requests) values (?, ?, ?, 0)"
        spending = db.execute(sql, [session, quarter, make_sqlite_text(model)]).lastrowid
        charges = ((spending, _number_request(uid), *billed) for uid, _, _, *billed in costs)
        sql = f"insert into requests (spending, uid, pico, {', '.join(_TOKENS)}) values (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
        db.executemany(sql, charges)
    again = "exists (select 1 from requests o where o.uid = requests.uid and o.uid != 0 and o.rowid < requests.rowid)"
    db.execute(f"update requests set counts = 0 where spending in ({_OF_SESSION}) and uid != 0 and {again}", [session])  # noqa: S608 - ours
    _sum_spending(db, session)
    db.executemany("insert into cuts values (?, ?, ?)", ((session, *row) for row in each.cuts))
    misses = (_list_values(session, row) for row in each.misses)
    db.executemany("insert into misses values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", misses)
    first = db.execute("select coalesce(max(stop), 1) from (select stop from texts order by first desc limit 1)").fetchone()[0]
    _index_words(db, first, [text.text for text in each.texts])
    rows = ((first + n, first + stop, session, data) for n, stop, data in parts)
    db.executemany("insert into texts values (?, ?, ?, ?)", rows)


def _list_values(session: int | None, miss: IndexedMiss) -> list[object]:
    """The columns of a miss."""
    texts = [make_sqlite_text(value) if isinstance(value, str) else value for value in miss[1:]]
    return [session, _number_request(miss.uid), *texts]


def _get_spending_key(billed: BilledRequest) -> tuple[bool, int | None, str]:
    """What requests of one row of spending share; those without a time stand apart, because None has no order."""
    return billed.quarter is None, billed.quarter, billed.model


def _number_request(uid: str) -> int:
    """A number for the id of a request, so that what is copied to another session counts once; 0 = it has no id."""
    digest = blake2b(uid.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if uid else 0


def _list_word_tables(db: sqlite3.Connection) -> list[str]:
    """The tables of words, the one with the oldest blocks first."""
    names = db.execute("select name from sqlite_master where name glob 'words[0-9]*' and sql like 'create virtual%'")
    return sorted((name for (name,) in names), key=lambda name: int(name.removeprefix("words")))


def _index_words(db: sqlite3.Connection, first: int, texts: Sequence[str]) -> None:
    """Index the words of blocks from a number on. A full table is merged into one piece, which is smaller and faster."""
    known = _list_word_tables(db)
    for table, rows in _group_by_table(_split_words(first, texts)):
        if table not in known:
            if known:
                db.execute(f"insert into {known[-1]} ({known[-1]}) values ('optimize')")  # noqa: S608 - names are ours
            db.execute(f"create virtual table {table} {_WORDS}")
            db.execute(f"insert into {table} ({table}, rank) values ('automerge', 16)")  # noqa: S608 - names are ours
            known.append(table)
        db.executemany(f"insert into {table} (rowid, text, split) values (?, ?, ?)", rows)  # noqa: S608 - names are ours


def _group_by_table(rows: Iterable[tuple[int, str, str]]) -> Iterator[tuple[str, Iterator[tuple[int, str, str]]]]:
    """Each table of words, and those of the rows that it holds."""
    return groupby(rows, lambda row: f"words{row[0] // TABLE_BLOCKS}")


def _sum_spending(db: sqlite3.Connection, session: int | None) -> None:
    """Sum again what a session was billed. A request counts in the first session that holds it."""
    sums = ", ".join(f"sum({name})" for name in ("pico", *_TOKENS))
    sql = f"""update spending set (requests, pico, {", ".join(_TOKENS)}) =
             (select count(*), {sums} from requests r where r.spending = spending.id and counts) where session = ?"""  # noqa: S608 - ours
    db.execute(sql, [session])


def _hand_on(db: sqlite3.Connection, uids: Sequence[tuple[int]]) -> None:
    """Let requests count in the next session that holds them, after the first one was deleted."""
    heirs = set[int]()
    for (uid,) in uids:
        sql = """select r.rowid, s.session from requests r join spending s on s.id = r.spending
                 where uid = ? and uid != 0 order by r.rowid"""
        if found := db.execute(sql, [uid]).fetchone():
            db.execute("update requests set counts = 1 where rowid = ?", [found[0]])
            heirs.add(found[1])
    for session in heirs:
        _sum_spending(db, session)


def _split_words(first: int, texts: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Each text as its block is found: also by the words of its identifiers, so that `getUserName` is found under `user`.

    What is indexed is removed with the same words, so a change here needs another `FORMAT`.
    """
    for id, text in enumerate(texts, first):
        yield id, text, " ".join(_INSIDE.sub(" ", word) for word in dict.fromkeys(_HUMP.findall(text)))


_Part = tuple[int, int, bytes]  # texts that are compressed together: numbers of the first and behind the last, what is stored


class _TextPacker:
    """Compresses texts, several at once, and reads them again.

    Sessions of one user have much in common, so a dictionary of zstd is made of the first ones, for all that follow.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    @cached_property
    def _dictionary(self) -> zstd.ZstdDict | None:
        found = self.db.execute("select data from dictionary").fetchone()
        return zstd.ZstdDict(found[0]) if found else None

    def pack(self, session: IndexedSession) -> tuple[IndexedSession, list[_Part]]:
        """Compress the texts of a session; the session with its texts as SQLite takes them, and the parts."""
        texts = tuple(structs.replace(text, text=make_sqlite_text(text.text)) for text in session.texts)
        return replace(session, texts=texts), [*self._compress(texts)]

    def _compress(self, texts: Sequence[BlockText]) -> Iterator[_Part]:
        begin, size = 0, 0
        for n, block in enumerate(texts, 1):
            size += len(block.text)
            if size >= CHUNK_CHARACTERS or n == len(texts):
                yield begin, n, zstd.compress(msgspec.msgpack.encode(texts[begin:n]), COMPRESSION, zstd_dict=self._dictionary)
                begin, size = n, 0

    def unpack(self, packed: bytes) -> list[BlockText]:
        """Read a part that was compressed."""
        dictionary = self._dictionary if zstd.get_frame_info(packed).dictionary_id else None
        return msgspec.msgpack.decode(zstd.decompress(packed, dictionary), type=list[BlockText])

    def learn(self) -> None:
        """Make the dictionary when there are enough sessions, if they have anything in common."""
        count = "select count(*) from sessions where not exists (select 1 from dictionary)"
        if self._dictionary or self.db.execute(count).fetchone()[0] != LEARNED_SESSIONS:
            return
        samples: list[bytes] = []
        firsts = "select packed from texts where first in (select min(first) from texts group by session)"
        for (packed,) in self.db.execute(firsts):
            whole = zstd.decompress(packed)
            samples += (whole[at : at + SAMPLE_BYTES] for at in range(0, min(len(whole), SAMPLES * SAMPLE_BYTES), SAMPLE_BYTES))
        with suppress(zstd.ZstdError, ValueError):  # they have not
            self._dictionary = zstd.train_dict(samples, DICTIONARY_BYTES)
            self.db.execute("insert into dictionary values (?)", [self._dictionary.dict_content])


def _delete_source(db: sqlite3.Connection, sources: Sequence[str]) -> None:
    packer = _TextPacker(db)
    for source in sources:
        db.execute("delete from sources where path = ?", [source])
        for (session,) in db.execute("select id from sessions where path = ?", [source]).fetchall():
            for first, packed in db.execute("select first, packed from texts where session = ?", [session]).fetchall():
                for table, rows in _group_by_table(_split_words(first, [block.text for block in packer.unpack(packed)])):
                    sql = f"insert into {table} ({table}, rowid, text, split) values ('delete', ?, ?, ?)"  # noqa: S608 - ours
                    db.executemany(sql, rows)
            of = f"requests where spending in ({_OF_SESSION})"
            counted = db.execute(f"select uid from {of} and counts and uid != 0", [session]).fetchall()  # noqa: S608 - ours
            db.execute(f"delete from {of}", [session])  # noqa: S608 - ours
            for table in ("texts", "spending", "cuts", "misses"):
                db.execute(f"delete from {table} where session = ?", [session])  # noqa: S608 - names are ours
            _hand_on(db, counted)
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
    with _connect(path) as db, _write(db):
        yield db


@contextmanager
def _write(db: sqlite3.Connection) -> Iterator[None]:
    """Write in one transaction. Other processes wait until it ends."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        db.execute("rollback")
        raise


def _make_tables(db: sqlite3.Connection) -> None:
    """Make empty tables in place of another version's. Several processes at once: the first one makes them."""
    _enable_wal(db)
    db.execute("begin immediate")
    if _read_format(db) != FORMAT:
        for kind in ("create virtual%", "%"):  # dropping a table of words drops its inner tables
            old = "select name from sqlite_master where type = 'table' and name not like 'sqlite%' and sql like ?"
            for (name,) in db.execute(old, [kind]).fetchall():
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
