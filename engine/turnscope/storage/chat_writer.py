"""Writes chats: what a live chat hands over while it runs, each in one transaction. Append-only.

The module holds the sink of a chat and the rows that it makes. `threads` reads them.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from turnscope.counting.tokens import CHARS, count_texts
from turnscope.envelope.plan import Plan
from turnscope.envelope.request_outcome import RequestEnded, build_partial_answer
from turnscope.errors import TurnscopeError, dump_error
from turnscope.planning.policy import Policy
from turnscope.session.content import dumps, extract_text
from turnscope.session.destination import Destination
from turnscope.session.facts import make_storable
from turnscope.session.model import JSON, Edit, Fact, Message, Request, Session, Usage
from turnscope.storage import blobs, pending_requests
from turnscope.storage.database import begin_write
from turnscope.storage.packing import encode_contents, pack
from turnscope.storage.values import decode_value, encode_value, make_sqlite_text

if TYPE_CHECKING:
    from sqlite_utils import Database

STATIC = ("system", "tools")
_CONTINUED_ELSEWHERE, _RELOAD = "this chat was continued in another window", "Reload to see it; nothing was lost."


_LOST = TurnscopeError(
    "the app ended during this answer; the part that had arrived is kept",
    hint="It may have been billed: its tokens are estimated. Send it again, or continue from here.",
)


class Conflict(TurnscopeError):
    """The thread was continued elsewhere since it was read."""


@dataclass(slots=True)
class ChatWriter:
    """The sink of one thread (`live.sinks`). After a Conflict it writes nothing more: its addresses are taken."""

    path: Path
    thread: str
    clock: Callable[[], float]
    is_behind: bool = False
    user: str = ""
    pending: int = -1  # the request that is under way, -1 = none

    def record_message(self, message: Message, blocks: Sequence[JSON], status: str) -> None:
        """See `Sink`. Keep one message, or a system prompt or tool definitions where its role says so."""
        with self._begin_append() as db:
            sql = "select n from requests where thread = ? and status = ?"
            if any(row["n"] != self.pending for row in db.query(sql, [self.thread, pending_requests.BEGUN])):
                raise Conflict("another window of this chat is receiving an answer", hint="Wait until it ends, then reload.")
            self._insert_message(db, message, blocks, status)

    def record_start(self, request: Request, plan: Plan) -> None:
        """Keep a request before it is sent. Conflict: another window sends one now, or has.

        Args:
            request: The request.
            plan: Its plan.
        """
        first = pending_requests.mark_pending(
            self.path, self.thread, request.n
        )  # before another process can see the row and take it for lost
        try:
            with self._begin_append() as db:
                self._delete_pending(db, request.n)
                more = {
                    "estimate": encode_value(Usage(plan.expected_tokens)),
                    "owner": pending_requests.identify_process(),
                    "draft": "[]",
                }
                self._insert_request(db, request, plan, pending_requests.BEGUN, (), more)
        except BaseException:
            if first:
                pending_requests.unmark_pending(self.path, self.thread, request.n)
            raise
        self.pending = request.n

    def record_draft(self, texts: Sequence[str]) -> None:
        """What was shown so far of the answer to the request that is under way."""
        with begin_write(self.path) as db:
            get_owned_row(db, self.thread, self.user)
            sql = "update requests set draft = ? where thread = ? and n = ? and status = ?"
            db.execute(sql, [dumps(list(texts)), self.thread, self.pending, pending_requests.BEGUN])

    def record_request(self, ended: RequestEnded) -> None:
        """Keep a request, its decisions and its answer in one transaction."""
        number = ended.request.n
        with self._begin_append() as db:
            self._delete_pending(db, number)
            if ended.answer:
                self._insert_message(db, ended.answer, ended.blocks, ended.status)
            problem = dumps(dump_error(ended.error)) if ended.error else None
            more = {"seconds": ended.seconds, "problem": problem}
            self._insert_request(db, ended.request, ended.plan, ended.status, ended.lapsed_edits, more)
        pending_requests.unmark_pending(self.path, self.thread, number)
        self.pending = -1

    def _delete_pending(self, db: Database, number: int) -> None:
        """Delete the row of the pending request, to make room for its result. Conflict where another process ended it."""
        if self.pending != number:
            return
        at = [self.thread, number]
        gone = db.execute(
            "delete from requests where thread = ? and n = ? and status = ?", [*at, pending_requests.BEGUN]
        ).rowcount
        if gone != 1:
            raise Conflict(_CONTINUED_ELSEWHERE, hint=_RELOAD)
        db.execute("delete from decisions where thread = ? and request = ?", at)

    def _insert_request(
        self, db: Database, request: Request, plan: Plan, status: str, gone: Sequence[Edit], more: Mapping[str, Any]
    ) -> None:
        row: dict[str, Any] = {
            "thread": self.thread,
            "n": request.n,
            "turn": request.turn,
            "cut": request.cut,
            "stop": request.stop,
            "model": request.model,
            "usage": encode_value(request.usage) if request.usage else None,
            "sent": request.sent_at,
            "answered": request.answered_at,
            "stop_reason": request.stop_reason,
            "provider_id": request.id,
            "settings": dumps(dict(request.settings)),
            "status": status,
            "verdict": plan.verdict,
            "seconds": 0.0,
            "asked": request.requested_model,
            '"window"': request.window,
            "estimate": encode_value(request.estimate) if request.estimate else None,
            "applied": encode_value(request.applied) if request.applied else None,
        }
        statics = {role: _find_static(db, self.thread, role, request.cut) for role in STATIC}
        insert(db, "requests", row | statics | dict(more))
        made = [(d.rule, d.edit, int(d.splice is not None)) for d in plan.decisions]
        for seq, (rule, edit, changed) in enumerate([*(("", edit, 1) for edit in gone), *made], -len(gone)):
            values = {"thread": self.thread, "request": request.n, "seq": seq, "rule": rule, "changed": changed}
            insert(db, "decisions", {**values, "edit": encode_value(make_storable(edit))})

    def end_lost_requests(self) -> None:
        """End requests whose process is gone as interrupted, with what was shown of their answers."""
        with self._begin_append() as db:
            for row in find_lost_requests(db, self.path, self.thread):
                texts = json.loads(row["draft"] or "[]")
                blocks, now = build_partial_answer(texts), self.clock()
                if blocks:
                    start = row["cut"]
                    message = Message(start, start + len(blocks), "assistant", "answer", sent_at=now)
                    self._insert_message(db, message, blocks, "interrupted")
                tokens = sum(count_texts(texts, CHARS))
                estimate = structs.replace(decode_value(row["estimate"], Usage), output_tokens=tokens)
                values = [
                    "interrupted",
                    "interrupted",
                    row["cut"] + len(blocks),
                    now,
                    encode_value(estimate),
                    dumps(dump_error(_LOST)),
                ]
                sql = "status = ?, stop_reason = ?, stop = ?, answered = ?, estimate = ?, problem = ?, draft = null"
                db.execute(f"update requests set {sql} where thread = ? and n = ?", [*values, self.thread, row["n"]])  # noqa: S608

    def record_fact(self, fact: Fact) -> None:
        """Keep a fact; what was recorded before stays."""
        with self._begin_write() as db:
            insert(db, "facts", {"thread": self.thread, "fact": encode_value(fact)})

    def write_policy(self, policy: Policy, request: int) -> None:
        """Keep the policy that is in force from a request on.

        Args:
            policy: The policy.
            request: Number of the first request that it governs.
        """
        with self._begin_write() as db:
            db.execute(
                "insert or replace into policies (thread, request, toml) values (?, ?, ?)",
                [self.thread, request, f"name = {json.dumps(policy.name)}\n{policy.to_toml()}"],
            )

    def write_destination(self, place: Destination, request: int) -> None:
        """Keep where the thread goes from a request on: a decision of the person.

        Args:
            place: The destination.
            request: Number of the first request that goes there.
        """
        with self._begin_write() as db:
            sql = "insert or replace into places (thread, request, place, decided) values (?, ?, ?, ?)"
            db.execute(sql, [self.thread, request, encode_value(place), self.clock()])

    @contextmanager
    def _begin_write(self) -> Iterator[Database]:
        """Begin a write into a thread. TurnscopeError where the thread is not this user's."""
        with begin_write(self.path) as db:
            if self.thread != make_answers_id(self.user):
                get_owned_row(db, self.thread, self.user)
            yield db

    @contextmanager
    def _begin_append(self) -> Iterator[Database]:
        """Begin a write at the thread's end. Each row has one place: a taken place means that another window wrote."""
        if self.is_behind:
            raise Conflict(_CONTINUED_ELSEWHERE, hint=_RELOAD)
        try:
            with self._begin_write() as db:
                try:
                    yield db
                except sqlite3.IntegrityError as error:
                    raise Conflict(_CONTINUED_ELSEWHERE, hint=_RELOAD) from error
        except Conflict:
            self.is_behind = True
            raise

    def _insert_message(self, db: Database, message: Message, blocks: Sequence[JSON], status: str) -> None:
        digests = []
        for raw in blocks:
            content = dumps(raw)
            digests.append(blobs.compute_digest(content))
            blobs.keep(db, [(digests[-1], content)], chat=True)
        row: dict[str, Any] = {
            "thread": self.thread,
            "n": message.start,
            "role": message.role,
            "bare": int(len(blocks) == 1 and isinstance(blocks[0], str)),
            "sent": message.sent_at,
            "blobs": dumps(digests),
        }
        previous = self._find_previous(db, message.start)
        if message.role in STATIC:
            insert(db, "statics", row)
        else:
            text = make_sqlite_text(extract_text(list(blocks)))
            more = {"uid": message.id or uuid.uuid4().hex, "parent": previous, "origin": message.origin}
            place = insert(db, "messages", {**row, **more, "status": status, "text": text})
            db.execute("insert into messages_fts (rowid, text) values (?, ?)", [place, text])
        db.execute("update threads set updated = ? where id = ?", [self.clock(), self.thread])

    def _find_previous(self, db: Database, start: int) -> str:
        """Find the id of the newest message, "" where there is none.

        Conflict where the thread does not end at address `start`.
        """
        newest = "select {} from {} where thread = ? order by n desc limit 1"
        message = next(db.query(newest.format("n, blobs, uid", "messages"), [self.thread]), None)
        static = next(db.query(newest.format("n, blobs", "statics"), [self.thread]), None)
        last = max((row for row in (message, static) if row), key=lambda row: int(row["n"]), default=None)
        if last and last["n"] + max(1, len(json.loads(last["blobs"]))) != start:
            raise Conflict(_CONTINUED_ELSEWHERE, hint=_RELOAD)
        return str(message["uid"]) if message else ""


def find_lost_requests(db: Database, path: Path, thread: str) -> list[Mapping[str, Any]]:
    """Find the requests of a thread that no process will end any more.

    Args:
        db: The database.
        path: Its file.
        thread: Id of the thread.
    """
    rows = db.query("select * from requests where thread = ? and status = ? order by n", [thread, pending_requests.BEGUN])
    return [row for row in rows if pending_requests.is_lost(path, thread, row["n"], row["owner"] or "", row["sent"])]


def get_owned_row(db: Database, thread: str, user: str) -> Mapping[str, Any]:
    """Get the row of a thread. TurnscopeError where the user has none of that id.

    Args:
        db: The database.
        thread: Id of the thread.
        user: Id of the user.
    """
    row = next(db.query("select * from threads where id = ? and user_id = ?", [thread, user]), None)
    if row is None:
        raise TurnscopeError(f"there is no chat {thread!r}", hint="Choose one from the list.")
    return row


def make_answers_id(user: str) -> str:
    """Make the id under which a user's answers are stored: they belong to no thread."""
    return f"user:{user}" if user else ""


def encode_base(db: Database, session: Session) -> bytes:
    """Encode the imported session that a chat continues, for the chat's row. Its texts become the chat's.

    Args:
        db: The database, inside a transaction.
        session: The session.
    """
    alone = structs.replace(session, subagents=(), forks=())
    digests: list[str] = []

    def iter_contents() -> Iterator[tuple[str, blobs.Content]]:
        for digest, content in encode_contents(alone):
            digests.append(digest)
            yield digest, content

    blobs.keep(db, iter_contents(), chat=True)
    return msgspec.msgpack.encode((bytes.fromhex("".join(digests)), pack(alone)))


def insert(db: Database, table: str, row: Mapping[str, Any]) -> int:
    """Write a row. Gives its number.

    Args:
        db: The database, inside a transaction.
        table: Name of the table.
        row: Its columns.
    """
    names, places = ", ".join(row), ", ".join("?" * len(row))
    values = [make_sqlite_text(value) if isinstance(value, str) else value for value in row.values()]
    cursor = db.execute(f"insert into {table} ({names}) values ({places})", values)  # noqa: S608 - names are ours
    return int(cursor.lastrowid or 0)


def _find_static(db: Database, thread: str, role: str, cut: int) -> str | None:
    """Find the digests of the last system prompt or tools before address `cut`, in the thread or those that it comes from."""
    sql = "select blobs from statics where thread = ? and role = ? and n < ? order by n desc limit 1"
    found = next(db.query(sql, [thread, role, cut]), None)
    if found:
        return str(found["blobs"])
    come = next(db.query("select parent, at from threads where id = ?", [thread]), None)
    return _find_static(db, come["parent"], role, min(cut, come["at"])) if come and come["parent"] else None
