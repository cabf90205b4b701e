"""`turnscope context`: a request's numbers are those of the page Envelope."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import ROOT
from turnscope.cli import context as command
from turnscope.cli import main
from turnscope.views.request_summary import summarize_request

SAMPLE = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["context", *arguments, "--json"]) == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    return made


def test_the_numbers_are_those_of_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    session = turnscope.load(SAMPLE)
    trace, view = turnscope.replay(session), turnscope.overview(session)
    made = read_json(capsys, str(SAMPLE), "--request", "200")
    now = summarize_request(view, trace, 199)
    assert (made["request"], made["prompt_tokens"], made["window"]) == (200, now.prompt, now.window)
    assert {row["name"]: row["tokens"] for row in made["buckets"]} == {s.name: s.tokens for s in now.segments if s.tokens}
    assert sum(row["tokens"] for row in made["buckets"]) == now.prompt
    assert sum(row["tokens"] for row in made["parts"]) == pytest.approx(now.prompt, rel=0.001), "each block is rounded"
    assert read_json(capsys, str(SAMPLE))["request"] == len(view), "the last one, where none is wanted"


def test_a_terminal_gets_a_bar_buckets_and_parts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["context", str(SAMPLE), "--request", "200", "--items", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    bar = next(line for line in lines if set(line) <= {"█", "·"} and line)
    made = read_json(capsys, str(SAMPLE), "--request", "200")
    assert len(bar) == 60
    assert bar.count("█") == round(60 * made["prompt_tokens"] / made["window"])
    assert any(line.startswith("  Read ") and line.rstrip().endswith("× 2") for line in lines)
    shares = [int(line.rpartition("%")[0].split()[-1]) for line in lines if line.startswith(("█ ", "· "))]
    assert 98 <= sum(shares) <= 102, "all are shares of the window"


def test_a_pipe_gets_a_line_per_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", str(SAMPLE), "--request", "200"]) == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))]
    made = read_json(capsys, str(SAMPLE), "--request", "200")
    assert [(row["group"], row["part"], int(row["tokens"])) for row in rows] == [
        (part["group"], part["part"], part["tokens"]) for part in made["parts"]
    ]


def test_texts_of_a_session_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "is_terminal", lambda: True)
    log = Log()
    log.user("\x1b]0;owned\x07 hello\x1b[2J")
    log.answer("m1", call("t1", "Ba\x1b[31msh", command="\x1b[1mls\r\n"), usage=(10, 0, 0, 5), model="m\x1b[5m")
    log.user([{"type": "tool_result", "tool_use_id": "t1", "content": "a " * 500}])
    log.answer("m2", "done", usage=(900, 0, 0, 5), model="m\x1b[5m")
    assert main(["context", str(log.save(tmp_path / "s1.jsonl"))]) == 0
    printed = capsys.readouterr().out
    assert "hello" in printed
    assert not [letter for letter in printed if not letter.isprintable() and letter != "\n"]


def test_without_a_path_it_is_the_session_that_was_written_last(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context"]) == 2
    assert "no session was found" in capsys.readouterr().err
    folder = data_folder.parent / "home" / ".claude" / "projects" / "p"
    for name, age in (("s1", 100), ("s2", 10), ("s3", 50)):
        log = Log(session=name)
        log.user(f"this is {name}")
        log.answer(name, "fine", usage=(10, 0, 0, 5))
        file = log.save(folder / f"{name}.jsonl")
        os.utime(file, (time.time() - age,) * 2)
    assert read_json(capsys)["session"] == "this is s2"


def test_wrong_wishes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", str(SAMPLE), "--request", "999"]) == 2
    assert "The session has 325" in capsys.readouterr().err
    assert main(["context", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err
    log = Log()
    log.user("only a question")
    assert main(["context", str(log.save(tmp_path / "s1.jsonl"))]) == 2
    assert "no request yet" in capsys.readouterr().err


def test_a_session_that_grows_is_followed(tmp_path: Path) -> None:
    log = Log()
    log.user("begin")
    log.answer("m1", "begun", usage=(10, 0, 0, 5))
    file = log.save(tmp_path / "s1.jsonl")
    process = subprocess.Popen(
        [sys.executable, "-m", "turnscope", "context", str(file), "--watch"], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout
    try:
        _read_until(process.stdout, "request 1 of 1")
        log.user("go on")
        log.answer("m2", "gone on", usage=(30, 0, 0, 5))
        log.save(file)
        _read_until(process.stdout, "request 2 of 2")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is needed")
def test_a_narrow_terminal_holds_every_line_and_one_that_is_resized_is_drawn_anew(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        log.user("read the file and say what it holds " * 30)
        log.answer(f"m{number}", "It is read. " * 60, usage=(300 * number + 300, 0, 0, 90))
    file = log.save(tmp_path / "s1.jsonl")
    import pty

    own, theirs = pty.openpty()
    _resize(theirs, 100)
    command = [sys.executable, "-m", "turnscope", "context", str(file), "--watch"]
    # what these say goes before the terminal's own size
    free = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    wires: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, **wires, env=free, start_new_session=True) as process:
        try:
            assert "in the session" in _read_screen(own, "assistant")
            _resize(theirs, 44)
            screen = _read_screen(own, "assistant")
            rows = [line for line in screen.splitlines() if line.startswith(("  ", "█", "·"))]
            assert len(rows) > 4
            assert max(map(len, rows)) <= 44
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    os.close(own)
    os.close(theirs)


def _resize(terminal: int, columns: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))


def _read_screen(terminal: int, wanted: str) -> str:
    """Read until a line that begins with a word has come whole. Gives the text without its colours."""
    text, end = "", time.monotonic() + 60
    while not re.search(rf"^ +{wanted}.*\n", text, re.MULTILINE):
        assert time.monotonic() < end, text
        if select.select([terminal], [], [], 1.0)[0]:
            text += os.read(terminal, 65_536).decode()
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")


def _read_until(lines: Any, wanted: str) -> None:
    for line in lines:
        if wanted in line:
            return
    raise AssertionError(wanted)
