"""The tables, as migrations from an empty file to the newest format. Each runs once, inside a transaction (`database`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import DecodeError

from turnscope.session.destination import Destination, parse_origin
from turnscope.session.facts import convert_old_answers
from turnscope.session.model import JSON, Answer, AnswerFact, Fact
from turnscope.storage.blobs import decode_content
from turnscope.storage.values import decode_value, encode_value

if TYPE_CHECKING:
    from sqlite_utils import Database


def _chats(db: Database) -> None:
    """Format 1. Files of formats 1 and 2 were made before migrations had names, and have these tables."""
    if "threads" in db.table_names():
        return
    db.executescript("""
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
""")


def _typed_facts(db: Database) -> None:
    """Format 2: facts of one type each, in the order in which they were recorded. They were answers by key before."""
    if "facts" in db.table_names():
        return
    db.executescript("""
create table facts (id integer primary key, thread text not null, fact text not null);
create index facts_of_thread on facts (thread);
""")
    for row in [*db.query("select * from answers order by thread, key")]:
        answer = decode_value(row["answer"], Answer)
        try:
            facts: list[Fact] = [*convert_old_answers({row["key"]: answer})]
        except DecodeError:  # one broken fact must not cost the chat
            facts = [AnswerFact(row["key"], answer)]
        db.conn.executemany("insert into facts (thread, fact) values (?, ?)", ((row["thread"], encode_value(f)) for f in facts))
    db.conn.execute("drop table answers")


def _opened_sessions(db: Database) -> None:
    """Format 3: opened sessions are in the same file as chats and share their texts. `chat`: 1 where a chat holds the text."""
    db.executescript("""
create table texts (digest text primary key, content not null, chat integer not null);
insert into texts select digest, content, 1 from blobs;
drop table blobs;
alter table texts rename to blobs;
create table catalogue (path text not null, entry text not null, size integer not null, mtime integer not null,
    beside text not null, seen integer not null, key text not null, name text not null, title text not null,
    source text not null, models text not null, requests integer not null, peak integer not null, "window" integer not null,
    usd text, cuts integer not null, started real, opened real not null, primary key (path, entry));
create index catalogue_key on catalogue (key);
create table sessions (key text primary key, importer text not null, version integer not null, form integer not null,
    opinion text not null, blobs blob not null, session blob not null, page blob not null);
create table counts (digest text not null, family text not null, tokens integer not null,
    primary key (digest, family)) without rowid;
""")


def _places_and_what_is_under_way(db: Database) -> None:
    """Format 4: where each thread goes, and requests that are stored before they are sent (`pending_requests`)."""
    db.executescript("""
create table places (thread text not null, request integer not null, place text not null, decided real not null,
    primary key (thread, request)) without rowid;
alter table requests add column asked text not null default '';
alter table requests add column "window" integer not null default 0;
alter table requests add column estimate text;
alter table requests add column problem text;
alter table requests add column owner text;
alter table requests add column draft text;
""")
    newest = "(select model from requests r where r.thread = t.id order by n desc limit 1)"
    for row in [*db.query(f"select id, created, about, {newest} as model from threads t")]:  # noqa: S608 - no value is part of it
        if place := infer_destination(decode_content(row["about"]), row["model"] or ""):
            db.conn.execute("insert into places values (?, 0, ?, ?)", [row["id"], encode_value(place), row["created"]])


def infer_destination(about: JSON, model: str) -> Destination | None:
    """Infer where a thread of an earlier version went; None = unknown.

    Args:
        about: What the thread says about itself.
        model: Model of its newest request.
    """
    fields = about if isinstance(about, Mapping) else {}
    kind, url = str(fields.get("provider") or ""), str(fields.get("url") or "")
    model = model or str(fields.get("model") or "")
    if model.startswith("offline-"):
        return Destination("offline", "", model)
    if model and (kind == "anthropic" or (kind == "server" and parse_origin(url))):
        return Destination(kind, url if kind == "server" else "", model)
    return None


def _applied_edits(db: Database) -> None:
    """Format 5: the context edits that the provider made in a request."""
    db.conn.execute("alter table requests add column applied text")


def _formed_by(db: Database) -> None:
    """Format 6: the version of the reader and of the prices behind the numbers of a session in the catalogue."""
    db.conn.execute("alter table catalogue add column formed text not null default ''")


def _memories(db: Database) -> None:
    """Format 7: what a user keeps across the sessions of a project. A forgotten fact's row stays, without its text."""
    db.executescript("""
create table memories (number integer primary key, user_id text not null, project text not null, id text not null,
    owner text not null, text text not null, said text not null, source text not null, forgotten integer not null,
    unique (user_id, project, id));
create virtual table memories_fts using fts5 (user_id unindexed, project unindexed, id unindexed, terms);
""")


def _memory_tiers(db: Database) -> None:
    """Format 8: how long a fact stays, when and in how many chats it occurred, and what of the archive is looked up again."""
    db.executescript("""
alter table memories add column tier text not null default 'long';
alter table memories add column heard real not null default 0;
alter table memories add column chats integer not null default 1;
create table retrievals (user_id text not null, project text not null, name text not null, times integer not null,
    primary key (user_id, project, name)) without rowid;
""")


def _prompt_sizes(db: Database) -> None:
    """Format 9: how long system prompt and tools of a tool's version are, as sessions show it whose logs hold them."""
    db.executescript("""
create table prompt_sizes (tool text not null, version text not null, family text not null, session text not null,
    tokens integer not null, primary key (tool, version, family, session)) without rowid;
""")


STEPS = (
    _chats,
    _typed_facts,
    _opened_sessions,
    _places_and_what_is_under_way,
    _applied_edits,
    _formed_by,
    _memories,
    _memory_tiers,
    _prompt_sizes,
)
"""A file's format is the number of migrations it has had. Add new ones at the end; change none."""
