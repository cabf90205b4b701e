"""Turnscope's own JSON: a whole session as one value, to keep, to send on, or to write by hand.

    {"format": "turnscope-session", "version": 2, "session": {"id": ..., "blocks": [...], "messages": [...], ...}}

The keys are the fields of `model.Session` and of what it holds, so reading gives back an equal session. Fields that have a
default may be left out. Tuples are lists, spans are `[start, stop]`. Version 1 kept every recorded fact among `answers`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from engine.errors import BrokenFile
from engine.session.facts import noted, typed
from engine.session.model import JSON, Answer, Later, Recorded, Session

FORMAT = "turnscope-session"
VERSION = 2


class _Old(msgspec.Struct):
    """What version 1 kept in another form."""

    answers: Mapping[str, Answer] = {}


def dumps(session: Session) -> bytes:
    """The session as JSON text (UTF-8). `loads` reads it back as an equal session, and so does `engine.load` from a file.

    >>> text = engine.dumps(engine.load("sample_sessions/cache-goes-cold.jsonl"))
    >>> text[:33]
    b'{\\n  "format": "turnscope-session"'
    """
    value = {"format": FORMAT, "version": VERSION, "session": msgspec.to_builtins(session, str_keys=True, enc_hook=Later.read)}
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except (TypeError, ValueError):  # lone surrogates
        return json.dumps(value, indent=2, ensure_ascii=True).encode()


def is_portable(value: JSON) -> bool:
    """Whether a JSON value says that it is a session in this format, whatever its version."""
    return isinstance(value, Mapping) and value.get("format") == FORMAT


def loads(value: JSON, name: str = "the file") -> Session:
    """The session that a JSON value holds. BrokenFile with the path of the field that is wrong."""
    hint = 'It has to look like {"format": "turnscope-session", "version": 2, "session": {...}}, as `engine.dumps` writes it.'
    if not is_portable(value):
        raise BrokenFile(f"{name} is no Turnscope session", hint=hint)
    if value.get("version") not in (1, VERSION):
        newer = f"It was written by another version of Turnscope; this one reads versions 1 and {VERSION}."
        raise BrokenFile(f"{name} has version {value.get('version')!r} at $.version", hint=newer)
    try:
        held = value.get("session")
        session = msgspec.convert(_newer(held) if value["version"] == 1 else held, Session, str_keys=True)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BrokenFile(f"{name} does not hold a session: {_placed(str(error))}", hint=hint) from error
    return _checked(session, name)


def _newer(session: JSON) -> JSON:
    """A session as version 1 wrote it, in today's form."""
    if not isinstance(session, Mapping):
        return session
    facts = noted(Recorded(), *typed(msgspec.convert(session, _Old).answers))
    groups = ((group, session.get(group)) for group in ("subagents", "branches"))
    inner = {group: [_newer(each) for each in held] for group, held in groups if isinstance(held, list)}
    return {**session, **inner, "recorded": msgspec.to_builtins(facts, str_keys=True)}


def _placed(what: str) -> str:
    """msgspec names the path inside the session; say it from the top of the file."""
    return what.replace("`$", "`$.session") if "`$" in what else f"{what} - at `$.session`"


def _checked(session: Session, name: str, path: str = "$.session") -> Session:
    """Refuse addresses that lead nowhere: everything that reads a session relies on them."""
    wrong = _wrong(session)
    if wrong:
        where, what = wrong
        raise BrokenFile(
            f"{name}: {what} - at `{path}.{where}`", hint="Mend the field that is named, or export the session again."
        )
    for group in ("subagents", "branches"):
        for number, inner in enumerate(getattr(session, group)):
            _checked(inner, name, f"{path}.{group}[{number}]")
    return session


def _wrong(session: Session) -> tuple[str, str] | None:
    """The first field that contradicts another, with what is wrong about it."""
    size, at = len(session.blocks), 0
    for number, message in enumerate(session.messages):
        if message.start != at or not at < message.stop <= size:
            return (
                f"messages[{number}]",
                f"messages have to follow each other without a gap, and this one is {message.start}:{message.stop}",
            )
        at = message.stop
    if at != size:
        return "blocks", f"{size - at} blocks belong to no message"
    for number, block in enumerate(session.blocks):
        if block.at != number or not -1 <= block.pair < size or not 0 <= block.message < len(session.messages):
            return (
                f"blocks[{number}]",
                f"this block says it is number {block.at}, in message {block.message}, paired with {block.pair}",
            )
    cut = 0
    for number, request in enumerate(session.requests):
        if request.n != number or not cut <= request.cut <= request.stop <= size:
            return (
                f"requests[{number}]",
                f"this request says it is number {request.n}, over blocks {request.cut}:{request.stop}",
            )
        cut = request.cut
    return _wrong_edit(session)


def _wrong_edit(session: Session) -> tuple[str, str] | None:
    size, last = len(session.blocks), 0
    for number, seen in enumerate(session.observed):
        span: Any = seen.edit.span or (0, 0)
        limit = session.requests[seen.request].cut if last <= seen.request < len(session.requests) else -1
        refs = [part.ref for part in seen.edit.body or () if part.ref is not None]
        if not 0 <= span[0] <= span[1] <= limit or any(not 0 <= ref < size for ref in refs):
            return f"observed[{number}]", f"request {seen.request} cannot change blocks {span[0]}:{span[1]}"
        last = seen.request
    return None
