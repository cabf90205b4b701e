"""Turnscope's own JSON: a whole session as one value, to keep, to send on, or to write by hand.

    {"format": "turnscope-session", "version": 3, "session": {"id": ..., "blocks": [...], "messages": [...], ...}}

The keys are the fields of `model.Session` and of what it holds, so reading returns an equal session. Fields with a default
may be left out. Tuples are lists, spans are `[start, stop]`. Branches are `forks`: each holds what it adds to the path that
it left (see `model.Fork`), with the addresses and numbers of the whole path. Four keys keep their old names: `asked`
(`Request.requested_model`), `told` (`Wish.blocks_digest`), `mended` (`Fork.relinked`) and `raw` (`Block.content`).

Versions 1 and 2 are still read. They have `branches` instead: whole sessions, each with all that it shares with the main
path. Version 1 kept every recorded fact among `answers`.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson
from msgspec import structs

from turnscope.errors import BrokenFile, TurnscopeError
from turnscope.session.facts import add_facts, convert_old_answers
from turnscope.session.model import JSON, Answer, Fork, LazyContent, RecordedFacts, Session
from turnscope.session.thread import make_forks
from turnscope.session.usage import is_valid

FORMAT = "turnscope-session"
LINES = "turnscope-session-lines"
VERSION = 3
_LISTED = ("blocks", "messages", "requests")  # fields with lines of their own


def make_wrong_type_error(value: object) -> TurnscopeError:
    """Make the error for a value that is no session."""
    what = f"expected a session, not {'a path' if isinstance(value, str) else type(value).__name__}"
    return TurnscopeError(what, hint="turnscope.load(path) returns the session of a file, folder, archive or database.")


class _Version1(msgspec.Struct):
    """What version 1 kept in another form."""

    answers: Mapping[str, Answer] = {}


def dumps(session: Session) -> bytes:
    """Write a session as JSON text (UTF-8). `loads` and `turnscope.load` read it back as an equal session.

    >>> text = turnscope.dumps(turnscope.load("sample_sessions/cache-goes-cold.jsonl"))
    >>> text[:33]
    b'{\\n  "format": "turnscope-session"'
    """
    if not isinstance(session, Session):
        raise make_wrong_type_error(session)
    value = {
        "format": FORMAT,
        "version": VERSION,
        "session": msgspec.to_builtins(session, str_keys=True, enc_hook=LazyContent.read),
    }
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except (TypeError, ValueError):  # lone surrogates
        return json.dumps(value, indent=2, ensure_ascii=True).encode()


def is_portable(value: JSON) -> bool:
    """Whether a JSON value says that it is a session in this format, of any version."""
    return isinstance(value, Mapping) and value.get("format") == FORMAT


def loads(value: JSON, name: str = "the file") -> Session:
    """Read a session from a JSON value.

    Args:
        value: The value, as `json.loads` gives it.
        name: Name of the file, for error messages.

    Raises:
        BrokenFile: The value is no session. The message names the path of the wrong field.
    """
    hint = (
        'The expected form is {"format": "turnscope-session", "version": 3, "session": {...}}, as `turnscope.dumps` writes it.'
    )
    if not is_portable(value):
        raise BrokenFile(f"{name} is no Turnscope session", hint=hint)
    version = value.get("version")
    if version not in (1, 2, VERSION):
        newer = f"Another version of Turnscope wrote it. This one reads versions 1 to {VERSION}."
        raise BrokenFile(f"{name} has version {version!r} at $.version", hint=newer)
    try:
        stored = value.get("session")
        session = (
            _convert_version(version, stored, "$") if version < VERSION else msgspec.convert(stored, Session, str_keys=True)
        )
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:  # UnicodeError: a lone surrogate in a name
        raise BrokenFile(f"{name} does not hold a session: {_locate(str(error))}", hint=hint) from error
    return _check(session, name)


def _convert_version(version: int, value: JSON, path: str) -> Session:
    """Read a session of an older version, whose branches are whole sessions next to its fields."""
    try:
        session = msgspec.convert(value, Session, str_keys=True)
        facts = (
            add_facts(RecordedFacts(), *convert_old_answers(msgspec.convert(value, _Version1).answers))
            if version == 1
            else session.recorded
        )
    except msgspec.ValidationError as error:
        what, _, inside = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{what} - at `{path}{inside or '`'}") from error
    inner: dict[str, list[Session]] = {}
    for group in ("subagents", "branches"):
        listed = value.get(group) or []
        if not isinstance(listed, list):
            raise msgspec.ValidationError(f"Expected `array` - at `{path}.{group}`")
        inner[group] = [_convert_version(version, each, f"{path}.{group}[{n}]") for n, each in enumerate(listed)]
    session = structs.replace(session, recorded=facts, subagents=tuple(inner["subagents"]))
    return structs.replace(session, forks=make_forks(session, inner["branches"]))


def _locate(what: str) -> str:
    """Prefix the path that msgspec names inside the session, so that it starts at the top of the file."""
    return what.replace("`$", "`$.session") if "`$" in what else f"{what} - at `$.session`"


def _check(session: Session, name: str, path: str = "$.session") -> Session:
    """Refuse addresses that lead nowhere. Everything that reads a session relies on them."""
    _raise_if(name, path, _find_contradiction(session))
    for number, agent in enumerate(session.subagents):
        _check(agent, name, f"{path}.subagents[{number}]")
    ends = [len(session.blocks)]
    for number, fork in enumerate(session.forks):
        place = f"{path}.forks[{number}]"
        known = 0 <= fork.of <= number and 0 <= fork.start <= ends[fork.of]
        if not known or any(not 0 <= block.at < fork.start for block in fork.relinked):
            _raise_if(name, path, (f"forks[{number}]", f"a branch cannot leave path {fork.of} at block {fork.start}"))
        _raise_if(name, f"{place}.own", _find_contradiction(fork.own, fork.start, *_count_before(session, fork)))
        for inner, agent in enumerate(fork.own.subagents):
            _check(agent, name, f"{place}.own.subagents[{inner}]")
        ends.append(fork.start + len(fork.own.blocks))
    return session


def _count_before(session: Session, fork: Fork) -> tuple[int, int]:
    """Count the messages and requests before a branch on the path that it left."""
    messages = requests = 0
    stop, number = fork.start, fork.of
    while True:
        left = session.forks[number - 1] if number else Fork(session)
        if stop > left.start:
            messages += bisect_left(left.own.messages, stop, key=lambda message: message.start)
            requests += bisect_right(left.own.requests, stop, key=lambda request: request.stop)
            stop = left.start
        if not number:
            return messages, requests
        number = left.of


def _raise_if(name: str, path: str, wrong: tuple[str, str] | None) -> None:
    if wrong:
        where, what = wrong
        raise BrokenFile(f"{name}: {what} - at `{path}.{where}`", hint="Correct the named field, or export the session again.")


def _find_contradiction(session: Session, start: int = 0, spoken: int = 0, sent: int = 0) -> tuple[str, str] | None:
    """Find the first field that contradicts another. Gives the field and what is wrong with it.

    Args:
        session: A session, or what a branch adds.
        start: How many blocks precede it on its path.
        spoken: How many messages precede it.
        sent: How many requests precede it.
    """
    size, at = start + len(session.blocks), start
    for number, message in enumerate(session.messages):
        if message.start != at or not at < message.stop <= size:
            return (
                f"messages[{number}]",
                f"messages must follow each other without a gap; this one is {message.start}:{message.stop}",
            )
        at = message.stop
    if at != size:
        return "blocks", f"{size - at} blocks belong to no message"
    for number, block in enumerate(session.blocks):
        inside = spoken <= block.message < spoken + len(session.messages)
        if block.at != start + number or not -1 <= block.pair < size or not inside:
            return (
                f"blocks[{number}]",
                f"wrong address: the block has number {block.at}, message {block.message} and pair {block.pair}",
            )
    cut = start
    for number, request in enumerate(session.requests):
        if request.n != sent + number or not cut <= request.cut <= request.stop <= size:
            return (
                f"requests[{number}]",
                f"wrong address: the request has number {request.n} and blocks {request.cut}:{request.stop}",
            )
        if abs(request.turn) >= 2**63:
            return f"requests[{number}]", f"the turn {request.turn} is too large"
        if request.usage and any(not is_valid(used) for used in request.usage.passes):
            return f"requests[{number}].usage", "it holds a number that is no count of tokens"
        cut = request.cut
    return _find_wrong_edit(session, sent, size)


def _find_wrong_edit(session: Session, sent: int, size: int) -> tuple[str, str] | None:
    last = sent
    for number, seen in enumerate(session.observed):
        span: Any = seen.edit.span or (0, 0)
        known = last <= seen.request < sent + len(session.requests)
        limit = session.requests[seen.request - sent].cut if known else -1
        refs = [part.ref for part in seen.edit.body or () if part.ref is not None]
        if not 0 <= span[0] <= span[1] <= limit or any(not 0 <= ref < size for ref in refs):
            return f"observed[{number}]", f"request {seen.request} cannot change blocks {span[0]}:{span[1]}"
        last = seen.request
    return None


def dump_lines(session: Session) -> bytes:
    """Write a session as JSON Lines: one line with its fields, one for each message with its blocks, one for each request.

    Branches and subagents are in the first line. `join_lines` makes the value that `loads` reads.
    """
    whole = msgspec.to_builtins(session, str_keys=True, enc_hook=LazyContent.read)
    blocks, messages, requests = whole["blocks"], whole["messages"], whole["requests"]
    head = {key: value for key, value in whole.items() if key not in _LISTED}
    lines: list[JSON] = [{"format": LINES, "version": VERSION, "session": head}]
    lines += [{"message": each, "blocks": blocks[each["start"] : each["stop"]]} for each in messages]
    lines += [{"request": each} for each in requests]
    return b"".join(_dump_line(line) for line in lines)


def _dump_line(value: JSON) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, ValueError):  # lone surrogates
        return json.dumps(value, ensure_ascii=True).encode() + b"\n"


def is_portable_lines(first: JSON) -> bool:
    """Whether the first value of some JSON Lines says that they are a session in this form."""
    return isinstance(first, Mapping) and first.get("format") == LINES


def join_lines(values: Iterable[JSON]) -> JSON:
    """Join the lines of a session into one value, as `dumps` would have written it."""
    lines = iter(values)
    head = next(lines)
    listed: dict[str, list[JSON]] = {key: [] for key in _LISTED}
    for line in lines:
        if isinstance(line, Mapping) and "message" in line:
            listed["messages"].append(line["message"])
            listed["blocks"] += line.get("blocks") or []
        elif isinstance(line, Mapping) and "request" in line:
            listed["requests"].append(line["request"])
    session = head.get("session")
    return {
        "format": FORMAT,
        "version": head.get("version"),
        "session": {**session, **listed} if isinstance(session, dict) else session,
    }
