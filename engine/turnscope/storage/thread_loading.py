"""Loads a stored thread as a session: its own rows after what it shares with the thread or the session that it comes from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from turnscope.errors import TurnscopeError
from turnscope.planning.policy import resolve_name
from turnscope.session.facts import add_facts
from turnscope.session.fork import add_fork_points, truncate_session
from turnscope.session.model import CHAT, JSON, AppliedEdit, Edit, Fact, ObservedEdit, Request, Session, Usage
from turnscope.session.portable import loads as load_session
from turnscope.session.timeline import Timeline
from turnscope.storage import blobs, sessions
from turnscope.storage.blobs import decode_content
from turnscope.storage.packing import unpack
from turnscope.storage.pending_requests import BEGUN
from turnscope.storage.values import decode_value

if TYPE_CHECKING:
    from sqlite_utils import Database

NEWEST_POLICY = "select toml from policies p where p.thread = t.id order by request desc limit 1"  # policy of thread `t`


def load_thread(db: Database, path: Path, thread: str) -> Session:
    """Load a thread as a session. TurnscopeError where there is none of that id.

    Args:
        db: The database.
        path: Its file.
        thread: Id of the thread.
    """
    row = get_row(db, thread)
    start = Session(thread, source=CHAT)
    if row["base"] is not None:
        start = _load_base(path, row["base"])
    elif row["parent"]:
        start = truncate_session(load_thread(db, path, row["parent"]), row["at"])
    rows = [*db.query("select * from messages where thread = ?", [thread])]
    rows += db.query("select * from statics where thread = ?", [thread])
    rows.sort(key=lambda r: r["n"])
    texts = read_texts(db, [json.loads(r["blobs"]) for r in rows])
    built = _append_rows(start, rows, texts)
    requests = [_make_request(r) for r in _query_ended(db, thread)]
    edits = [
        ObservedEdit(r["request"], decode_value(r["edit"], Edit))
        for r in db.query(
            "select request, edit from decisions where thread = ? and changed = 1 order by request, seq", [thread]
        )
        if r["request"] < len(start.requests) + len(requests)
    ]
    newest = next(db.query(f"select ({NEWEST_POLICY}) as toml from threads t where id = ?", [thread]))["toml"]  # noqa: S608
    return structs.replace(
        built,
        id=thread,
        title=row["title"],
        source=CHAT,
        requests=(*start.requests, *requests),
        observed=(*start.observed, *edits),
        recorded=add_facts(start.recorded, *iter_facts(db, thread)),
        about=add_fork_points({**start.about, **read_about(row["about"], newest)}, start),
        parent=row["parent"] or (start.id if row["base"] is not None else ""),
        at=row["at"],
        subagents=(),
        forks=(),
    )


def _load_base(path: Path, stored: bytes) -> Session:
    """Load the imported session that a thread continues. Its texts are among the blobs; older rows hold the whole session."""
    if stored[:1] == b"{":
        return load_session(json.loads(stored), "base")
    digests, packed = msgspec.msgpack.decode(stored, type=tuple[bytes, bytes])
    return unpack(packed, digests, lambda wanted: sessions.read_texts(path, wanted))


def _append_rows(start: Session, rows: Sequence[Mapping[str, Any]], texts: Mapping[str, JSON]) -> Session:
    """Append the stored messages to the blocks and messages of `start`, as `Growing` appended them."""
    line = Timeline.from_session(start)
    for row in rows:
        parts = [(texts[digest], "") for digest in json.loads(row["blobs"])]
        origin = row.get("origin") or row["role"]
        line.append(row["role"], parts, origin=origin, id=row.get("uid") or "", sent_at=row["sent"])
    return structs.replace(start, blocks=tuple(line.blocks), messages=tuple(line.messages))


def _make_request(row: Mapping[str, Any]) -> Request:
    return Request(
        n=row["n"],
        turn=row["turn"],
        cut=row["cut"],
        stop=row["stop"],
        model=row["model"],
        usage=decode_value(row["usage"], Usage) if row["usage"] else None,
        sent_at=row["sent"],
        answered_at=row["answered"],
        stop_reason=row["stop_reason"],
        id=row["provider_id"] or "",
        settings=decode_content(row["settings"]),
        requested_model=row["asked"],
        window=row["window"],
        estimate=decode_value(row["estimate"], Usage) if row["estimate"] else None,
        applied=decode_value(row["applied"], tuple[AppliedEdit, ...]) if row["applied"] else (),
    )


def read_texts(db: Database, lists: Sequence[Sequence[str]]) -> dict[str, JSON]:
    """Read texts by digest.

    Args:
        db: The database.
        lists: Lists of digests.
    """
    return blobs.read_contents(db, (digest for some in lists for digest in some))


def iter_facts(db: Database, thread: str) -> Iterator[Fact]:
    """Iterate over the facts that were recorded in a thread, in order.

    Args:
        db: The database.
        thread: Id of the thread.
    """
    for row in db.query("select fact from facts where thread = ? order by id", [thread]):
        fact: Fact = msgspec.convert(json.loads(row["fact"]), Fact)
        yield fact


def _query_ended(db: Database, thread: str) -> Iterator[Mapping[str, Any]]:
    """Query the rows of requests that have ended."""
    return db.query("select * from requests where thread = ? and status != ? order by n", [thread, BEGUN])


def get_row(db: Database, thread: str) -> Mapping[str, Any]:
    """Get a thread's own row. TurnscopeError where there is none of that id.

    Args:
        db: The database.
        thread: Id of the thread.
    """
    row = next(db.query("select * from threads where id = ?", [thread]), None)
    if row is None:
        raise TurnscopeError(f"there is no chat {thread!r}", hint="Choose one from the list.")
    return row


def read_policy_name(toml: str) -> str:
    """Read the present name of a policy that was stored as text."""
    return resolve_name(str(tomllib.loads(toml).get("name", "")))


def read_about(stored: str, newest: str | None) -> dict[str, JSON]:
    """Read what a thread says about itself, with the name of its newest policy.

    Args:
        stored: The stored value, as JSON.
        newest: The newest policy as TOML; None = none was stored.
    """
    about: dict[str, JSON] = decode_content(stored)
    name = read_policy_name(newest) if newest else resolve_name(str(about.get("policy") or ""))
    return about | {"policy": name} if name else about
