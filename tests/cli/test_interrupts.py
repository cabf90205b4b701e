"""Ctrl-C and being told to end, in the middle of real work: one sentence, the exit code, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from make_claude_code import write
from processes import start
from turnscope.cli import ExitCode, calculate, main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

SENTENCE = "turnscope: Stopped by Ctrl-C; no file was written.\n"
LONG = {
    "compare": ["compare", "IN", "--policies", "balanced,ladder,cline-classic"],
    "check": ["check", "IN", "IN", "--policy", "balanced", "--junit", "OUT"],
    "calculate": ["calculate", "--turns", "2000"],
    "advise": ["advise", "IN", "--policy", "clear-tool-results", "--trials", "500"],
    "share": ["share", "IN", "OUT", "--level", "masked"],
    "export": ["export", "IN", "--output", "OUT"],
    "trace": ["trace", "IN", "OUT", "--policy", "balanced"],
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that every command is busy with for more than a second."""
    path = tmp_path_factory.mktemp("long") / "session.jsonl"
    write(path, megabytes=8, requests=1_200, compactions=10)
    return path


def wait_for(folder: Path, seconds: float, pattern: str = "*") -> None:
    """Wait until a command writes to the folder, at most so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not [*folder.glob(pattern)]:
        time.sleep(0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_ends_a_long_command(name: str, session: Path, tmp_path: Path, data_folder: Path) -> None:
    """The signal comes to the whole process group, as from a terminal."""
    folder, temporary = tmp_path / "out", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    arguments = [{"IN": str(session), "OUT": str(folder / "out.html")}.get(part, part) for part in LONG[name]]
    process = start(*arguments, env=os.environ | {"TMPDIR": str(temporary)})
    wait_for(folder, 1.2)
    if name == "advise":  # until a setting was tried
        wait_for(data_folder, 60, "advice/*")
    if "OUT" in LONG[name]:
        wait_for(folder, 60)
        assert [file.suffix for file in folder.iterdir()] == [".part"]
    assert process.poll() is None, "it was no long run"
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # an impatient person
    out, told = process.communicate(timeout=60)
    again = "turnscope: Stopped by Ctrl-C. The same command goes on from there.\n"
    assert (process.returncode, out, told) == (ExitCode.INTERRUPTED, "", again if name == "advise" else SENTENCE)
    assert not [*folder.iterdir(), *temporary.iterdir()]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_what_was_read_of_standard_input_is_removed(name: str, code: int, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = start("compare", "-", env=os.environ | {"TMPDIR": str(tmp_path)}, stdin=reading)
    os.close(reading)
    wait_for(tmp_path, 60, "turnscope-*")  # before it, Python tries with a file of its own whether it may write there
    assert [*tmp_path.glob("turnscope-*")]
    os.killpg(process.pid, getattr(signal, name))
    out, told = process.communicate(timeout=60)
    os.close(writing)
    assert (process.returncode, out, told) == (code, "", SENTENCE if name == "SIGINT" else "")
    assert not [*tmp_path.iterdir()]


def test_who_ignores_ctrl_c_for_it_is_obeyed(tmp_path: Path) -> None:
    """As a shell does for what runs in the background."""
    reading, writing = os.pipe()
    process = start(
        "compare",
        "-",
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=reading,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    os.close(reading)
    wait_for(tmp_path, 60)
    os.killpg(process.pid, signal.SIGINT)
    os.close(writing)
    _, told = process.communicate(timeout=60)
    assert process.returncode == ExitCode.ERROR
    assert "standard input is empty" in told


def test_ctrl_c_while_a_class_is_made_is_no_defect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As in an import; Python hides it behind another error there."""

    class Interrupting:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def run(**_options: object) -> None:
        type("Made", (), {"field": Interrupting()})

    monkeypatch.setattr(calculate.command, "callback", run)
    assert main(["calculate"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == SENTENCE
