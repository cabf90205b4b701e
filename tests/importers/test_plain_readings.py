"""Every real file at hand, as we read it and as plain JSON reads it: calls, results, tokens and texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SHARED
from formats_table import compare_file, list_files

from tests.plain_messages import COUNTS
from tests.plain_readings import READINGS

FILES = list(list_files())


def test_messages_of_every_format_are_counted() -> None:
    assert {name for name, reading in READINGS.items() if not reading.messages} - COUNTS.keys() == set()


@pytest.mark.thorough(every=10)
@pytest.mark.skipif(not SHARED.is_dir(), reason="real files lie beside the project")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name[:40]}")
def test_a_real_file_opens_with_all_that_it_holds(path: Path) -> None:
    row = compare_file(path)
    assert row.sessions
    assert row.blocks
    assert row.lost == []
    assert row.right, row.pairs
    assert "messages" in row.pairs
