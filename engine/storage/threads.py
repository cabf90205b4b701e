"""Chats as they are read: threads, their messages, requests, policies and recorded facts. `keeper` writes them.

A thread loads as a `Session` like any other. Each text is stored once, by digest. System prompts and tool definitions are rows
of their own that requests refer to, never messages. A thread may start from another one or from an imported session; what
came before is shared, not copied.
"""

from __future__ import annotations

import json
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from engine.errors import PolicyError, TurnscopeError
from engine.planning.policy import Policy, load, parse
from engine.session.content import dumps
from engine.session.facts import noted
from engine.session.fork import upto
from engine.session.model import CHAT, JSON, Answer, Answered, Edit, Fact, Observed, Request, Session, Usage
from engine.session.place import Place
from engine.session.portable import loads as load_session
from engine.session.timeline import Timeline
from engine.storage import blobs, removal, sessions
from engine.storage.blobs import decoded
from engine.storage.database import StorageError, reading, writing
from engine.storage.keeper import STATIC, Conflict, Keeper, answers_of, base_of, insert, owned, unsettled
from engine.storage.packing import unpack
from engine.storage.under_way import BEGUN
from engine.storage.values import packed, storable, unpacked

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["SOURCE", "Conflict", "Hit", "Row", "Threads"]

SOURCE = CHAT
_NEWEST = "select toml from policies p where p.thread = t.id order by request desc limit 1"


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
    """The store of one user's chats at `path`; the file is made on first use. What is another user's is not there for it."""

    path: Path
    clock: Callable[[], float] = field(default=time.time)
    user: str = ""

    def create(
        self,
        *,
        title: str = "",
        base: Session | None = None,
        parent: str = "",
        at: int = -1,
        about: Mapping[str, JSON] | None = None,
        place: Place | None = None,
    ) -> str:
        """A new thread; gives its id. It may go on from an imported session (`base`) or the first `at` blocks of `parent`.

        `place`: where it goes; without one, where its parent does.
        """
        id, now = uuid.uuid4().hex, self.clock()
        row = {"id": id, "user_id": self.user, "title": title, "created": now, "updated": now, "parent": parent, "at": at}
        with writing(self.path) as db:
            if parent:
                owned(db, parent, self.user)
            kept = base_of(db, base) if base else None
            insert(db, "threads", {**row, "about": dumps(dict(about or {})), "base": kept})
            if place:
                insert(db, "places", {"thread": id, "request": 0, "place": packed(place), "decided": now})
        return id

    def list(self) -> tuple[Row, ...]:
        """The user's threads, the newest first; `about` says which policy was chosen last, and where the thread goes."""
        if not self.path.exists():
            return ()
        sql = f"""select id, user_id, title, created, updated, parent, at, about, ({_NEWEST}) as toml
                  from threads t where user_id = ? order by updated desc"""  # noqa: S608 - no value is part of it
        with reading(self.path) as db:
            found = [(row, row.pop("toml")) for row in db.query(sql, [self.user])]
            return tuple(
                Row(**{**row, "about": _about(row["about"], toml) | _goes(self._place(db, row["id"]))}) for row, toml in found
            )

    def rename(self, thread: str, title: str) -> None:
        """Give a thread another title."""
        with writing(self.path) as db:
            owned(db, thread, self.user)
            db.execute("update threads set title = ? where id = ?", [storable(title), thread])

    def delete(self, thread: str) -> None:
        """Delete a thread and every text that nothing else holds. TurnscopeError: it has branches, or an answer is coming."""
        with writing(self.path) as db:
            owned(db, thread, self.user)
            if any(_begun(db, thread)) and not unsettled(db, self.path, thread):
                raise TurnscopeError("an answer is coming in this chat", hint="Wait for its end, or stop it.")
            removal.remove(db, thread)

    def place(self, thread: str) -> Place | None:
        """Where a thread goes; None where nobody has said so (some of an earlier version). TurnscopeError: no such thread."""
        with reading(self.path) as db:
            owned(db, thread, self.user)
            return self._place(db, thread)

    def _place(self, db: Database, thread: str) -> Place | None:
        sql = "select place from places where thread = ? order by request desc limit 1"
        row = next(db.query(sql, [thread]), None)
        if row:
            return unpacked(row["place"], Place)
        parent = next(db.query("select parent from threads where id = ?", [thread]))["parent"]
        return self._place(db, parent) if parent else None

    def problems(self, thread: str) -> dict[int, Mapping[str, JSON]]:
        """Why requests of a thread are not complete, by number: `kind`, `what`, `hint` and the fields of the error."""
        with reading(self.path) as db:
            owned(db, thread, self.user)
            rows = db.query("select n, problem from requests where thread = ? and problem is not null", [thread])
            return {row["n"]: decoded(row["problem"]) for row in rows}

    def search(self, words: str, limit: int = 50) -> tuple[Hit, ...]:
        """Messages that hold all the words, the best first."""
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not quoted or not self.path.exists():
            return ()
        sql = """select m.thread, m.n, m.role, m.text from messages_fts f join messages m on m.id = f.rowid
                 join threads t on t.id = m.thread where messages_fts match ? and t.user_id = ? order by rank limit ?"""
        with reading(self.path) as db:
            return tuple(Hit(**row) for row in db.query(sql, [storable(quoted), self.user, limit]))

    def kept_answers(self) -> dict[str, Answer]:
        """What models answered for replays: asks that belong to no chat, by key."""
        if not self.path.exists():
            return {}
        with reading(self.path) as db:
            return {fact.key: fact.answer for fact in _facts(db, answers_of(self.user)) if isinstance(fact, Answered)}

    def keep_answer(self, key: str, answer: Answer) -> None:
        """Keep the answer to an ask of a replay."""
        self.sink(answers_of(self.user)).fact(Answered(key, answer))

    def sink(self, thread: str) -> Keeper:
        """Where a chat writes what happens."""
        return Keeper(self.path, thread, self.clock, user=self.user)

    def load(self, thread: str) -> Session:
        """The thread as a session. TurnscopeError where there is none of that id.

        A request whose process ended amid its answer is settled first: it was interrupted, with what was shown of it.
        """
        with reading(self.path) as db:
            owned(db, thread, self.user)
            lost = [id for id in _line(db, thread) if unsettled(db, self.path, id)]
        for id in lost:
            with suppress(StorageError):  # it can still be read; the next one settles it
                self.sink(id).settle()
        with reading(self.path) as db:
            return self._load(db, thread)

    def last(self, thread: str) -> str:
        """Id of the newest message of a thread; "" where it has none of its own."""
        with reading(self.path) as db:
            owned(db, thread, self.user)
            row = next(db.query("select uid from messages where thread = ? order by n desc limit 1", [thread]), None)
        return row["uid"] if row else ""

    def policies(self, thread: str) -> tuple[tuple[int, Policy], ...]:
        """From which request on which policy was in force, as it was then; what was shared comes from the parent.

        TurnscopeError where there is no such thread.
        """
        with reading(self.path) as db:
            owned(db, thread, self.user)
            return tuple(self._policies(db, thread))

    def statics(self, thread: str, request: int) -> tuple[Sequence[JSON], Sequence[JSON]]:
        """The system prompt and the tool definitions that a stored request was sent with; empty where it had none.

        A base that was imported brings its own, which its session holds. TurnscopeError where there is no such request.
        """
        with reading(self.path) as db:
            owned(db, thread, self.user)
            sql = "select system, tools from requests where thread = ? and n = ?"
            row = next(db.query(sql, [thread, request]), None)
            if row is not None:
                digests = [json.loads(row[role] or "[]") for role in STATIC]
                texts = _texts(db, digests)
                return tuple(texts[d] for d in digests[0]), tuple(texts[d] for d in digests[1])
            parent = _row(db, thread)["parent"]
        if not parent:
            raise TurnscopeError(f"there is no request {request} in this chat", hint="Choose one that was sent from it.")
        return self.statics(parent, request)

    def _policies(self, db: Database, thread: str) -> Sequence[tuple[int, Policy]]:
        row, shared = _row(db, thread), 0
        found: list[tuple[int, Policy]] = []
        if row["parent"]:
            sql = "select count(*) as many from requests where thread = ? and stop <= ? and status != 'begun'"
            shared = next(db.query(sql, [row["parent"], row["at"]]))["many"]
            found = [(n, policy) for n, policy in self._policies(db, row["parent"]) if n < shared]
        own = [*db.query("select request, toml from policies where thread = ? order by request", [thread])]
        if not own or own[0]["request"] > shared:  # the first one is known by name alone
            with suppress(PolicyError):
                found.append((shared, load(str(decoded(row["about"]).get("policy") or ""))))
        return [*found, *((kept["request"], parse(_name(kept["toml"]), kept["toml"])) for kept in own)]

    def _load(self, db: Database, thread: str) -> Session:
        row = _row(db, thread)
        start = Session(thread, source=SOURCE)
        if row["base"] is not None:
            start = self._base(row["base"])
        elif row["parent"]:
            start = upto(self._load(db, row["parent"]), row["at"])
        rows = [*db.query("select * from messages where thread = ?", [thread])]
        rows += db.query("select * from statics where thread = ?", [thread])
        rows.sort(key=lambda r: r["n"])
        texts = _texts(db, [json.loads(r["blobs"]) for r in rows])
        built = _built(start, rows, texts)
        requests = [_request(r) for r in _ended(db, thread)]
        edits = [
            Observed(r["request"], unpacked(r["edit"], Edit))
            for r in db.query(
                "select request, edit from decisions where thread = ? and changed = 1 order by request, seq", [thread]
            )
            if r["request"] < len(start.requests) + len(requests)
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
            forks=(),
        )

    def _base(self, kept: bytes) -> Session:
        """The imported session that a thread goes on from: its texts lie among the blobs, once all stood in its row."""
        if kept[:1] == b"{":
            return load_session(json.loads(kept), "base")
        digests, packed = msgspec.msgpack.decode(kept, type=tuple[bytes, bytes])
        return unpack(packed, digests, lambda wanted: sessions.texts(self.path, wanted))


def _texts(db: Database, lists: Sequence[Sequence[str]]) -> dict[str, JSON]:
    return blobs.contents(db, (digest for some in lists for digest in some))


def _facts(db: Database, thread: str) -> Iterator[Fact]:
    for row in db.query("select fact from facts where thread = ? order by id", [thread]):
        fact: Fact = msgspec.convert(json.loads(row["fact"]), Fact)
        yield fact


def _ended(db: Database, thread: str) -> Iterator[Mapping[str, Any]]:
    """Rows of requests that are not under way."""
    return db.query("select * from requests where thread = ? and status != ? order by n", [thread, BEGUN])


def _begun(db: Database, thread: str) -> Iterator[Mapping[str, Any]]:
    return db.query("select n from requests where thread = ? and status = ?", [thread, BEGUN])


def _line(db: Database, thread: str) -> Iterator[str]:
    """A thread and those that it comes from."""
    while thread:
        yield thread
        thread = _row(db, thread)["parent"]


def _goes(place: Place | None) -> dict[str, JSON]:
    """Where a thread goes, as its row says it."""
    return {"provider": place.kind, "url": place.url, "model": place.model} if place else {}


def _row(db: Database, thread: str) -> Mapping[str, Any]:
    row = next(db.query("select * from threads where id = ?", [thread]), None)
    if row is None:
        raise TurnscopeError(f"there is no chat {thread!r}", hint="Choose one from the list.")
    return row


def _name(toml: str) -> str:
    return str(tomllib.loads(toml).get("name", ""))


def _about(kept: str, newest: str | None) -> dict[str, JSON]:
    """What a thread says of itself; the name of its policy is that of the newest one."""
    about: dict[str, JSON] = decoded(kept)
    return about | {"policy": _name(newest)} if newest else about


def _built(start: Session, rows: Sequence[Mapping[str, Any]], texts: Mapping[str, JSON]) -> Session:
    """The session's blocks and messages: those of `start`, then the stored ones, as `Growing` appended them."""
    line = Timeline.of(start)
    for row in rows:
        parts = [(texts[digest], "") for digest in json.loads(row["blobs"])]
        origin = row.get("origin") or row["role"]
        line.append(row["role"], parts, origin=origin, id=row.get("uid") or "", sent_at=row["sent"])
    return structs.replace(start, blocks=tuple(line.blocks), messages=tuple(line.messages))


def _request(row: Mapping[str, Any]) -> Request:
    return Request(
        n=row["n"],
        turn=row["turn"],
        cut=row["cut"],
        stop=row["stop"],
        model=row["model"],
        usage=unpacked(row["usage"], Usage) if row["usage"] else None,
        sent_at=row["sent"],
        answered_at=row["answered"],
        stop_reason=row["stop_reason"],
        id=row["provider_id"] or "",
        settings=decoded(row["settings"]),
        asked=row["asked"],
        window=row["window"],
        estimate=unpacked(row["estimate"], Usage) if row["estimate"] else None,
    )
