"""Texts by the digest of their JSON. Chats and opened sessions share them; each is stored once.

A text that a chat ever held is never deleted here: it is marked as the chat's in the transaction that refers to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from turnscope.session.model import JSON

if TYPE_CHECKING:
    from sqlite_utils import Database

Content = str | bytes
"""JSON text: bytes where orjson reads back the same value, else str for the standard reader."""

BATCH_DIGESTS = 500  # digests in one statement


def encode_content(value: JSON) -> Content:
    """Write a value as JSON. TypeError, ValueError or RecursionError where JSON cannot hold it."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except (TypeError, ValueError):  # lone surrogates, huge numbers
        return json.dumps(value, separators=(",", ":"))
    if b"null" in text and orjson.loads(text) != value:  # infinity and NaN
        return json.dumps(value, separators=(",", ":"))
    return text


def decode_content(content: Content) -> JSON:
    """Read the value of JSON text; None for an empty text, which stands for what was nested too deep to be written."""
    return orjson.loads(content) if isinstance(content, bytes) else json.loads(content) if content else None


def compute_digest(content: Content) -> str:
    """Compute the digest under which a text is stored."""
    return blake2b(content.encode() if isinstance(content, str) else content, digest_size=16).hexdigest()


def keep(db: Database, contents: Iterable[tuple[str, Content]], chat: bool) -> None:
    """Store texts that are not there yet.

    Args:
        db: The database, inside a transaction.
        contents: Digests and texts.
        chat: A chat holds the texts, so they stay.
    """
    known = "do update set chat = 1 where chat = 0" if chat else "do nothing"
    sql = f"insert into blobs (digest, content, chat) values (?, ?, {int(chat)}) on conflict (digest) {known}"  # noqa: S608 - no value is part of it
    db.conn.executemany(sql, contents)


def read_contents(db: Database, digests: Iterable[str]) -> dict[str, JSON]:
    """Read values by digest. Missing ones are left out.

    Args:
        db: The database.
        digests: The digests.
    """
    found: dict[str, JSON] = {}
    for some in _batch(dict.fromkeys(digests)):
        sql = f"select digest, content from blobs where digest in ({_list_marks(some)})"  # noqa: S608 - places only
        found |= {digest: decode_content(content) for digest, content in db.conn.execute(sql, some)}
    return found


def find_missing(db: Database, digests: Iterable[str]) -> set[str]:
    """Find which of these digests are not stored.

    Args:
        db: The database.
        digests: The digests.
    """
    wanted = set(digests)
    for some in _batch([*wanted]):
        sql = f"select digest from blobs where digest in ({_list_marks(some)})"  # noqa: S608 - places only
        wanted.difference_update(row[0] for row in db.conn.execute(sql, some))
    return wanted


def drop(db: Database, digests: Iterable[str]) -> None:
    """Delete texts, except those that a chat holds.

    Args:
        db: The database, inside a transaction.
        digests: The digests.
    """
    db.conn.executemany("delete from blobs where digest = ? and chat = 0", ((digest,) for digest in digests))


def _batch(digests: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(digests)
    while some := list(islice(rest, BATCH_DIGESTS)):
        yield some


def _list_marks(some: Sequence[Any]) -> str:
    return ", ".join("?" * len(some))
