"""Records of an unknown type: each format counts and names them with their bytes, and says so where they are much of a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import turnscope
from importers.unknown_records import KIND, LOGS, write_log


@pytest.mark.parametrize("name", LOGS)
def test_unknown_records_are_counted_and_named_with_their_bytes(tmp_path: Path, name: str) -> None:
    path = write_log(tmp_path, name, 3, 1_000)
    session = turnscope.load(path)
    assert session.source == name
    (note,) = (note for note in session.notes if KIND in note.what)
    lost = sum(
        len(json.dumps(json.loads(line), separators=(",", ":"))) for line in path.read_text().splitlines() if KIND in line
    )
    told = re.search(r"([\d,]+) bytes", note.what)
    assert told
    size = int(told[1].replace(",", ""))
    assert size == note.skipped
    assert 0 <= abs(size - lost) <= 60, "white space between the parts of a record aside"
    assert re.search(r"\b3\b", note.what)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize(("count", "size", "much"), [(3, 1_000, True), (1, 60, False)])
def test_unknown_records_are_a_warning_where_they_are_over_a_twentieth(
    tmp_path: Path, name: str, count: int, size: int, much: bool
) -> None:
    notes = turnscope.load(write_log(tmp_path, name, count, size)).notes
    told = [note for note in notes if "in records that are not shown" in note.what]
    assert [note.severity for note in told] == ["warning"] * much
    assert sum(KIND in note.what for note in notes) == 1
