"""`turnscope check` in a pull request: the action's own script over two commits; tokens of files by commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from conftest import ROOT
from turnscope.cli import main
from turnscope.library.check_report import to_markdown
from turnscope.library.checking import CheckResult, CheckResults

SCRIPT = ROOT / ".github" / "actions" / "check" / "check.sh"
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
LOOK = {"name": "look", "description": "Look at a file.", "parameters": {"type": "object", "properties": {}}}
WRITE = {"name": "write|`@all`", "description": "Write a file.", "parameters": {"type": "object", "properties": {}}}


def write_run(path: Path, prompt: int, cached: int, tools: list[Any]) -> None:
    """A recorded call with these tokens."""
    usage = {"prompt_tokens": prompt, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": cached}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Look at it."}]}
    asked["tools"] = [{"type": "function", "function": tool} for tool in tools]
    answer = {"id": f"c{prompt}", "model": "gpt-4o", "choices": [choice], "usage": usage}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"request": asked, "response": answer}) + "\n")


def commit(folder: Path) -> str:
    for words in (["add", "-A"], ["commit", "-qm", "made"]):
        subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository whose second commit changed one run and its tools, added one and took one away; and its first commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    write_run(folder / "runs" / "a.jsonl", 20_000, 0, [LOOK])
    write_run(folder / "runs" / "gone.jsonl", 1_000, 0, [LOOK])
    (folder / "prompt.md").write_text("Be brief.\n")
    (folder / "tools.json").write_text(json.dumps([LOOK]))
    first = commit(folder)
    write_run(folder / "runs" / "a.jsonl", 64_000, 32_000, [{**LOOK, "description": "Look at a file. " * 20}, WRITE])
    write_run(folder / "runs" / "new.jsonl", 1_000, 0, [LOOK])
    (folder / "runs" / "gone.jsonl").unlink()
    (folder / "prompt.md").write_text("Be brief, and say why.\n")
    (folder / "tools.json").write_text(json.dumps({"tools": [{"type": "function", "function": WRITE}]}))
    commit(folder)
    return folder, first


def run_script(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    tools = folder.parent / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "turnscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m turnscope "$@"\n')
    (tools / "turnscope").chmod(0o755)
    held = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CHECK_PATHS": "\nruns\n", **variables}
    return subprocess.run(["bash", str(SCRIPT)], cwd=folder, env=held, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_the_script_of_the_action_compares_two_commits(repository: tuple[Path, str]) -> None:
    folder, first = repository
    summary = folder.parent / "summary.md"
    done = run_script(folder, CHECK_BASE=first, CHECK_ARGUMENTS="--max-fill 40", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stderr
    comment = (folder / "turnscope-comment.md").read_text()
    assert comment == summary.read_text()
    lines = comment.splitlines()
    assert lines[0] == "<!-- turnscope check -->"
    assert "1 of 2 runs break it; policy `as-recorded`." in lines
    (changed,) = [line for line in lines if "runs/a.jsonl" in line]
    cells = [cell.strip() for cell in changed.strip("|").split("|")]
    assert cells[1] == "50.0% (+34.4 points)"
    assert cells[2].startswith("$0.12")
    assert cells[2].endswith("(+$0.0700)")
    assert cells[3] == "50.0% (+50.0 points)"
    assert cells[4] == "64,000 (+44,000)"
    assert cells[5].startswith("**failed**: `request 1 fills 50.0% of its window")
    assert any(line.startswith("| `runs/new.jsonl#1` |") and line.endswith("| new |") for line in lines)
    assert "No longer there: `runs/gone.jsonl#1`." in lines
    table = lines[lines.index("| --- | ---: | ---: | ---: |") + 1 :]
    tools = {line.split("|")[1].strip(): line.split("|")[2:5] for line in table}
    assert {*tools} == {"`look`", "`write @all`", "all"}
    before, now, change = (int(cell.replace(",", "")) for cell in tools["all"])
    assert change == now - before > 80
    report = ET.parse(folder / "turnscope-junit.xml").getroot()
    assert (report.get("tests"), report.get("failures")) == ("2", "1")
    left = subprocess.run(["git", "worktree", "list"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert len(left.splitlines()) == 1, "the other commit's files are gone again"


@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_without_a_base_nothing_is_compared(repository: tuple[Path, str]) -> None:
    folder, _ = repository
    assert run_script(folder, CHECK_BASE="").returncode == 0
    comment = (folder / "turnscope-comment.md").read_text()
    assert "All 2 runs keep to it" in comment
    assert "points" not in comment
    assert "No longer there" not in comment


def test_texts_of_files_are_code_in_a_comment_and_one_line_in_a_log() -> None:
    hostile = "a`b|<img src=x> [c](http://x)\n::error::@all \x1b[31m\u202e"
    broken = CheckResult(hostile, error=hostile, violations=(hostile, "\n"))
    comment = to_markdown({hostile: broken}, {f"{hostile}2": CheckResult(hostile)}, hostile)
    for line in comment.splitlines()[1:]:
        outside = "".join(line.split("`")[::2])
        assert line.count("`") % 2 == 0
        assert not set("<[@\x1b\u202e") & set(outside)
    shown = repr(CheckResults((broken,)))
    assert not any(line.startswith("::") for line in shown.splitlines())
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


@pytest.mark.skipif(os.name == "nt", reason="the action runs on Linux and macOS")
def test_a_base_is_never_an_option_of_git(repository: tuple[Path, str]) -> None:
    folder, _ = repository
    made = folder.parent / "made"
    assert run_script(folder, CHECK_BASE=f"--upload-pack=touch {made};").returncode != 0
    assert not made.exists()


def test_base_is_for_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--base", str(tmp_path)]) == 2
    assert "--base is for --markdown" in capsys.readouterr().err


def test_tokens_of_prompts_and_tools_by_commit(
    repository: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, first = repository
    monkeypatch.chdir(folder)
    assert main(["tokens", "prompt.md", "tools.json", "gone.md", "--against", first, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    rows = {(row["file"], row["part"]): (row["before"], row["now"]) for row in made["parts"]}
    assert rows["prompt.md", ""] == (3, 7)
    assert rows["tools.json", "look"][1] is None
    assert rows["tools.json", WRITE["name"]][0] is None
    assert made["growth"] == sum((now or 0) - (before or 0) for before, now in rows.values())
    assert made["counter"] == "exact: o200k (toktok, offline)"
    assert main(["tokens", "prompt.md", "--against", first, "--max-growth", "3"]) == 1
    assert "grew by 4 tokens" in capsys.readouterr().err
    assert main(["tokens", "prompt.md", "--against", first, "--max-growth", "4"]) == 0
    assert main(["tokens", "prompt.md", "--against", "no-such-commit"]) == 2
    capsys.readouterr()
    assert main(["tokens", "prompt.md", "--model", "claude-opus-4-5", "--json"]) == 0
    assert "estimate" in json.loads(capsys.readouterr().out)["counter"]
