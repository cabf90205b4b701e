"""One command writes what is generated, or says what is stale or lacks something that a person has to write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from turnscope.reading.registry import find_importers

from tests import regenerate


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A generated file that is stale, in place of all that is generated."""
    path = tmp_path / "made.txt"
    path.write_text("old")
    monkeypatch.setattr(regenerate, "GENERATED", {"mine": lambda: {path: b"new"}})
    return path


def test_a_check_says_what_is_stale_and_writes_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert regenerate.main(["--check", "mine"]) == 1
    assert capsys.readouterr().out == f"mine: {made} is stale\n"
    assert made.read_text() == "old"


def test_without_a_check_it_is_written_once(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert regenerate.main(["mine"]) == 0
    assert capsys.readouterr().out == f"mine: {made} written\n"
    assert made.read_text() == "new"
    assert regenerate.main(["mine"]) == regenerate.main(["mine", "--check"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to do")


def test_a_file_that_is_missing_is_stale(made: Path) -> None:
    made.unlink()
    assert regenerate.main(["--check"]) == 1


def test_an_unknown_name_is_refused_with_the_names_that_there_are(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        regenerate.main(["yours"])
    assert ended.value.code == 2
    assert "there is no 'yours': the names are mine" in capsys.readouterr().err


def test_nothing_lacks_what_a_person_has_to_write() -> None:
    assert [*regenerate.find_lacks()] == []


def test_what_a_new_format_or_rule_lacks_is_said(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(regenerate, "find_importers", lambda: (replace(find_importers()[0], name="new", right=""),))
    monkeypatch.setattr(regenerate, "PICTURES", tmp_path)
    monkeypatch.setattr(regenerate, "LABELS", {})
    found = [*regenerate.find_lacks()]
    assert found[0] == "The format new has no `right`: see `Importer`."
    assert "The rule repair has no picture: write tests/pictures/repair.txt." in found
    assert "The parameter condense.keep_turns has no words: add them to views/parameter_labels.py." in found
    assert regenerate.main([]) == 1
    assert regenerate.main([]) == 1, "what was stale was written, what lacks something still does"
