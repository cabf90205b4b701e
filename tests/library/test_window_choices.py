"""A window that a person chooses comes before all evidence, everywhere, until it is taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log
from turnscope import library
from turnscope.cli import main
from turnscope.errors import BrokenFile
from turnscope.library import Store, checking, index_queries, indexing, window_choices
from turnscope.settings import find_windows_file

OPUS = "claude-opus-4-7"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    log = Log()
    log.user("go")
    log.answer("m1", "One.", usage=(10, 0, 179_990, 20), model=OPUS)
    log.user("on")
    log.answer("m2", "Two.", usage=(10, 0, 30_000, 20), model="claude-haiku-4-5")
    log.user("on")
    log.answer("m3", "Three.", usage=(10, 0, 40_000, 20), model=OPUS)
    return log.save(tmp_path / "s1.jsonl")


def test_all_that_follows_from_the_window_follows_the_choice(data_folder: Path, file: Path) -> None:
    memory = Store(data_folder / "chats.db")
    [*indexing.index(memory.index_path, [file])]
    before = memory.open(file)
    assert before.overview.windows.tolist() == [1_000_000, 200_000, 1_000_000]
    library.choose_window(before.session, 200_000)
    library.refresh(memory.index_path, file)
    after = memory.open(file)
    assert after.overview.windows.tolist() == [200_000] * 3
    assert after.overview.fill.max() == 0.9
    assert [(each.model, each.kind) for each in after.overview.evidence] == [(OPUS, "chosen"), ("claude-haiku-4-5", "default")]
    assert {plan.limit for plan in turnscope.replay(after.session, "last-5-pairs").plans} == {200_000}
    assert checking.check(file, checking.Limits(max_fill=80)).violations
    assert [row.window for row in memory.list_recent()] == [200_000]
    assert [row.window for row in index_queries.list_sessions(memory.index_path)] == [200_000]
    library.choose_window(after.session, 0)
    assert json.loads(find_windows_file().read_text()) == {}
    assert memory.open(file).overview.windows.tolist() == [1_000_000, 200_000, 1_000_000]


def test_a_check_says_which_window_it_held_the_session_against(data_folder: Path, file: Path, capsys: Any) -> None:
    main(["check", str(file), "--json"])
    (row,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (row["window"], row["peak_fill"]) == (1_000_000, 0.18)
    assert row["window_evidence"].startswith("a window of 1,000,000 tokens: the table of models says so")
    library.choose_window(turnscope.load(file), 200_000)
    main(["check", str(file), "--json"])
    (row,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (row["window"], row["peak_fill"], row["window_evidence"]) == (
        200_000,
        0.9,
        "a window of 200,000 tokens, not 1,000,000: you chose it",
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"s": 3}', '{"s": {"m": "much"}}', '{"s": {"m": -1}}'])
def test_a_broken_file_says_how_to_get_rid_of_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "windows.json"
    path.write_text(text)
    with pytest.raises(BrokenFile, match=r"windows\.json cannot be read") as raised:
        window_choices.read_window_choices(path)
    assert "Delete" in str(raised.value.hint)
