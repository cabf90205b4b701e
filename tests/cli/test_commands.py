"""The group of commands: help, version, what is imported for it, and what becomes of errors."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import turnscope
from click.testing import CliRunner
from conftest import ROOT
from processes import run
from turnscope.cli import ExitCode, command_line, main
from turnscope.cli.commands import COMMANDS
from turnscope.errors import TurnscopeError

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
DOCS = ROOT / "engine" / "turnscope" / "docs" / "command-line.md"
HEAVY = {
    "numpy",
    "streamlit",
    "anthropic",
    "plotly",
    "optuna",
    "sqlalchemy",
    "tiktoken",
    "toktok",
    "opentelemetry",
    "sqlite_utils",
}


def test_the_module_runs_and_explains_itself() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: turnscope")
    for option in ("PATH", "--port", "--no-browser", "--forget"):
        assert option in done.stdout
    assert done.stderr == ""


def test_help_lists_every_command_with_its_line_and_every_exit_code() -> None:
    text = CliRunner().invoke(command_line, ["-h"], terminal_width=200).output
    for name, line in COMMANDS.items():
        assert f"  {name} " in text
        assert line in text
    assert all(code.meaning in text for code in ExitCode)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_explains_itself_and_says_the_line_of_the_list(name: str) -> None:
    done = CliRunner().invoke(command_line, [name, "--help"], terminal_width=200)
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: turnscope {name}")
    assert import_module(f"turnscope.cli.{name}").command.help.partition("\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("open", "--help"), ("completion", "zsh")])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    script = f"import sys\nfrom turnscope.cli import main\nprint(main({arguments!r}), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert HEAVY.isdisjoint(modules)


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(command_line, ["--version"]).output == f"turnscope {turnscope.__version__}\n"


def test_an_unknown_option_ends_with_2_and_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--unknown"]) == 2
    assert capsys.readouterr().err.startswith("turnscope: No such option '--unknown'. See `turnscope open --help`.")
    assert main(["compare", str(COLD), "--polices", "a"]) == 2
    assert "Did you mean '--policies'?" in capsys.readouterr().err
    assert main(["compare"]) == main(["calculate", "--turns", "many"]) == main(["export", str(COLD), "--as", "pdf"]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    assert main(["compare", str(COLD), "--json", "--csv"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_as_a_program_it_exits_with_the_code() -> None:
    assert CliRunner().invoke(command_line, ["--unknown"]).exit_code == 2
    assert CliRunner().invoke(command_line, ["completion", "bash"]).exit_code == 0


def test_an_error_is_one_sentence_and_a_hint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("turnscope.cli.forget.delete", lambda: _raise(TurnscopeError("it is locked", hint="Close the app.")))
    assert main(["forget"]) == ExitCode.ERROR
    assert capsys.readouterr().err == "turnscope: it is locked. Close the app.\n"
    monkeypatch.setattr("turnscope.cli.forget.delete", lambda: _raise(PermissionError(13, "Permission denied", "/x/y")))
    assert main(["forget"]) == ExitCode.ERROR
    assert capsys.readouterr().err == "turnscope: /x/y: Permission denied. Check the path and its permissions.\n"


def test_a_defect_is_no_failed_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("turnscope.cli.forget.delete", lambda: _raise(KeyError("unheard of")))
    assert main(["forget"]) == ExitCode.DEFECT
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.endswith("turnscope: Turnscope has a defect (KeyError). Please report it with the lines above.\n")


def _raise(error: Exception) -> None:
    raise error


def test_the_docs_have_every_command_and_every_exit_code() -> None:
    text = DOCS.read_text("utf-8")
    for name in COMMANDS:
        assert f"\n### {name}\n" in text
    for code in ExitCode:
        assert f"| {code.value} | {code.meaning} |" in text
    for name in COMMANDS:
        for param in import_module(f"turnscope.cli.{name}").command.params:
            shown = [] if getattr(param, "hidden", False) else param.opts
            assert all(f"`{option}" in text for option in shown if option.startswith("--")), (name, param.name)


def test_bad_files_end_with_2_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_text("[1, 2, 3]")
    (tmp_path / "cut.jsonl").write_text('{"type": "user", "uuid": "a", "sessionId": "b", "message": {"role": "us')
    (tmp_path / "noise.db").write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 9)
    (tmp_path / "noise.zip").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 9)
    (tmp_path / "deep.json").write_text("[" * 20_000)
    (tmp_path / "empty").mkdir()
    for file in sorted(tmp_path.iterdir()):
        for command in (["compare"], ["check"], ["export"], ["advise", "--policy", "clear-tool-results"]):
            code = main([command[0], str(file), *command[1:]])
            told = capsys.readouterr().err
            assert (code, "Traceback" in told) == (1 if code == 1 and command[0] == "advise" else 2, False), (
                file,
                command,
                told,
            )
            assert str(file) in told or code == 1


LONE = "\ud800 half =cmd|' /C calc'!A0 <script>alert(1)</script> \u202e"


@pytest.fixture
def odd_session(tmp_path: Path) -> Path:
    """A session whose every text holds half a surrogate pair, a formula, markup and a change of direction."""
    rows: list[dict[str, Any]] = []
    for n in range(3):
        call = {"type": "tool_use", "id": f"t{n}", "name": f"=Read{LONE}", "input": {"file_path": LONE, "n": float("nan")}}
        answer = {"id": f"m{n}", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "tool_use"}
        answer |= {"content": [{"type": "text", "text": LONE}, call], "usage": {"input_tokens": 500, "output_tokens": 20}}
        result = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": LONE * 9}]
        for kind, message in (
            ("user", {"role": "user", "content": LONE}),
            ("assistant", answer),
            ("user", {"content": result}),
        ):
            row = {"type": kind, "uuid": str(len(rows)), "parentUuid": str(len(rows) - 1) if rows else None, "message": message}
            rows.append(
                row | {"sessionId": "s", "cwd": LONE, "gitBranch": LONE, "timestamp": f"2026-01-01T00:00:0{len(rows)}Z"}
            )
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {"type": "summary", "summary": LONE, "leafUuid": "8"}])))
    return path


@pytest.mark.parametrize(
    "arguments",
    [
        ("share", "{}", "r.html"),
        ("share", "{}", "full.html", "--level", "full"),
        ("share", "{}", "r.md", "--level", "masked"),
        ("check", "{}", "--max-usd", "5", "--junit", "j.xml"),
        ("export", "{}"),
        ("trace", "{}", "t.json"),
        ("compare", "{}", "--policies", "balanced"),
    ],
)
def test_odd_texts_stop_no_command(arguments: tuple[str, ...], odd_session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(odd_session.parent)
    assert main([argument.format(odd_session) for argument in arguments]) == 0
    for file in odd_session.parent.glob("*.*"):
        file.read_text(encoding="utf-8")


@pytest.mark.parametrize("amount", ["nan", "-1", "inf", "1e999", "much"])
def test_a_limit_that_is_no_amount_is_a_sentence(amount: str, odd_session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--max-usd", "--max-fill"):
        assert main(["check", str(odd_session), f"{option}={amount}"]) == 2
        error = capsys.readouterr().err
        assert f"'{amount}' is no amount" in error
        assert "Traceback" not in error


def test_a_header_that_is_none_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "any.jsonl", "--endpoint", "http://127.0.0.1:9", "--header", "Authorization sk-a-key-of-mine"]) == 2
    said = capsys.readouterr().err
    assert "NAME=VALUE" in said
    assert "sk-a-key" not in said
