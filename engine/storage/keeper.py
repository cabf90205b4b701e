"""Chats as they are written: what a live chat hands on while it runs, each in one transaction. Append-only.

Holds the sink of a chat and the rows it makes; `threads` reads them back.
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

from engine.envelope.ended import RequestEnded
from engine.errors import TurnscopeError
from engine.planning.policy import Policy, write
from engine.session.content import dumps, text_of
from engine.session.model import JSON, Fact, Message, Session
from engine.storage import blobs
from engine.storage.database import writing
from engine.storage.packing import contents, pack
from engine.storage.values import packed, storable

if TYPE_CHECKING:
    from sqlite_utils import Database

STATIC = ("system", "tools")
_BEHIND, _RELOAD = "this chat was continued in another window", "Reload to see it; nothing was lost."


class Conflict(TurnscopeError):
    """The thread was continued elsewhere since it was read."""


@dataclass(slots=True)
class Keeper:
    """The sink of one thread (`live.sinks`). After a Conflict it writes nothing more: its addresses are taken."""

    path: Path
    thread: str
    clock: Callable[[], float]
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
                "usage": packed(request.usage) if request.usage else None,
                "sent": request.sent_at,
                "answered": request.answered_at,
                "stop_reason": request.stop_reason,
                "provider_id": request.id,
                "settings": dumps(dict(request.settings)),
                "status": ended.status,
                "verdict": plan.verdict,
                "seconds": ended.seconds,
            }
            insert(db, "requests", row | {role: _in_force(db, self.thread, role, request.cut) for role in STATIC})
            made = [(d.rule, d.edit, int(d.splice is not None)) for d in plan.decisions]
            for seq, (rule, edit, changed) in enumerate([*(("", edit, 1) for edit in gone), *made], -len(gone)):
                values = {"thread": self.thread, "request": request.n, "seq": seq, "rule": rule, "edit": packed(edit)}
                insert(db, "decisions", {**values, "changed": changed})

    def fact(self, fact: Fact) -> None:
        """Keep a fact; what was recorded before stays."""
        with writing(self.path) as db:
            insert(db, "facts", {"thread": self.thread, "fact": packed(fact)})

    def policy(self, policy: Policy, request: int) -> None:
        """Keep the policy that is in force from a request on."""
        with writing(self.path) as db:
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
            with writing(self.path) as db:
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
            digests.append(blobs.digest_of(content))
            blobs.keep(db, [(digests[-1], content)], chat=True)
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
            insert(db, "statics", row)
        else:
            text = storable(text_of(list(blocks)))
            more = {"uid": message.id or uuid.uuid4().hex, "parent": previous, "origin": message.origin}
            place = insert(db, "messages", {**row, **more, "status": status, "text": text})
            db.execute("insert into messages_fts (rowid, text) values (?, ?)", [place, text])
        db.execute("update threads set updated = ? where id = ?", [self.clock(), self.thread])

    def _previous(self, db: Database, start: int) -> str:
        """Id of the newest message, "" where there is none. Conflict where the thread does not end at address `start`."""
        newest = "select {} from {} where thread = ? order by n desc limit 1"
        said = next(db.query(newest.format("n, blobs, uid", "messages"), [self.thread]), None)
        static = next(db.query(newest.format("n, blobs", "statics"), [self.thread]), None)
        last = max((row for row in (said, static) if row), key=lambda row: int(row["n"]), default=None)
        if last and last["n"] + max(1, len(json.loads(last["blobs"]))) != start:
            raise Conflict(_BEHIND, hint=_RELOAD)
        return str(said["uid"]) if said else ""


def base_of(db: Database, session: Session) -> bytes:
    """An imported session that a chat goes on from, for its row; its texts become the chat's."""
    alone = structs.replace(session, subagents=(), forks=())
    digests: list[str] = []

    def held() -> Iterator[tuple[str, blobs.Content]]:
        for digest, content in contents(alone):
            digests.append(digest)
            yield digest, content

    blobs.keep(db, held(), chat=True)
    return msgspec.msgpack.encode((bytes.fromhex("".join(digests)), pack(alone)))


def insert(db: Database, table: str, row: Mapping[str, Any]) -> int:
    """Write a row; gives its number."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    values = [storable(value) if isinstance(value, str) else value for value in row.values()]
    cursor = db.execute(f"insert into {table} ({names}) values ({places})", values)  # noqa: S608 - names are ours
    return int(cursor.lastrowid or 0)


def _in_force(db: Database, thread: str, role: str, cut: int) -> str | None:
    """Digests of the system prompt or tools that stand last before address `cut`, in the thread or those it came from."""
    sql = "select blobs from statics where thread = ? and role = ? and n < ? order by n desc limit 1"
    found = next(db.query(sql, [thread, role, cut]), None)
    if found:
        return str(found["blobs"])
    come = next(db.query("select parent, at from threads where id = ?", [thread]), None)
    return _in_force(db, come["parent"], role, min(cut, come["at"])) if come and come["parent"] else None
