"""Usage that cannot be right, in any format: a note, and no measured zero."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import turnscope
from turnscope.errors import TurnscopeError
from turnscope.reading.content_blocks import make_usage
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.session.usage import InvalidUsage, parse_usage

from tests.bench.bench_mutations import Whole, wholes

WRONG: list[Any] = ["1000", -5, float("nan"), 1e30]
NAMED = re.compile("token|input|output|prompt|completion|cache|thoughts|total", re.IGNORECASE)
Path_ = tuple[str | int, ...]


@pytest.mark.parametrize("wrong", [*WRONG, True, [], 1 << 60, 0.5])
def test_a_number_that_is_no_count_makes_usage_invalid(wrong: Any) -> None:
    assert isinstance(parse_usage({"input_tokens": 10, "output_tokens": wrong}), InvalidUsage)
    assert isinstance(make_usage(wrong, 5), InvalidUsage)


def test_nothing_reported_is_no_error() -> None:
    assert parse_usage({"input_tokens": None, "output_tokens": 5.0}) == Usage(output_tokens=5)
    assert make_usage(None, 0) is None


@pytest.mark.parametrize("wrong", WRONG)
def test_a_request_whose_usage_is_invalid_has_none_and_a_note(wrong: Any) -> None:
    builder = Builder("s", "example")
    builder.add_message("user", "go")
    usage = parse_usage({"input_tokens": wrong, "output_tokens": 5})
    builder.set_request(builder.add_message("assistant", "done"), model="m", usage=usage)
    session = builder.build()
    assert session.requests[0].usage is None
    (note,) = session.notes
    assert (note.severity, "request 1" in note.what, "input_tokens is" in note.what) == ("warning", True, True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Whole]:
    """Files that tests write of every format, those of JSON whose requests have usage."""
    found = [whole for whole in wholes(tmp_path_factory.mktemp("whole"), large=False) if whole.path.is_file()]
    return [whole for whole in found if whole.path.suffix in (".json", ".jsonl") and usages(whole.path)]


@pytest.mark.thorough
def test_the_formats_that_are_tried(made: list[Whole]) -> None:
    assert len({whole.format for whole in made}) > 20


@pytest.mark.thorough
def test_wrong_numbers_are_a_note_in_every_format(made: list[Whole], tmp_path: Path) -> None:
    faults, tried = [], 0
    for number, whole in enumerate(made):
        before = usages(whole.path)
        for path, where, wrong in iter_damaged(whole.path, tmp_path / f"{number}{whole.path.suffix}"):
            sessions = open_all(path)
            after = [request.usage for session in sessions for request in session.requests]
            if len(after) != len(before) or after == before:
                continue  # it is read from elsewhere, or it is no number of usage
            tried += 1
            lost = [old for old, new in zip(before, after, strict=True) if old != new]
            kept = all(new is None for old, new in zip(before, after, strict=True) if old != new)
            noted = any(note.what.startswith("usage of request") for session in sessions for note in session.notes)
            if lost and not (kept and noted) and not is_number_there(path, wrong, after):
                faults.append(f"{whole.format} {where} = {wrong!r}: {lost} became {after}")
    assert faults == []
    assert tried > 100


def is_number_there(path: Path, wrong: Any, read: list[Usage | None]) -> bool:
    """Whether a text of digits is read as the number that it is, as in traces, which write numbers as texts."""
    if not isinstance(wrong, str):
        return False
    path.write_text(path.read_text("utf-8").replace(json.dumps(wrong), wrong), "utf-8")
    return usages(path) == read


def usages(path: Path) -> list[Usage | None]:
    return [request.usage for session in open_all(path) for request in session.requests if session.requests]


def open_all(path: Path) -> list[Session]:
    try:
        return [turnscope.load(path, entry.id) for entry in turnscope.entries(path)]
    except TurnscopeError:
        return []


def iter_damaged(path: Path, copy_at: Path) -> Iterator[tuple[Path, str, Any]]:
    """The file with one number at a time that is wrong."""
    lines = path.suffix == ".jsonl"
    text = path.read_text("utf-8")
    value = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    for number, where in enumerate(places(value, ())):
        wrong = WRONG[number % len(WRONG)]
        changed = copy.deepcopy(value)
        holder = changed
        for key in where[:-1]:
            holder = holder[key]
        holder[where[-1]] = wrong
        copy_at.write_text("".join(json.dumps(one) + "\n" for one in changed) if lines else json.dumps(changed), "utf-8")
        yield copy_at, ".".join(map(str, where)), wrong


def places(value: Any, path: Path_) -> Iterator[Path_]:
    """Where a number stands under a name that tokens are told under."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in rows:
        if isinstance(held, (dict, list)):
            yield from places(held, (*path, key))
        elif isinstance(held, int) and not isinstance(held, bool) and held > 0 and NAMED.search(str(key)):
            yield (*path, key)


@pytest.mark.parametrize("count", ["many", [1], -5, 0.5])
def test_what_stands_under_a_name_of_tokens_and_is_no_count_is_told_of(count: Any) -> None:
    found = convert_usage({"input_tokens": count, "output_tokens": 7})
    assert isinstance(found, InvalidUsage)
    assert "input_tokens is" in found.what
    assert convert_usage({"input": "what was asked", "output": 7, "input_tokens": {"cached": 1}}) is not None
