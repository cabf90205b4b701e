"""`turnscope open`: paths, standard input, the process of the app and its end, and names that are files and commands."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from processes import run
from turnscope import cli as command


def test_a_path_that_does_not_exist_ends_with_2_and_says_so(tmp_path: Path, data_folder: Path) -> None:
    done = run(str(tmp_path / "missing.jsonl"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"turnscope: {tmp_path / 'missing.jsonl'} does not exist. Check the path.\n"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the app was started with: it runs as a child process, and nothing runs in its place. Its exit code is 7."""
    started: dict[str, Any] = {}

    class Child:
        def __init__(self, arguments: list[str], *, env: dict[str, str], cwd: Path) -> None:
            opens = env.get("TURNSCOPE_OPEN")
            content = Path(opens).read_bytes() if opens and Path(opens).is_file() else b""
            started.update(arguments=arguments, env=env, cwd=cwd, content=content)

        def wait(self) -> int:
            return 7

        poll = wait

    monkeypatch.setattr(subprocess, "Popen", Child)
    return started


def test_a_path_is_handed_to_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]) -> None:
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


def test_other_machines_need_a_token(started: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        assert command.main(["--host", host]) == 7
        assert "TURNSCOPE_TOKEN" not in started["env"]
    assert capsys.readouterr().err == ""
    assert command.main(["--host", "0.0.0.0", "--port", "8600"]) == 7
    token = started["env"]["TURNSCOPE_TOKEN"]
    assert len(token) >= 32
    assert started["arguments"][started["arguments"].index("--server.address") + 1] == "0.0.0.0"
    assert f":8600/?token={token} and read every session" in capsys.readouterr().err


def test_open_is_the_name_of_the_default_command(tmp_path: Path, started: dict[str, Any]) -> None:
    for arguments in ((), ("--port", "8600"), ("--no-browser", str(tmp_path)), (str(tmp_path), "--port=8600")):
        assert command.main(arguments) == 7
        first = {**started}
        assert command.main(["open", *arguments]) == 7
        assert started == first


def test_a_file_named_like_a_command_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("compare", "open", "forget"):
        Path(name).write_text("{}")
        assert command.main([name]) == 7
        assert started["env"]["TURNSCOPE_OPEN"] == str(tmp_path / name)
    assert command.main(["compare", "nowhere"]) == 2


def test_standard_input_opens_as_a_file_that_is_removed(
    monkeypatch: pytest.MonkeyPatch, started: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for data, code in ((b"a session", 7), (b"", 2)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert command.main(["-", "--no-browser"]) == code
    assert started["content"] == b"a session"
    assert not Path(started["env"]["TURNSCOPE_OPEN"]).exists()
    assert "standard input is empty" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("told", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_the_app_does_not_outlive_the_command(told: str, stubborn: bool, tmp_path: Path) -> None:
    """Something that waits stands in the app's place; where it is stubborn, it ends only when it is killed."""
    note, deaf = tmp_path / "pid", "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; "
    child = f"{deaf if stubborn else ''}import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        f"import sys, turnscope.cli.open as m; m.PATIENCE = 0.6; sys.exit(m.serve([sys.executable, '-c', {child!r}], {{}}))"
    )
    running = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    running.send_signal(getattr(signal, told))
    if stubborn:  # and so is the person
        time.sleep(0.4)  # when the app is being ended
        running.send_signal(getattr(signal, told))
    assert running.wait(10) == {"SIGTERM": 143, "SIGHUP": 129, "SIGINT": 0}[told]
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
