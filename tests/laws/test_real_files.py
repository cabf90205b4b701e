"""What must be true of any session, on the samples and on the open sessions kept beside the project (`tests.samples`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT))

from tests import samples


@pytest.mark.thorough
def test_the_samples_have_no_number_that_must_be_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert samples.main([str(ROOT / "sample_sessions")]) == 0
    printed = capsys.readouterr().out
    assert "4 sessions, 0 without usage; 0 files are not openable" in printed
    assert len([line for line in printed.splitlines() if line.startswith("sample_sessions/")]) == 8, "four in each table"


@pytest.mark.thorough
def test_open_sessions_have_no_number_that_must_be_zero(
    shared: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code = samples.main([str(shared("data", "open"))])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "entire-cd95" in printed


def test_the_first_table_says_what_each_file_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = [[{"role": "user", "content": f"question {n}"}, {"role": "assistant", "content": "answer"}] for n in range(2)]
    rows = [{"request": {"messages": one[:1]}, "response": {"choices": [{"message": one[1]}]}} for one in lists]
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert samples.main([str(tmp_path)]) == 0
    head, row = capsys.readouterr().out.splitlines()[:2]
    assert head.split()[1:5] == ["format", "sessions", "requests", "blocks"]
    assert row.split()[1:8] == ["openai-chat", "2", "2", "4", "0", "0", "0"]


def test_a_claimed_file_without_a_session_and_a_crash_fail_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").write_text('{"type": "summary", "summary": "x", "leafUuid": "1"}\n' * 2, encoding="utf-8")
    assert samples.main([str(tmp_path)]) == 1
    assert "it holds no session" in capsys.readouterr().out
    monkeypatch.setattr(samples, "read_entry", lambda *_: 1 / 0)
    assert samples.main([str(ROOT / "sample_sessions" / "thinking-grows.jsonl")]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_a_wrong_number_fails_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(samples, "row", lambda path, *_: samples.Row(path.name, negative=1))
    assert samples.main([str(ROOT / "sample_sessions" / "thinking-grows.jsonl")]) == 1
    assert samples.main([]) == 2
    assert "0 sessions" in capsys.readouterr().out


def test_a_file_that_no_importer_opens_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"a": 1}', encoding="utf-8")
    assert samples.main([str(tmp_path)]) == 2
    assert "1 files are not openable" in capsys.readouterr().out
