"""Chats kept in SQLite: threads, their messages, requests, decisions and recorded facts. Append-only.

A thread loads as a `Session` like any other. Each text is stored once, by digest. System prompts and tool definitions are rows
of their own that requests refer to, never messages. A thread may start from another one or from an imported session; what
came before is shared, not copied. Every method opens its own connection, so any thread or process may call.
"""

from __future__ import annotations

import json
import sqlite3
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from engine.envelope.ended import RequestEnded
from engine.errors import PolicyError, TurnscopeError
from engine.planning.policy import Policy, load, parse, write
from engine.session.builder import block_of, paired_with
from engine.session.content import dumps, text_of
from engine.session.facts import noted, typed
from engine.session.fork import upto
from engine.session.model import JSON, Answer, Answered, Block, Edit, Fact, Message, Observed, Request, Session, Usage
from engine.session.portable import dumps as dump_session
from engine.session.portable import loads as load_session

if TYPE_CHECKING:
    from sqlite_utils import Database

SOURCE = "turnscope-chat"
STATIC = ("system", "tools")
_BEHIND, _RELOAD = "this chat was continued in another window", "Reload to see it; nothing was lost."
WAIT = 10  # seconds to wait for another writer
T = TypeVar("T")


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
            _insert(db, "threads", {**row, "about": dumps(dict(about or {})), "base": kept})
        return id

    def list(self, user_id: str = "") -> tuple[Row, ...]:
        """Threads of a user, the newest first; `about["policy"]` is the policy that was chosen last."""
        if not self.path.exists():
            return ()
        sql = f"""select id, user_id, title, created, updated, parent, at, about, ({_NEWEST}) as toml
                  from threads t where user_id = ? order by updated desc"""  # noqa: S608 - no value is part of it
        with self._open() as db:
            found = [(row, row.pop("toml")) for row in db.query(sql, [user_id])]
            return tuple(Row(**{**row, "about": _about(row["about"], toml)}) for row, toml in found)

    def rename(self, thread: str, title: str) -> None:
        """Give a thread another title."""
        with self._write() as db:
            db.execute("update threads set title = ? where id = ?", [_storable(title), thread])

    def search(self, words: str, user_id: str = "", limit: int = 50) -> tuple[Hit, ...]:
        """Messages that hold all the words, the best first."""
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not quoted or not self.path.exists():
            return ()
        sql = """select m.thread, m.n, m.role, m.text from messages_fts f join messages m on m.id = f.rowid
                 join threads t on t.id = m.thread where messages_fts match ? and t.user_id = ? order by rank limit ?"""
        with self._open() as db:
            return tuple(Hit(**row) for row in db.query(sql, [_storable(quoted), user_id, limit]))

    def kept_answers(self) -> dict[str, Answer]:
        """What models answered for replays: asks that belong to no chat, by key."""
        if not self.path.exists():
            return {}
        with self._open() as db:
            return {fact.key: fact.answer for fact in _facts(db, "") if isinstance(fact, Answered)}

    def keep_answer(self, key: str, answer: Answer) -> None:
        """Keep the answer to an ask of a replay."""
        self.sink("").fact(Answered(key, answer))

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

    def policies(self, thread: str) -> tuple[tuple[int, Policy], ...]:
        """From which request on which policy was in force, as it was then; what was shared comes from the parent.

        TurnscopeError where there is no such thread.
        """
        with self._open() as db:
            return tuple(self._policies(db, thread))

    def statics(self, thread: str, request: int) -> tuple[Sequence[JSON], Sequence[JSON]]:
        """The system prompt and the tool definitions that a stored request was sent with; empty where it had none.

        A base that was imported brings its own, which its session holds. TurnscopeError where there is no such request.
        """
        with self._open() as db:
            sql = "select system, tools from requests where thread = ? and n = ?"
            row = next(db.query(sql, [thread, request]), None)
            if row is not None:
                digests = [json.loads(row[role] or "[]") for role in STATIC]
                texts = self._texts(db, digests)
                return tuple(_read(texts[d]) for d in digests[0]), tuple(_read(texts[d]) for d in digests[1])
            parent = _row(db, thread)["parent"]
        if not parent:
            raise TurnscopeError(f"there is no request {request} in this chat", hint="Choose one that was sent from it.")
        return self.statics(parent, request)

    def _policies(self, db: Database, thread: str) -> Sequence[tuple[int, Policy]]:
        row, shared = _row(db, thread), 0
        found: list[tuple[int, Policy]] = []
        if row["parent"]:
            sql = "select count(*) as many from requests where thread = ? and stop <= ?"
            shared = next(db.query(sql, [row["parent"], row["at"]]))["many"]
            found = [(n, policy) for n, policy in self._policies(db, row["parent"]) if n < shared]
        own = [*db.query("select request, toml from policies where thread = ? order by request", [thread])]
        if not own or own[0]["request"] > shared:  # the first one is known by name alone
            with suppress(PolicyError):
                found.append((shared, load(str(_read(row["about"]).get("policy") or ""))))
        return [*found, *((kept["request"], parse(_name(kept["toml"]), kept["toml"])) for kept in own)]

    def _load(self, db: Database, thread: str) -> Session:
        row = _row(db, thread)
        start = Session(thread, source=SOURCE)
        if row["base"] is not None:
            start = load_session(_read(row["base"]), "base")
        elif row["parent"]:
            start = upto(self._load(db, row["parent"]), row["at"])
        rows = [*db.query("select * from messages where thread = ?", [thread])]
        rows += db.query("select * from statics where thread = ?", [thread])
        rows.sort(key=lambda r: r["n"])
        texts = self._texts(db, [json.loads(r["blobs"]) for r in rows])
        built = _built(start, rows, texts)
        requests = [_request(r) for r in db.query("select * from requests where thread = ? order by n", [thread])]
        edits = [
            Observed(r["request"], _unpack(r["edit"], Edit))
            for r in db.query(
                "select request, edit from decisions where thread = ? and changed = 1 order by request, seq", [thread]
            )
        ]
        newest = next(db.query(f"select ({_NEWEST}) as toml from threads t where id = ?", [thread]))["toml"]  # noqa: S608
        return structs.replace(
            built,
            id=thread,
            title=row["title"],
            source=SOURCE,
            requests=(*start.requests, *requests),
            observed=(*start.observed, *edits),
            recorded=noted(start.recorded, *_facts(db, thread)),
            about={**start.about, **_about(row["about"], newest)},
            parent=row["parent"] or (start.id if row["base"] is not None else ""),
            at=row["at"],
            subagents=(),
            branches=(),
        )

    def _texts(self, db: Database, lists: Sequence[Sequence[str]]) -> dict[str, str]:
        digests = list(dict.fromkeys(digest for some in lists for digest in some))
        found: dict[str, str] = {}
        for i in range(0, len(digests), 500):
            some = digests[i : i + 500]
            places = ", ".join("?" * len(some))
            found |= {r["digest"]: r["content"] for r in db.query(f"select * from blobs where digest in ({places})", some)}  # noqa: S608
        return found

    @contextmanager
    def _open(self) -> Iterator[Database]:
        """A connection. TurnscopeError where the file cannot be made, read or written."""
        from sqlite_utils import Database

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = Database(self.path)
            try:
                db.conn.execute(f"pragma busy_timeout = {WAIT * 1_000}")
                _migrate(db)
                yield db
            finally:
                db.close()
        except (OSError, sqlite3.Error) as error:
            hint = "See that its folder can be written and its disk is not full, or choose another folder with TURNSCOPE_DATA."
            raise TurnscopeError(f"chats cannot be kept in {self.path}: {error}", hint=hint) from error

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


@dataclass(slots=True)
class Keeper:
    """The sink of one thread (`live.Sink`). After a Conflict it writes nothing more: its addresses are taken."""

    threads: Threads
    thread: str
    behind: bool = False

    def message(self, message: Message, blocks: Sequence[JSON], status: str) -> None:
        """Keep one message, or a system prompt or tool definitions where its role says so."""
        with self._appending() as db:
            self._insert(db, message, blocks, status)

    def ended(self, ended: RequestEnded) -> None:
        """Keep a request, its decisions and its answer in one transaction."""
        request, plan, gone = ended.request, ended.plan, ended.gone
        with self._appending() as db:
            if ended.answer:
                self._insert(db, ended.answer, ended.blocks, ended.status)
            row = {
                "thread": self.thread,
                "n": request.n,
                "turn": request.turn,
                "cut": request.cut,
                "stop": request.stop,
                "model": request.model,
                "usage": _pack(request.usage) if request.usage else None,
                "sent": request.sent_at,
                "answered": request.answered_at,
                "stop_reason": request.stop_reason,
                "provider_id": request.id,
                "settings": dumps(dict(request.settings)),
                "status": ended.status,
                "verdict": plan.verdict,
                "seconds": ended.seconds,
            }
            _insert(db, "requests", row | {role: _in_force(db, self.thread, role, request.cut) for role in STATIC})
            made = [(d.rule, d.edit, int(d.splice is not None)) for d in plan.decisions]
            for seq, (rule, edit, changed) in enumerate([*(("", edit, 1) for edit in gone), *made], -len(gone)):
                values = {"thread": self.thread, "request": request.n, "seq": seq, "rule": rule, "edit": _pack(edit)}
                _insert(db, "decisions", {**values, "changed": changed})

    def fact(self, fact: Fact) -> None:
        """Keep a fact; what was recorded before stays."""
        with self.threads._write() as db:  # noqa: SLF001 - the keeper is the other half of the store
            _insert(db, "facts", {"thread": self.thread, "fact": _pack(fact)})

    def policy(self, policy: Policy, request: int) -> None:
        """Keep the policy that is in force from a request on."""
        with self.threads._write() as db:  # noqa: SLF001
            db.execute(
                "insert or replace into policies (thread, request, toml) values (?, ?, ?)",
                [self.thread, request, f"name = {json.dumps(policy.name)}\n{write(policy)}"],
            )

    @contextmanager
    def _appending(self) -> Iterator[Database]:
        """A write at the thread's end. Rows have one place each: a place that is taken was taken by another window."""
        if self.behind:
            raise Conflict(_BEHIND, hint=_RELOAD)
        try:
            with self.threads._write() as db:  # noqa: SLF001
                try:
                    yield db
                except sqlite3.IntegrityError as error:
                    raise Conflict(_BEHIND, hint=_RELOAD) from error
        except Conflict:
            self.behind = True
            raise

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
        previous = self._previous(db, message.start)
        if message.role in STATIC:
            _insert(db, "statics", row)
        else:
            text = _storable(text_of(list(blocks)))
            more = {"uid": message.id or uuid.uuid4().hex, "parent": previous, "origin": message.origin}
            place = _insert(db, "messages", {**row, **more, "status": status, "text": text})
            db.execute("insert into messages_fts (rowid, text) values (?, ?)", [place, text])
        db.execute("update threads set updated = ? where id = ?", [self.threads.clock(), self.thread])

    def _previous(self, db: Database, start: int) -> str:
        """Id of the newest message, "" where there is none. Conflict where the thread does not end at address `start`."""
        newest = "select {} from {} where thread = ? order by n desc limit 1"
        said = next(db.query(newest.format("n, blobs, uid", "messages"), [self.thread]), None)
        static = next(db.query(newest.format("n, blobs", "statics"), [self.thread]), None)
        last = max((row for row in (said, static) if row), key=lambda row: int(row["n"]), default=None)
        if last and last["n"] + max(1, len(json.loads(last["blobs"]))) != start:
            raise Conflict(_BEHIND, hint=_RELOAD)
        return str(said["uid"]) if said else ""


def _typed_facts(db: Database) -> None:
    """Facts of one type each, in the order in which they were recorded; once they were answers by key."""
    db.conn.execute("create table facts (id integer primary key, thread text not null, fact text not null)")
    db.conn.execute("create index facts_of_thread on facts (thread)")
    for row in [*db.query("select * from answers order by thread, key")]:
        for fact in typed({row["key"]: _unpack(row["answer"], Answer)}):
            _insert(db, "facts", {"thread": row["thread"], "fact": _pack(fact)})
    db.conn.execute("drop table answers")


_NEWEST = "select toml from policies p where p.thread = t.id order by request desc limit 1"
_MIGRATIONS: tuple[str | Callable[[Database], None], ...] = (
    """
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
""",
    _typed_facts,
)  # how many a file has is its `user_version`: add at the end, change none


def _migrate(db: Database) -> None:
    """Make the tables, or add what a later version needs."""
    version = _version(db)
    if version > len(_MIGRATIONS):
        what = f"its format is {version}, and this version of Turnscope knows {len(_MIGRATIONS)}"
        raise TurnscopeError(f"chats cannot be read: {what}", hint="Install the newer Turnscope that wrote them.")
    if version == len(_MIGRATIONS):
        return
    _wal(db)
    db.conn.execute("begin immediate")
    for number, step in enumerate(_MIGRATIONS[_version(db) :], _version(db) + 1):  # read again: another may have been quicker
        if callable(step):
            step(db)
        else:
            for statement in filter(str.strip, step.split(";")):
                db.conn.execute(statement)
        db.conn.execute(f"pragma user_version = {number}")
    db.conn.commit()


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


def _insert(db: Database, table: str, row: Mapping[str, Any]) -> int:
    names, places = ", ".join(row), ", ".join("?" * len(row))
    values = [_storable(value) for value in row.values()]
    cursor = db.execute(f"insert into {table} ({names}) values ({places})", values)  # noqa: S608 - names are ours
    return int(cursor.lastrowid or 0)


def _storable(value: Any) -> Any:
    """SQLite cannot write lone surrogates. What has to come back as it was is kept as JSON, which escapes them."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _pack(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, huge numbers
        return json.dumps(msgspec.to_builtins(value))


def _unpack(text: str, kind: type[T]) -> T:
    return msgspec.convert(json.loads(text), kind)


def _read(text: str | bytes) -> Any:
    """What `dumps` wrote: the standard reader keeps huge numbers and lone surrogates. What nested too deep was not written."""
    return json.loads(text) if text else None


def _facts(db: Database, thread: str) -> Iterator[Fact]:
    for row in db.query("select fact from facts where thread = ? order by id", [thread]):
        fact: Fact = msgspec.convert(json.loads(row["fact"]), Fact)
        yield fact


def _row(db: Database, thread: str) -> Mapping[str, Any]:
    row = next(db.query("select * from threads where id = ?", [thread]), None)
    if row is None:
        raise TurnscopeError(f"there is no chat {thread!r}", hint="Choose one from the list.")
    return row


def _name(toml: str) -> str:
    return str(tomllib.loads(toml).get("name", ""))


def _about(kept: str, newest: str | None) -> dict[str, JSON]:
    """What a thread says of itself; the name of its policy is that of the newest one."""
    about: dict[str, JSON] = _read(kept)
    return about | {"policy": _name(newest)} if newest else about


def _in_force(db: Database, thread: str, role: str, cut: int) -> str | None:
    """Digests of the system prompt or tools that stand last before address `cut`, in the thread or those it came from."""
    sql = "select blobs from statics where thread = ? and role = ? and n < ? order by n desc limit 1"
    found = next(db.query(sql, [thread, role, cut]), None)
    if found:
        return str(found["blobs"])
    come = next(db.query("select parent, at from threads where id = ?", [thread]), None)
    return _in_force(db, come["parent"], role, min(cut, come["at"])) if come and come["parent"] else None


def _built(start: Session, rows: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> Session:
    """The session's blocks and messages: those of `start`, then the stored ones, as `Growing` appended them."""
    blocks, messages = list(start.blocks), list(start.messages)
    calls = {str(b.raw.get("id")): b.at for b in blocks if b.kind == "tool_use" and isinstance(b.raw, dict)}
    said = any(message.role not in STATIC for message in messages)
    turn = blocks[-1].turn if blocks else 0
    for row in rows:
        first, role, origin = len(blocks), row["role"], row.get("origin") or row["role"]
        turn += origin == "prompt" and said
        said = said or role not in STATIC
        for raw in [_read(texts[digest]) for digest in json.loads(row["blobs"])] or [None]:
            _append(blocks, calls, block_of(len(blocks), len(messages), turn, role, "", raw))
        messages.append(Message(first, len(blocks), role, origin, row.get("uid") or "", row["sent"]))
    return structs.replace(start, blocks=tuple(blocks), messages=tuple(messages))


def _append(blocks: list[Block], calls: dict[str, int], block: Block) -> None:
    if isinstance(block.raw, dict) and block.kind == "tool_use":
        calls[str(block.raw.get("id"))] = block.at
    elif isinstance(block.raw, dict) and block.kind == "tool_result":
        call = calls.get(str(block.raw.get("tool_use_id")))
        if call is not None:
            blocks[call], block = paired_with(blocks[call], block)
    blocks.append(block)


def _request(row: Mapping[str, Any]) -> Request:
    return Request(
        n=row["n"],
        turn=row["turn"],
        cut=row["cut"],
        stop=row["stop"],
        model=row["model"],
        usage=_unpack(row["usage"], Usage) if row["usage"] else None,
        sent_at=row["sent"],
        answered_at=row["answered"],
        stop_reason=row["stop_reason"],
        id=row["provider_id"] or "",
        settings=_read(row["settings"]),
    )
