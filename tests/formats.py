"""Files of other tools' formats for tests: written from values, opened as a person would, and broken in many ways."""

from __future__ import annotations

import copy
import json
import random
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from turnscope.errors import ImporterError, TurnscopeError
from turnscope.reading.containers import open_source
from turnscope.reading.contents import list_entries, read_entry
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source
from turnscope.session.model import Session
from turnscope.session.thread import Thread

ODD: list[Any] = [None, True, -1, 10**30, 1e400, "\ud800", "", [None], {"a": []}, "x" * 50, [], {}]


def data_of(value: Any, lines: bool = False) -> bytes:
    """A value as a file: one document, or a line for each of its items."""
    return ("".join(json.dumps(item) + "\n" for item in value) if lines else json.dumps(value)).encode()


def threads(data: bytes, name: str = "made.json") -> list[Thread]:
    """Every conversation of a file, in the order in which they are listed."""
    source = Source(Path("/nowhere") / name, data)
    return [read_entry(source, entry.id) for entry in list_entries(source)]


def open_value(value: Any, lines: bool = False, name: str = "made.json") -> Session:
    """The main conversation of a file that holds this value."""
    return threads(data_of(value, lines), "made.jsonl" if lines else name)[0].session


def list_claims(path: Path) -> list[str]:
    """The importers that recognise a file at all."""
    source = open_source(path)
    return [importer.name for importer in find_importers() if importer.sniff(source)]


def database(path: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """An SQLite database of these rows; lists and objects are kept as JSON text."""
    with sqlite3.connect(path) as db:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(key for row in rows for key in row))
            db.execute(f'create table "{table}" ({", ".join(columns)})')
            for row in rows:
                values = [json.dumps(row[key]) if isinstance(row.get(key), (list, dict)) else row.get(key) for key in columns]
                db.execute(f'insert into "{table}" values ({", ".join("?" * len(columns))})', values)
    db.close()
    return path


def list_blocks(session: Session) -> list[tuple[str, str, str]]:
    """Role, kind and text of every block."""
    return [(block.role, block.kind, block.text) for block in session.blocks]


def texts(session: Session) -> list[str]:
    return [block.text for block in session.blocks]


def pairs(session: Session) -> int:
    """How many calls have their result."""
    return sum(block.pair >= 0 for block in session.blocks if block.kind == "tool_use")


def prompt_tokens(session: Session) -> int:
    return sum(request.usage.prompt_tokens for request in session.requests if request.usage)


def output_tokens(session: Session) -> int:
    return sum(request.usage.output_tokens for request in session.requests if request.usage)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def iter_broken(value: Any, count: int, lines: bool = False) -> Iterator[bytes]:
    """A file with other values in places where it has some, without some, or cut off."""
    rng = random.Random(count)
    found = list(places(value))
    for number in range(count):
        changed = copy.deepcopy(value)
        *path, last = rng.choice(found)
        holder = changed
        for key in path:
            holder = holder[key]
        if number % 3 == 2:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(rng.choice(ODD))
        data = data_of(changed, lines)
        yield data[: rng.randrange(len(data))] if number % 17 == 16 else data


def survives(value: Any, lines: bool = False, count: int = 40) -> int:
    """Open a file broken in many ways: typed errors with hints and notes, nothing else. Gives how often it opened."""
    fine = 0
    for data in iter_broken(value, count, lines):
        try:
            found = threads(data, "made.jsonl" if lines else "made.json")
        except TurnscopeError as error:
            if isinstance(error, ImporterError) or not error.what or not error.hint:
                pytest.fail(f"{error!r} comes from an importer that failed, or does not say what to do")
            continue
        for thread in found:
            for session in (thread.session, *thread.session.branches):
                sound(session)
        fine += 1
    return fine


def sound(session: Session) -> None:
    """What is true of any session, whatever it was read from: it replays, and its cuts can be applied."""
    from turnscope.library.opening import replay

    assert [request.n for request in session.requests] == list(range(len(session.requests)))
    assert all(note.line >= 0 and note.what for note in session.notes)
    trace = replay(session)
    assert len(trace.plans) == len(session.requests)
