"""Sessions that commands are given: standard input, one of several conversations, and errors that name the path."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT
from processes import run
from turnscope.cli import main

SAMPLES = ROOT / "sample_sessions"
COLD = SAMPLES / "cache-goes-cold.jsonl"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of temporary files: its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "IN", "--policies", "last-5-pairs"],
        ["check", "IN", "--max-fill", "90"],
        ["export", "IN", "--as", "markdown"],
        ["share", "IN", "OUT"],
        ["trace", "IN", "OUT"],
        ["advise", "IN", "--policy", "clear-tool-results", "--trials", "2", "--turn", "1.keep"],
    ],
    ids=lambda command: command[0],
)
def test_standard_input_is_a_session_as_its_file_is(
    command: list[str],
    tmp_path: Path,
    temporary: Path,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    out, outcomes = tmp_path / "out", []
    for path in ("-", str(COLD)):
        pipe(monkeypatch, COLD.read_bytes())
        code = main([{"IN": path, "OUT": str(out)}.get(part, part) for part in command])
        said = capsysbinary.readouterr()
        assert said.err.count(b"\n") <= (command[0] == "check")
        outcomes.append(
            (code, said.out.replace(str(COLD).encode(), b"standard input"), out.read_bytes() if out.exists() else b"")
        )
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == (1 if command[0] == "advise" else 0)
    assert not [*temporary.iterdir()]


def test_a_real_pipe_is_read(data_folder: Path) -> None:
    done = run("check", "-", "--max-fill", "90", input=COLD.read_text("utf-8"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "standard input,ok,88," in done.stdout


def test_what_is_read_from_standard_input_is_called_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], temporary: Path
) -> None:
    for data, told in ((b"", "is empty. Pipe a session"), (b"no session", "is in no format")):
        pipe(monkeypatch, data)
        assert main(["compare", "-"]) == 2
        assert capsys.readouterr().err.startswith(f"turnscope: standard input {told}")
    assert not [*temporary.iterdir()]


def test_of_several_conversations_it_names_the_one_it_took(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        shutil.copy(COLD, tmp_path / name)
    compare = ["compare", str(tmp_path), "--policies", "last-5-pairs"]
    assert main(compare) == 0
    out, told = capsys.readouterr()
    assert told == (
        f"turnscope: {tmp_path} holds 3 conversations; this is 'a.jsonl'. "
        "Choose another with --conversation ID, such as --conversation 'b.jsonl'.\n"
    )
    assert main([*compare, "--conversation", "b.jsonl"]) == 0
    assert capsys.readouterr() == (out, "")
    assert main(["compare", str(COLD), "--policies", "last-5-pairs"]) == 0
    assert capsys.readouterr() == (out, "")


def test_a_conversation_that_is_not_there_lists_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(SAMPLES), "--conversation", "nowhere"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"turnscope: {SAMPLES} holds no conversation 'nowhere'. Of 4, the first are: 'cache-goes-cold")


def test_an_error_names_the_path_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some").mkdir()
    Path("some/text.json").write_text("{}")
    Path("some/empty").write_text("")
    assert main(["export", "some/text.json"]) == main(["export", "some/empty"]) == main(["export", "some/none"]) == 2
    unknown, empty, none = capsys.readouterr().err.splitlines()
    assert unknown.startswith("turnscope: some/text.json is in no format that Turnscope knows. ")
    assert unknown.endswith(" formats were tried; the app says why each one does not fit.")
    assert empty == "turnscope: some/empty is empty. Choose a file that holds a session."
    assert none == ("turnscope: some/none cannot be read: No such file or directory. Check the path and its permissions.")
    assert main(["check", "some/none", "--json"]) == 2
    out, told = capsys.readouterr()
    assert json.loads(out)["sessions"][0]["outcome"] == "unreadable"
    assert told.splitlines()[0] == none
