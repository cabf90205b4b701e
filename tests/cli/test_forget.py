"""`turnscope forget`, and the flag that it had before: what is deleted, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from claude_log import Log
from processes import run
from turnscope import cli as command
from turnscope.library import Store
from turnscope.settings import find_database
from turnscope.storage.threads import Threads


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["forget", "--forget"])
def test_forget_deletes_what_was_remembered_and_no_session(tmp_path: Path, data_folder: Path, name: str) -> None:
    log = Log()
    log.user("hello")
    file = log.save(tmp_path / "s1.jsonl")
    memory = Store(find_database())
    memory.open(file)
    Threads(memory.path).create(title="a chat")
    assert memory.path.parent == data_folder
    done = run(name)
    assert done.returncode == 0
    assert str(memory.path) in done.stdout
    assert "not touched" in done.stdout
    deprecated = "turnscope: --forget is deprecated; use `turnscope forget`.\n"
    assert done.stderr == (deprecated if name == "--forget" else "")
    assert memory.list_recent() == ()
    assert memory.measure_size() == 0
    assert [row.title for row in Threads(memory.path).list()] == ["a chat"]
    assert file.exists()


def test_recordings_of_the_tap_are_deleted_on_request_alone(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = data_folder / "tap" / "claude.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}")
    (log.parent / "spending.sqlite").write_bytes(b"names of sessions, and what they cost")
    assert command.main(["forget"]) == 0
    assert log.exists()
    assert command.main(["forget", "--tap"]) == 0
    assert not [*log.parent.iterdir()]
    assert "Deleted 1 recordings of the tap (0.0 MB)" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["forget", "--forget"])
def test_forget_with_nothing_to_forget_is_well(name: str, data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([name]) == 0
    assert "(0.0 MB)" in capsys.readouterr().out
