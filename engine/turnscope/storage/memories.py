"""Facts that one user keeps across the sessions of one project: add, edit, forget, and find by words.

A row belongs to a user and a project, and every statement names both. Forgetting removes the text from the table, from its
index, and from what chats recorded of it. A tombstone stays, which says that something was forgotten.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from turnscope.envelope.memories import FORGOTTEN, Memory, Owner, Tier, make_fact_id
from turnscope.envelope.relevance import extract_terms
from turnscope.errors import TurnscopeError
from turnscope.session.model import Answer, Ask
from turnscope.storage.database import begin_write, open_database

if TYPE_CHECKING:
    from sqlite_utils import Database

RECALL_LIMIT = 16  # facts in one recall, unless the ask says how many
FADE_SECONDS = 30 * 86_400.0  # seconds after which a medium fact that no message repeats is no longer recalled
LASTING_CHATS = 3  # a medium fact stays for good after so many chats repeated it
LEARNED_LIMIT = 200  # names that a project's sessions look up again, the most frequent first
_COLUMNS = "id, owner, text, said, source, forgotten, tier"


@dataclass(frozen=True, slots=True)
class Memories:
    """The facts of one user in one project, in the database at `path`."""

    path: Path
    user: str = ""
    project: str = ""
    clock: Callable[[], float] = field(default=time.time)

    def add(self, text: str, owner: Owner = "user", source: str = "", day: str = "", tier: Tier = "long") -> Memory:
        """Remember a fact. A known one is not added again but counts as heard again; in the third chat it stays for good.

        Args:
            text: The fact.
            owner: user | agent: whose fact it is.
            source: The message it comes from.
            day: The day, as ISO text; "" = today.
            tier: short | medium | long: how long it stays.

        Raises:
            TurnscopeError: The fact is empty, or it was forgotten on request.
        """
        text = " ".join(text.split())
        if not text:
            raise TurnscopeError("the fact is empty", hint="Write what should be remembered.")
        day = day or datetime.fromtimestamp(self.clock(), UTC).date().isoformat()
        fact = Memory(make_fact_id(owner, text), owner, text, day, source, tier=tier)
        with begin_write(self.path) as db:
            known = self._find(db, fact.id)
            if known and known.forgotten:
                raise TurnscopeError("this fact was forgotten on request", hint="Use other words to remember it again.")
            if known is None:
                self._put(db, fact)
            else:
                known = self._count_again(db, known, fact)
        return known or fact

    def edit(self, id: str, text: str) -> Memory:
        """Give a fact another text. Its old text is forgotten. TurnscopeError where there is none of that id.

        Args:
            id: Id of the fact.
            text: The new text.
        """
        old = self.get(id)
        new = self.add(text, old.owner, old.source, old.day, old.tier)
        if new.id != id:
            self.forget(id)
        return new

    def get(self, id: str) -> Memory:
        """Get the fact of that id. TurnscopeError where this user has none in this project, or it was forgotten."""
        with open_database(self.path) as db:
            fact = self._find(db, id)
        if fact is None or fact.forgotten:
            raise TurnscopeError(f"there is no fact {id!r} here", hint="See the list of what is remembered in this project.")
        return fact

    def list_all(self) -> tuple[Memory, ...]:
        """List all facts, the newest last. Forgotten ones are tombstones."""
        with open_database(self.path) as db:
            sql = f"select {_COLUMNS} from memories where user_id = ? and project = ? order by number"  # noqa: S608 - names are ours
            return tuple(_make_memory(row) for row in db.conn.execute(sql, self._scope))

    def recall(self, question: str, most: int = RECALL_LIMIT) -> tuple[Memory, ...]:
        """Recall the facts of each owner that match a question best, by bm25, then the newest.

        Args:
            question: The question.
            most: Facts of each owner.
        """
        words = " OR ".join(f'"{term}"' for term in dict.fromkeys(extract_terms(question)))
        with open_database(self.path) as db:
            scored: dict[str, float] = {}
            if words:
                sql = (
                    "select id, bm25(memories_fts) from memories_fts where memories_fts match ? and user_id = ? and project = ?"
                )
                scored = dict(db.conn.execute(sql, [words, *self._scope]))
            sql = "select id from memories where user_id = ? and project = ? and tier = 'medium' and heard < ?"
            faded = {row[0] for row in db.conn.execute(sql, [*self._scope, self.clock() - FADE_SECONDS])}
        known = [fact for fact in reversed(self.list_all()) if not fact.forgotten and fact.id not in faded]
        known.sort(key=lambda fact: scored.get(fact.id, 0.0))  # the smaller the better
        return tuple(fact for owner in ("user", "agent") for fact in [f for f in known if f.owner == owner][:most])

    def answer(self, ask: Ask) -> Answer:
        """Answer a rule's recall: facts as items, and tombstones, so that the rule forgets what it found by itself."""
        facts = (
            *self.recall(ask.content, ask.max_tokens or RECALL_LIMIT),
            *(fact for fact in self.list_all() if fact.forgotten),
        )
        return Answer(items=tuple(msgspec.json.encode(fact).decode() for fact in facts), source="recorded")

    def learn(self, names: Iterable[str]) -> None:
        """Count the names that a retrieved conversation mentions."""
        sql = "insert into retrievals values (?, ?, ?, 1) on conflict do update set times = times + 1"
        with begin_write(self.path) as db:
            db.conn.executemany(sql, ([*self._scope, name] for name in dict.fromkeys(names)))

    def list_learned(self) -> tuple[tuple[str, int], ...]:
        """List the names that this project's sessions look up again, and how often, the most frequent first."""
        sql = "select name, times from retrievals where user_id = ? and project = ? order by times desc, name limit ?"
        with open_database(self.path) as db:
            return tuple((str(name), int(times)) for name, times in db.conn.execute(sql, [*self._scope, LEARNED_LIMIT]))

    def unlearn(self) -> None:
        """Delete what was learned of this project's retrievals. Chats that used it already keep what they got."""
        with begin_write(self.path) as db:
            db.conn.execute("delete from retrievals where user_id = ? and project = ?", self._scope)

    def rank(self, _ask: Ask) -> Answer:
        """Answer a rule that orders the archive: what was learned, as items `times name`."""
        return Answer(items=tuple(f"{times} {name}" for name, times in self.list_learned()), source="recorded")

    def list_projects(self) -> tuple[str, ...]:
        """List the projects in which this user has facts or retrievals."""
        sql = "select project from memories where user_id = ? union select project from retrievals where user_id = ? order by 1"
        with open_database(self.path) as db:
            return tuple(str(row[0]) for row in db.conn.execute(sql, [self.user, self.user]))

    def forget(self, id: str) -> None:
        """Forget a fact for good: only its tombstone stays. TurnscopeError where there is none of that id."""
        text = self.get(id).text
        with begin_write(self.path) as db:
            db.conn.execute(
                "update memories set text = '', source = '', forgotten = 1 where user_id = ? and project = ? and id = ?",
                [*self._scope, id],
            )
            db.conn.execute("delete from memories_fts where user_id = ? and project = ? and id = ?", [*self._scope, id])
            mine = "thread in (select id from threads where user_id = ?)"
            for form in _list_json_forms(text):
                for table, column, which in (
                    ("facts", "fact", "(fact like '%\"recall:%' or fact like '%\"extract:%')"),
                    ("decisions", "edit", "rule = 'insert_memories'"),
                ):
                    sql = f"update {table} set {column} = replace({column}, ?, ?) where {which} and {mine}"  # noqa: S608 - ours
                    db.conn.execute(sql, [form, FORGOTTEN, self.user])

    def withdraw(self, id: str) -> None:
        """Remove a fact that was refused, without a trace: it may be remembered again. A forgotten fact stays forgotten."""
        with begin_write(self.path) as db:
            where = "where user_id = ? and project = ? and id = ?"
            statement = f"delete from memories {where} and not forgotten"  # noqa: S608 - ours
            if db.conn.execute(statement, [*self._scope, id]).rowcount:
                db.conn.execute(f"delete from memories_fts {where}", [*self._scope, id])  # noqa: S608 - ours

    @property
    def _scope(self) -> list[str]:
        return [self.user, self.project]

    def _find(self, db: Database, id: str) -> Memory | None:
        sql = f"select {_COLUMNS} from memories where user_id = ? and project = ? and id = ?"  # noqa: S608 - names are ours
        row = db.conn.execute(sql, [*self._scope, id]).fetchone()
        return _make_memory(row) if row else None

    def _put(self, db: Database, fact: Memory) -> None:
        sql = f"insert into memories (user_id, project, {_COLUMNS}, heard) values (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"  # noqa: S608 - ours
        row = [*self._scope, fact.id, fact.owner, fact.text, fact.day, fact.source, fact.tier, self.clock()]
        db.conn.execute(sql, row)
        sql = "insert into memories_fts (user_id, project, id, terms) values (?, ?, ?, ?)"
        db.conn.execute(sql, [*self._scope, fact.id, " ".join(extract_terms(fact.text))])

    def _count_again(self, db: Database, known: Memory, again: Memory) -> Memory:
        """Count that a known fact was repeated: another chat counts, and a fact marked to stay stays."""
        other = known.source.partition(" ")[0] != again.source.partition(" ")[0]
        sql = "update memories set heard = ?, chats = chats + ? where user_id = ? and project = ? and id = ?"
        db.conn.execute(sql, [self.clock(), int(other), *self._scope, known.id])
        if known.tier != "long":
            sql = (
                "update memories set tier = 'long' where user_id = ? and project = ? and id = ? and (chats >= ? or ? = 'long')"
            )
            db.conn.execute(sql, [*self._scope, known.id, LASTING_CHATS, again.tier])
        return self._find(db, known.id) or known


def _make_memory(row: tuple[str, Owner, str, str, str, int, Tier]) -> Memory:
    return Memory(*row[:5], forgotten=bool(row[5]), tier=row[6])


def _list_json_forms(text: str) -> tuple[str, ...]:
    """List the forms of a text in JSON, and in JSON within JSON, the longest first."""
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    forms = {once, json.dumps(text)[1:-1], json.dumps(once, ensure_ascii=False)[1:-1]}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))
