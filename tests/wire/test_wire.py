"""What Turnscope rebuilds of recorded runs, held against what went over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import shared

from tests.wire import folders, opened
from tests.wire.compare import compare

CLAUDE = ("A", "B2-acwindow100k", "C", "D-tui")


@pytest.mark.parametrize("name", CLAUDE)
def test_every_main_request_of_claude_code_is_rebuilt_to_the_letter(name: str) -> None:
    with opened(shared("data", "wire", "claude", name)) as run:
        made = compare(run)
    assert all(one.rebuilt and one.rebuilt.exact for one in made)
    assert [one.arrival for one in made if one.equal["tools"] < 1 or one.equal["messages"] < 1 or one.more] == []
    assert {one.missing.split(":")[1] for one in made} == {" 'x-anthropic-billing-header"}, "the tool does not record it"


def test_runs_are_found_packed_and_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "wire.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "b" / "wire.json.xz").write_bytes(b"")
    assert [path.name for path in folders(tmp_path)] == ["a", "b"]
