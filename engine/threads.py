"""Chats kept in SQLite: threads, their messages, requests, decisions and recorded answers. Append-only.

A thread loads as a `Session` like any other. Each text is stored once, by digest. System prompts and tool definitions are rows
of their own that requests refer to, never messages. A thread may start from another one or from an imported session; what
came before is shared, not copied. Every method opens its own connection, so any thread or process may call.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec import structs

from engine.builder import Builder, Draft
from engine.content import dumps, text_of
from engine.errors import TurnscopeError
from engine.model import JSON, Answer, Edit, Message, Observed, Request, Session, Usage
from engine.policy import Policy, write
from engine.portable import dumps as dump_session
from engine.portable import loads as load_session
from engine.rule import Plan

if TYPE_CHECKING:
    from sqlite_utils import Database

SOURCE = "turnscope-chat"
STATIC = ("system", "tools")


class Conflict(TurnscopeError):
    """The thread was continued elsewhere since it was read."""


@dataclass(frozen=True, slots=True)
class Row:
    """A thread in the list. Times in seconds since the epoch."""

    id: str
    user_id: str
    title: str
    created: float
    updated: float
    parent: str
    at: int
    about: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that a search found."""

    thread: str
    n: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Threads:
    """The store of chats at `path`; the file is made on first use."""

    path: Path
    clock: Callable[[], float] = field(default=time.time)

    def create(
        self,
        *,
        user_id: str = "",
        title: str = "",
        base: Session | None = None,
        parent: str = "",
        at: int = -1,
        about: Mapping[str, JSON] | None = None,
    ) -> str:
        """A new thread; gives its id. It may go on from an imported session (`base`) or the first `at` blocks of `parent`."""
        id, now = uuid.uuid4().hex, self.clock()
        row = {"id": id, "user_id": user_id, "title": title, "created": now, "updated": now, "parent": parent, "at": at}
        kept = dump_session(base) if base else None
        with self._write() as db:
            db.table("threads").insert({**row, "about": dumps(about or {}), "base": kept})
        return id

    def list(self, user_id: str = "") -> tuple[Row, ...]:
        """Threads of a user, the newest first."""
        if not self.path.exists():
            return ()
        with self._open() as db:
            columns = "id, user_id, title, created, updated, parent, at, about"
            found = db.query(f"select {columns} from threads where user_id = ? order by updated desc", [user_id])  # noqa: S608
            return tuple(Row(**{**row, "about": orjson.loads(row["about"])}) for row in found)

    def rename(self, thread: str, title: str) -> None:
        """Give a thread another title."""
        with self._write() as db:
            db.execute("update threads set title = ? where id = ?", [title, thread])

    def search(self, words: str, user_id: str = "", limit: int = 50) -> tuple[Hit, ...]:
        """Messages that hold all the words, the best first."""
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not quoted or not self.path.exists():
            return ()
        sql = """select m.thread, m.n, m.role, m.text from messages_fts f join messages m on m.id = f.rowid
                 join threads t on t.id = m.thread where messages_fts match ? and t.user_id = ? order by rank limit ?"""
        with self._open() as db:
            return tuple(Hit(**row) for row in db.query(sql, [quoted, user_id, limit]))

    def sink(self, thread: str) -> Keeper:
        """Where a chat writes what happens."""
        return Keeper(self, thread)

    def load(self, thread: str) -> Session:
        """The thread as a session. TurnscopeError where there is none of that id."""
        with self._open() as db:
            return self._load(db, thread)

    def last(self, thread: str) -> str:
        """Id of the newest message of a thread; "" where it has none of its own."""
        with self._open() as db:
            row = next(db.query("select uid from messages where thread = ? order by n desc limit 1", [thread]), None)
        return row["uid"] if row else ""

    def _load(self, db: Database, thread: str) -> Session:
        row = next(db.query("select * from threads where id = ?", [thread]), None)
        if row is None:
            raise TurnscopeError(f"there is no chat {thread!r}", hint="Choose one from the list.")
        start = Session(thread, source=SOURCE)
        if row["base"] is not None:
            start = load_session(orjson.loads(row["base"]), "base")
        elif row["parent"]:
            start = upto(self._load(db, row["parent"]), row["at"])
        rows = [*db.query("select * from messages where thread = ?", [thread])]
        rows += db.query("select * from statics where thread = ?", [thread])
        rows.sort(key=lambda r: r["n"])
        texts = self._texts(db, rows)
        built = _built(start, rows, texts)
        requests = [_request(r) for r in db.query("select * from requests where thread = ? order by n", [thread])]
        edits = [
            Observed(r["request"], msgspec.json.decode(r["edit"], type=Edit))
            for r in db.query(
                "select request, edit from decisions where thread = ? and changed = 1 order by request, seq", [thread]
            )
        ]
        answers = {
            r["key"]: msgspec.json.decode(r["answer"], type=Answer)
            for r in db.query("select * from answers where thread = ?", [thread])
        }
        about = orjson.loads(row["about"])
        return structs.replace(
            built,
            id=thread,
            title=row["title"],
            source=SOURCE,
            requests=(*start.requests, *requests),
            observed=(*start.observed, *edits),
            answers={**start.answers, **answers},
            about={**start.about, **about},
            parent=row["parent"] or (start.id if row["base"] is not None else ""),
            at=row["at"],
            subagents=(),
            branches=(),
        )

    def _texts(self, db: Database, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        digests = [digest for row in rows for digest in orjson.loads(row["blobs"])]
        found: dict[str, str] = {}
        for i in range(0, len(digests), 500):
            some = digests[i : i + 500]
            places = ", ".join("?" * len(some))
            found |= {r["digest"]: r["content"] for r in db.query(f"select * from blobs where digest in ({places})", some)}  # noqa: S608
        return found

    @contextmanager
    def _open(self) -> Iterator[Database]:
        from sqlite_utils import Database

        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = Database(self.path)
        try:
            db.conn.execute("pragma busy_timeout = 10000")
            if db.conn.execute("pragma user_version").fetchone()[0] == 0:
                _migrate(db)
            yield db
        finally:
            db.close()

    @contextmanager
    def _write(self) -> Iterator[Database]:
        """One write transaction, taken at once so that two writers wait for each other instead of failing half way."""
        with self._open() as db:
            db.conn.execute("begin immediate")
            try:
                yield db
            except BaseException:
                db.conn.rollback()
                raise
            db.conn.commit()


@dataclass(frozen=True, slots=True)
class Keeper:
    """The sink of one thread (`live.Sink`)."""

    threads: Threads
    thread: str

    def message(self, message: Message, blocks: Sequence[JSON], status: str) -> None:
        """Keep one message, or a system prompt or tool definitions where its role says so."""
        with self.threads._write() as db:  # noqa: SLF001 - the keeper is the other half of the store
            self._insert(db, message, blocks, status)

    def request(
        self, request: Request, plan: Plan, answer: tuple[Message, Sequence[JSON]] | None, status: str, seconds: float
    ) -> None:
        """Keep a request, its decisions and its answer in one transaction."""
        with self.threads._write() as db:  # noqa: SLF001
            if answer:
                self._insert(db, *answer, status)
            row = {
                "thread": self.thread,
                "n": request.n,
                "turn": request.turn,
                "cut": request.cut,
                "stop": request.stop,
                "model": request.model,
                "usage": msgspec.json.encode(request.usage).decode() if request.usage else None,
                "sent": request.sent_at,
                "answered": request.answered_at,
                "stop_reason": request.stop_reason,
                "provider_id": request.id,
                "settings": dumps(dict(request.settings)),
                "status": status,
                "verdict": plan.verdict,
                "seconds": seconds,
            }
            _insert(db, "requests", row)
            for seq, decision in enumerate(plan.decisions):
                edit = msgspec.json.encode(decision.edit).decode()
                values = {"thread": self.thread, "request": request.n, "seq": seq, "rule": decision.rule, "edit": edit}
                _insert(db, "decisions", {**values, "changed": int(decision.splice is not None)})

    def answer(self, key: str, answer: Answer) -> None:
        """Keep the answer to an ask."""
        with self.threads._write() as db:  # noqa: SLF001
            values = [self.thread, key, msgspec.json.encode(answer).decode()]
            db.execute("insert or replace into answers (thread, key, answer) values (?, ?, ?)", values)

    def policy(self, policy: Policy, request: int) -> None:
        """Keep the policy that is in force from a request on."""
        with self.threads._write() as db:  # noqa: SLF001
            db.execute(
                "insert or replace into policies (thread, request, toml) values (?, ?, ?)",
                [self.thread, request, write(policy)],
            )

    def _insert(self, db: Database, message: Message, blocks: Sequence[JSON], status: str) -> None:
        digests = []
        for raw in blocks:
            content = dumps(raw)
            digests.append(blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())
            db.execute("insert or ignore into blobs (digest, content) values (?, ?)", [digests[-1], content])
        row: dict[str, Any] = {
            "thread": self.thread,
            "n": message.start,
            "role": message.role,
            "bare": int(len(blocks) == 1 and isinstance(blocks[0], str)),
            "sent": message.sent_at,
            "blobs": dumps(digests),
        }
        try:
            if message.role in STATIC:
                _insert(db, "statics", row)
            else:
                text = text_of(list(blocks))
                more = {"uid": message.id or uuid.uuid4().hex, "parent": self._previous(db), "origin": message.origin}
                place = _insert(db, "messages", {**row, **more, "status": status, "text": text})
                db.execute("insert into messages_fts (rowid, text) values (?, ?)", [place, text])
        except sqlite3.IntegrityError as error:
            raise Conflict("this chat was continued in another window", hint="Reload to see it; nothing was lost.") from error
        db.execute("update threads set updated = ? where id = ?", [self.threads.clock(), self.thread])

    def _previous(self, db: Database) -> str:
        row = next(db.query("select uid from messages where thread = ? order by n desc limit 1", [self.thread]), None)
        return str(row["uid"]) if row else ""


_SCHEMA = """
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
pragma user_version = 1;
"""


def _migrate(db: Database) -> None:
    """Make the tables. A later version adds its statements behind `user_version`."""
    db.enable_wal()
    db.conn.execute("pragma synchronous = normal")
    db.conn.execute("begin immediate")
    if db.conn.execute("pragma user_version").fetchone()[0] == 0:  # nobody else was quicker
        for statement in _SCHEMA.split(";"):
            if statement.strip():
                db.conn.execute(statement)
    db.conn.commit()


def _insert(db: Database, table: str, row: Mapping[str, Any]) -> int:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    cursor = db.execute(f"insert into {table} ({names}) values ({places})", list(row.values()))  # noqa: S608 - names are ours
    return int(cursor.lastrowid or 0)


def _built(start: Session, rows: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> Session:
    """The session's blocks and messages: those of `start`, then the stored ones."""
    builder = Builder(start.id, SOURCE)
    drafts: list[Draft] = []
    for message in start.messages:
        raws = [block.raw for block in start.blocks[message.start : message.stop]]
        drafts.append(
            Draft(
                message.role,
                message.origin,
                [(raw, "") for raw in raws],
                message.id,
                message.sent_at,
                message.fence,
                message.extra,
            )
        )
    for row in rows:
        raws = [orjson.loads(texts[digest]) for digest in orjson.loads(row["blobs"])]
        drafts.append(
            Draft(row["role"], row.get("origin") or "system", [(raw, "") for raw in raws], row.get("uid") or "", row["sent"])
        )
    builder.drafts.extend(drafts)
    built = builder.build()
    shared = start.blocks  # what was shared keeps its kinds and turns: an importer may know more than a raw block says
    return structs.replace(built, blocks=(*shared, *built.blocks[len(shared) :]), window=start.window)


def _request(row: Mapping[str, Any]) -> Request:
    return Request(
        n=row["n"],
        turn=row["turn"],
        cut=row["cut"],
        stop=row["stop"],
        model=row["model"],
        usage=msgspec.json.decode(row["usage"], type=Usage) if row["usage"] else None,
        sent_at=row["sent"],
        answered_at=row["answered"],
        stop_reason=row["stop_reason"],
        id=row["provider_id"] or "",
        settings=orjson.loads(row["settings"]),
    )


def upto(session: Session, at: int) -> Session:
    """The first `at` blocks of a session with what happened on them: what a fork shares."""
    requests = tuple(r for r in session.requests if r.stop <= at)
    return structs.replace(
        session,
        blocks=session.blocks[:at],
        messages=tuple(m for m in session.messages if m.stop <= at),
        requests=requests,
        observed=tuple(o for o in session.observed if o.request < len(requests)),
    )
