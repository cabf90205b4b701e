"""Reads chats: threads, their messages, requests, policies and recorded facts. `chat_writer` writes them.

A thread loads as a `Session` like any other. Each text is stored once, by digest. System prompts and tool definitions are rows
of their own that requests refer to, never messages. A thread may start from another one or from an imported session; what came
before is shared, not copied.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnscope.errors import PolicyError, TurnscopeError
from turnscope.numbering import format_request
from turnscope.planning.policy import Policy, load, parse
from turnscope.session.content import dumps
from turnscope.session.destination import Destination
from turnscope.session.model import CHAT, JSON, Answer, AnswerFact, Session
from turnscope.storage import thread_removal
from turnscope.storage.blobs import decode_content
from turnscope.storage.chat_writer import (
    STATIC,
    ChatWriter,
    Conflict,
    encode_base,
    find_lost_requests,
    get_owned_row,
    insert,
    make_answers_id,
)
from turnscope.storage.database import StorageError, begin_write, open_database
from turnscope.storage.pending_requests import BEGUN
from turnscope.storage.thread_loading import (
    NEWEST_POLICY,
    get_row,
    iter_facts,
    load_thread,
    read_about,
    read_policy_name,
    read_texts,
)
from turnscope.storage.values import decode_value, encode_value, make_sqlite_text

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["SOURCE", "Conflict", "Hit", "Row", "Threads"]

SOURCE = CHAT


@dataclass(frozen=True, slots=True)
class Row:
    """A thread in the list. Times in seconds since the Unix epoch."""

    id: str
    user_id: str
    title: str
    created: float
    updated: float
    parent: str
    at: int
    about: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A thread without its messages. `stamp` changes with it. `requests`: its own requests that have ended."""

    thread: str
    title: str
    updated: float
    requests: int
    stamp: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that a search found."""

    thread: str
    n: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Threads:
    """The chats of one user, in the database at `path`. The file is made on first use. Other users' chats are not visible."""

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
        place: Destination | None = None,
    ) -> str:
        """Create a thread. It may continue an imported session or the beginning of another thread.

        Args:
            title: Its title.
            base: The imported session that it continues.
            parent: Id of the thread that it continues.
            at: How many blocks of `parent` it shares.
            about: What it says about itself.
            place: Where it goes; None = where its parent goes.

        Returns:
            Id of the thread.
        """
        id, now = uuid.uuid4().hex, self.clock()
        row = {"id": id, "user_id": self.user, "title": title, "created": now, "updated": now, "parent": parent, "at": at}
        with begin_write(self.path) as db:
            if parent:
                get_owned_row(db, parent, self.user)
            packed = encode_base(db, base) if base else None
            insert(db, "threads", {**row, "about": dumps(dict(about or {})), "base": packed})
            if place:
                insert(db, "places", {"thread": id, "request": 0, "place": encode_value(place), "decided": now})
        return id

    def list(self) -> tuple[Row, ...]:
        """List the user's threads, the newest first. `about` holds the policy chosen last, and where the thread goes."""
        if not self.path.exists():
            return ()
        sql = f"""select id, user_id, title, created, updated, parent, at, about, ({NEWEST_POLICY}) as toml
                  from threads t where user_id = ? order by updated desc"""  # noqa: S608 - no value is part of it
        with open_database(self.path) as db:
            found = [(row, row.pop("toml")) for row in db.query(sql, [self.user])]
            return tuple(
                Row(
                    **{
                        **row,
                        "about": read_about(row["about"], toml) | _describe_destination(self._find_destination(db, row["id"])),
                    }
                )
                for row, toml in found
            )

    def list_summaries(self) -> tuple[ThreadSummary, ...]:
        """List a summary of each of the user's threads, the newest first."""
        if not self.path.exists():
            return ()
        sql = """select id, title, updated, (select count(*) from requests r where r.thread = t.id and r.status != ?) as ended,
                 (select max(id) from facts f where f.thread = t.id) as fact
                 from threads t where user_id = ? order by updated desc"""
        with open_database(self.path) as db:
            rows = db.query(sql, [BEGUN, self.user])
            return tuple(
                ThreadSummary(row["id"], row["title"], row["updated"], row["ended"], repr([*row.values()])) for row in rows
            )

    def holds(self, thread: str) -> bool:
        """Whether the user has a thread of this id."""
        with open_database(self.path) as db:
            return any(db.query("select id from threads where id = ? and user_id = ?", [thread, self.user]))

    def rename(self, thread: str, title: str) -> None:
        """Give a thread another title.

        Args:
            thread: Id of the thread.
            title: The title.
        """
        with begin_write(self.path) as db:
            get_owned_row(db, thread, self.user)
            db.execute("update threads set title = ? where id = ?", [make_sqlite_text(title), thread])

    def delete(self, thread: str) -> None:
        """Delete a thread and every text that nothing else holds.

        TurnscopeError where it has branches, or an answer is coming.
        """
        with begin_write(self.path) as db:
            get_owned_row(db, thread, self.user)
            if any(_query_pending(db, thread)) and not find_lost_requests(db, self.path, thread):
                raise TurnscopeError("this chat is receiving an answer", hint="Wait until it ends, or stop it.")
            thread_removal.remove_thread(db, thread)

    def find_destination(self, thread: str) -> Destination | None:
        """Find where a thread goes; None where it is not stored (some threads of earlier versions).

        TurnscopeError: no such thread.
        """
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            return self._find_destination(db, thread)

    def _find_destination(self, db: Database, thread: str) -> Destination | None:
        sql = "select place from places where thread = ? order by request desc limit 1"
        row = next(db.query(sql, [thread]), None)
        if row:
            return decode_value(row["place"], Destination)
        parent = next(db.query("select parent from threads where id = ?", [thread]))["parent"]
        return self._find_destination(db, parent) if parent else None

    def list_problems(self, thread: str) -> dict[int, Mapping[str, JSON]]:
        """List why requests of a thread are incomplete, by number: `kind`, `what`, `hint` and the fields of the error."""
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            rows = db.query("select n, problem from requests where thread = ? and problem is not null", [thread])
            return {row["n"]: decode_content(row["problem"]) for row in rows}

    def search(self, words: str, limit: int = 50) -> tuple[Hit, ...]:
        """Search for messages that hold all the words, the best match first.

        Args:
            words: The words.
            limit: Most messages.
        """
        quoted = " ".join('"' + word.replace('"', '""') + '"' for word in words.split())
        if not quoted or not self.path.exists():
            return ()
        sql = """select m.thread, m.n, m.role, m.text from messages_fts f join messages m on m.id = f.rowid
                 join threads t on t.id = m.thread where messages_fts match ? and t.user_id = ? order by rank limit ?"""
        with open_database(self.path) as db:
            return tuple(Hit(**row) for row in db.query(sql, [make_sqlite_text(quoted), self.user, limit]))

    def list_answers(self) -> dict[str, Answer]:
        """List what models answered for replays: asks that belong to no chat, by key."""
        if not self.path.exists():
            return {}
        with open_database(self.path) as db:
            return {
                fact.key: fact.answer for fact in iter_facts(db, make_answers_id(self.user)) if isinstance(fact, AnswerFact)
            }

    def keep_answer(self, key: str, answer: Answer) -> None:
        """Store the answer to an ask of a replay.

        Args:
            key: Key of the ask.
            answer: The answer.
        """
        self.open_writer(make_answers_id(self.user)).record_fact(AnswerFact(key, answer))

    def open_writer(self, thread: str) -> ChatWriter:
        """Open the sink of a chat."""
        return ChatWriter(self.path, thread, self.clock, user=self.user)

    def load(self, thread: str) -> Session:
        """Load a thread as a session. TurnscopeError where there is none of that id.

        A request whose process ended during its answer is ended first: as interrupted, with what was shown of the answer.
        """
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            lost = [id for id in _iter_ancestors(db, thread) if find_lost_requests(db, self.path, id)]
        for id in lost:
            with suppress(StorageError):  # the thread can still be read; the next call ends the request
                self.open_writer(id).end_lost_requests()
        with open_database(self.path) as db:
            return load_thread(db, self.path, thread)

    def find_last_message(self, thread: str) -> str:
        """Find the id of the newest message of a thread; "" where it has none of its own."""
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            row = next(db.query("select uid from messages where thread = ? order by n desc limit 1", [thread]), None)
        return row["uid"] if row else ""

    def list_policies(self, thread: str) -> tuple[tuple[int, Policy], ...]:
        """List which policy was in force from which request on, as it was then. The shared part comes from the parent.

        Raises:
            TurnscopeError: There is no such thread.
        """
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            return tuple(self._list_policies(db, thread))

    def find_statics(self, thread: str, request: int) -> tuple[Sequence[JSON], Sequence[JSON]]:
        """Find the system prompt and the tool definitions of a stored request; empty where it had none.

        An imported base has its own, in its session.

        Args:
            thread: Id of the thread.
            request: Number of the request.

        Raises:
            TurnscopeError: There is no such request.
        """
        with open_database(self.path) as db:
            get_owned_row(db, thread, self.user)
            sql = "select system, tools from requests where thread = ? and n = ?"
            row = next(db.query(sql, [thread, request]), None)
            if row is not None:
                digests = [json.loads(row[role] or "[]") for role in STATIC]
                texts = read_texts(db, digests)
                return tuple(texts[d] for d in digests[0]), tuple(texts[d] for d in digests[1])
            parent = get_row(db, thread)["parent"]
        if not parent:
            raise TurnscopeError(
                f"there is no request {format_request(request)} in this chat", hint="Choose one that was sent from it."
            )
        return self.find_statics(parent, request)

    def _list_policies(self, db: Database, thread: str) -> Sequence[tuple[int, Policy]]:
        row, shared = get_row(db, thread), 0
        found: list[tuple[int, Policy]] = []
        if row["parent"]:
            shared = _count_requests(db, row["parent"], row["at"])
            found = [(n, policy) for n, policy in self._list_policies(db, row["parent"]) if n < shared]
        own = [*db.query("select request, toml from policies where thread = ? order by request", [thread])]
        if not own or own[0]["request"] > shared:  # only the name of the first one is known
            with suppress(PolicyError):
                found.append((shared, load(str(decode_content(row["about"]).get("policy") or ""))))
        return [*found, *((change["request"], parse(read_policy_name(change["toml"]), change["toml"])) for change in own)]


def _query_pending(db: Database, thread: str) -> Iterator[Mapping[str, Any]]:
    return db.query("select n from requests where thread = ? and status = ?", [thread, BEGUN])


def _count_requests(db: Database, thread: str, stop: int) -> int:
    """Count the requests of a thread that end at or before block `stop`, with those that it shares with its ancestors."""
    sql = "select max(n) as last from requests where thread = ? and stop <= ? and status != 'begun'"
    last = next(db.query(sql, [thread, stop]))["last"]
    row = get_row(db, thread)
    if last is not None or not row["parent"]:
        return 0 if last is None else int(last) + 1
    return _count_requests(db, row["parent"], min(stop, row["at"]))


def _iter_ancestors(db: Database, thread: str) -> Iterator[str]:
    """Iterate over a thread and those that it comes from."""
    while thread:
        yield thread
        thread = get_row(db, thread)["parent"]


def _describe_destination(place: Destination | None) -> dict[str, JSON]:
    """Describe where a thread goes, as the keys of its row."""
    return {"provider": place.kind, "url": place.url, "model": place.model} if place else {}
