"""The command `turnscope`, short of starting the app: help, deleting what was remembered, paths that do not exist."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from claude_log import Log
from conftest import ROOT
from turnscope import __main__ as command
from turnscope.library import Store
from turnscope.settings import find_database
from turnscope.storage.threads import Threads


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnscope", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_module_runs_and_explains_itself() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: turnscope")
    for option in ("path", "--port", "--no-browser", "--forget"):
        assert option in done.stdout
    assert done.stderr == ""


def test_a_path_that_does_not_exist_ends_with_2_and_says_so(tmp_path: Path, data_folder: Path) -> None:
    done = run(str(tmp_path / "missing.jsonl"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"turnscope: {tmp_path / 'missing.jsonl'} does not exist\n"


def test_an_unknown_option_ends_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--unknown"])
    assert ended.value.code == 2


def test_forget_deletes_what_was_remembered_and_no_session(tmp_path: Path, data_folder: Path) -> None:
    log = Log()
    log.user("hello")
    file = log.save(tmp_path / "s1.jsonl")
    memory = Store(find_database())
    memory.open(file)
    Threads(memory.path).create(title="a chat")
    assert memory.path.parent == data_folder
    done = run("--forget")
    assert done.returncode == 0
    assert str(memory.path) in done.stdout
    assert "not touched" in done.stdout
    assert memory.list_recent() == ()
    assert memory.measure_size() == 0
    assert [row.title for row in Threads(memory.path).list()] == ["a chat"]
    assert file.exists()


def test_forget_with_nothing_to_forget_is_well(data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--forget"]) == 0
    assert "(0.0 MB)" in capsys.readouterr().out


def test_a_path_is_handed_to_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app runs as a child process; this test stands in its place."""
    started: dict[str, Any] = {}

    class Child:
        def __init__(self, arguments: list[str], *, env: dict[str, str], cwd: Path) -> None:
            started.update(arguments=arguments, env=env, cwd=cwd)

        def wait(self) -> int:
            return 7

        poll = wait

    monkeypatch.setattr(command.subprocess, "Popen", Child)
    monkeypatch.chdir(tmp_path)
    Path("s1.jsonl").write_text("{}")
    assert command.main(["s1.jsonl", "--port", "8600", "--no-browser"]) == 7
    assert started["env"]["TURNSCOPE_OPEN"] == str(tmp_path / "s1.jsonl")
    assert started["arguments"][1:5] == ["-m", "streamlit", "run", str(ROOT / "app.py")]
    assert started["cwd"] == ROOT
    assert started["arguments"][started["arguments"].index("--server.port") + 1] == "8600"
    assert started["arguments"][-2:] == ["--server.headless", "true"]
    assert command.main([]) == 7
    assert "TURNSCOPE_OPEN" not in started["env"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("told", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_the_app_does_not_outlive_the_command(told: str, stubborn: bool, tmp_path: Path) -> None:
    """Something that waits stands in the app's place; where it is stubborn, it ends only when it is killed."""
    note, deaf = tmp_path / "pid", "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; "
    child = f"{deaf if stubborn else ''}import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        f"import sys, turnscope.__main__ as m; m.PATIENCE = 0.3; sys.exit(m._served([sys.executable, '-c', {child!r}], {{}}))"
    )
    running = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    running.send_signal(getattr(signal, told))
    assert running.wait(10) == {"SIGTERM": 143, "SIGHUP": 129, "SIGINT": 0}[told]
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
