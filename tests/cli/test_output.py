"""What commands print: a table to a terminal, CSV to a pipe, JSON where it is asked for; whole files, or none."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from processes import run, start
from turnscope.cli import ExitCode, main
from turnscope.library import comparing
from turnscope.views import comparison

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
ROWS = {
    "compare": ["compare", str(COLD), "--policies", "last-5-pairs"],
    "check": ["check", str(COLD), "--max-fill", "10"],
    "calculate": ["calculate", "--turns", "12", "--policies", "last-5-pairs"],
}
FIRST = {"compare": "policy   ", "check": f"FAILED {COLD}: 88 requests, ", "calculate": "policy   "}


@pytest.mark.parametrize("name", ROWS)
def test_a_terminal_gets_a_table_and_a_pipe_gets_csv(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = 1 if name == "check" else 0
    assert main(ROWS[name]) == main([*ROWS[name], "--csv"]) == code
    twice = capsys.readouterr().out
    piped = twice[: len(twice) // 2]
    assert piped * 2 == twice
    (row,) = csv.DictReader(io.StringIO(piped))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(ROWS[name]) == code
    assert capsys.readouterr().out.startswith(FIRST[name])
    assert main([*ROWS[name], "--csv"]) == code
    assert capsys.readouterr().out == piped
    assert main([*ROWS[name], "--json"]) == code
    ((made,),) = (value for value in json.loads(capsys.readouterr().out).values() if isinstance(value, list))
    assert set(row) <= set(made)


def test_a_terminal_gets_each_row_when_it_is_made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    build = comparison.build_row

    def look(*args: object, **named: object) -> object:
        seen.append(capsys.readouterr().out)
        return build(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(comparing, "build_row", look)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["compare", str(COLD), "--policies", "as-recorded,last-5-pairs,keep-everything"]) == 0
    seen.append(capsys.readouterr().out)
    assert [text.split("  ")[0] for text in seen] == ["policy", "As recorded", "Last 5 pairs", "Keep everything"]
    lines = "".join(seen).splitlines()[:4]
    assert len({len(line) for line in lines}) == 1, "columns in line"


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
def test_a_real_terminal_gets_the_table(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = start(*ROWS["calculate"], stdout=theirs)
    os.close(theirs)
    told = b""
    while b"Last 5 pairs" not in told:
        told += os.read(ours, 10_000)
    assert process.wait(60) == 0
    os.close(ours)
    assert told.startswith(b"policy   ")


def test_a_check_in_a_pipe_says_failures_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ROWS["check"]) == 1
    assert capsys.readouterr().err == f"turnscope: {COLD}: request 63 fills 64.3% of its window, more than 10 %\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_ends_first_is_no_traceback() -> None:
    process = start(*ROWS["calculate"])
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.wait(60) == ExitCode.PIPE_CLOSED
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    "command", [["export", "IN", "--output", "OUT"], ["share", "IN", "OUT"], ["check", "IN", "--junit", "OUT"]]
)
def test_a_file_is_written_whole_or_not_at_all(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def arguments(out: Path, given: Path = COLD) -> list[str]:
        return [{"IN": str(given), "OUT": str(out)}.get(part, part) for part in command]

    out = tmp_path / "out"
    out.write_text("before")
    assert main(arguments(out)) == 0
    assert out.stat().st_size > 100
    missing = tmp_path / "none" / "out"
    assert main(arguments(missing)) == 2
    assert f"{missing} cannot be written: there is no folder {missing.parent}." in capsys.readouterr().err
    assert main(arguments(tmp_path)) == 2
    assert f"{tmp_path} is a folder. Name a file in it." in capsys.readouterr().err
    if command[0] != "check":  # which reports it
        out.write_text("before")
        assert main(arguments(out, tmp_path / "nowhere")) == 2
        assert out.read_text() == "before"
    assert [*tmp_path.iterdir()] == [out]


def test_a_character_that_the_output_cannot_hold_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "umlaut.json"
    messages = [{"role": "user", "content": "Grüße \ud83d"}, {"role": "assistant", "content": "ok"}]
    file.write_text(json.dumps({"request": {"messages": messages, "model": "gpt-4o"}}))
    done = run("compare", str(file), "--json", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
