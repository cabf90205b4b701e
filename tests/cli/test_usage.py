"""`turnscope usage`: the sums are those of the sessions, and the second time nothing is read."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import run as run_process
from typing import Any

import pytest
import turnscope
from claude_log import Log, find_billed, records
from conftest import shared
from turnscope.cli import main
from turnscope.cli.indexed import find_index
from turnscope.library import index_job
from turnscope.storage.database import StorageError

pytestmark = pytest.mark.usefixtures("indexing_here")
DAY = "2026-01-02"


@pytest.fixture
def projects(data_folder: Path) -> Path:
    """Where Claude Code keeps sessions in this home: one is there."""
    folder = data_folder.parent / "home" / ".claude" / "projects" / "p"
    write_session(folder / "s1.jsonl", "one")
    return folder


def write_session(path: Path, name: str, answers: int = 1) -> Path:
    log = Log(session=name)
    for n in range(answers):
        log.user(f"question {n}")
        log.answer(f"{name}{n}", "an answer", usage=(10, 200, 3_000, 40))
    return log.save(path)


@pytest.fixture
def usage(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def read(*arguments: str) -> dict[str, Any]:
        assert main(["usage", *arguments, "--json"]) == 0
        made: dict[str, Any] = json.loads(capsys.readouterr().out)
        return made

    return read


def test_the_sum_is_that_of_the_sessions_which_tools_keep_here(projects: Path, usage: Callable[..., dict[str, Any]]) -> None:
    write_session(projects / "s2.jsonl", "two", answers=3)
    made = usage("daily", "--timezone", "UTC")
    views = [turnscope.overview(turnscope.load(path)) for path in sorted(projects.glob("*.jsonl"))]
    assert [row["day"] for row in made["rows"]] == [DAY]
    total = made["total"]
    assert (total["requests"], total["input_tokens"], total["cache_write_5m_tokens"]) == (4, 40, 800)
    assert (total["cache_read_tokens"], total["output_tokens"]) == (12_000, 160)
    assert total["usd"] == pytest.approx(float(sum(view.total or 0 for view in views)))
    assert usage("sessions")["total"] == total


def test_a_request_that_two_files_hold_counts_once(projects: Path, usage: Callable[..., dict[str, Any]]) -> None:
    before = usage()["total"]
    (projects / "copy.jsonl").write_bytes((projects / "s1.jsonl").read_bytes())
    assert usage()["total"] == before
    (projects / "s1.jsonl").unlink()
    assert usage()["total"] == before


def test_what_has_not_changed_is_not_looked_at_again(
    projects: Path, usage: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = usage()
    with monkeypatch.context() as patch:
        patch.setattr(index_job, "IndexJob", None)  # nobody needs it
        assert usage() == first
        assert usage("models")["total"] == first["total"]
    write_session(projects / "s1.jsonl", "one", answers=2)
    assert usage()["total"]["requests"] == 2, "a file that changed"
    write_session(projects.with_name("q") / "s2.jsonl", "two")
    assert usage()["total"]["requests"] == 3, "a new folder"
    write_session(projects.parents[2] / ".codex" / "sessions" / "rollout-x.jsonl", "three")
    assert usage()["unread_files"] + usage()["total"]["requests"] >= 4, "a tool that is used for the first time"
    (projects / "s1.jsonl").unlink()
    assert usage("sessions")["total"]["requests"] <= 2, "a file that is gone"


def test_what_could_not_be_indexed_is_not_taken_for_known(
    projects: Path, usage: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_job: object) -> None:
        raise StorageError("the disk is full", hint="Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(index_job.IndexJob, "_work", fail)
        assert main(["usage"]) == 2
    assert "the disk is full" in capsys.readouterr().err
    assert usage()["total"]["requests"] == 1


def test_another_environment_replaces_what_is_remembered(
    projects: Path, usage: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        monkeypatch.setenv("SOME_TOOL_HOME", name)
        assert usage()["total"]["requests"] == 1
    with closing(sqlite3.connect(find_index())) as db:
        assert db.execute("select count(*) from snapshots").fetchone() == (1,)


def test_the_second_time_no_importer_is_loaded(projects: Path) -> None:
    code = (
        "import sys; from turnscope.cli import main; main(['usage', '--csv']);"
        "print([name for name in sys.modules if name.startswith('turnscope.importers') or name == 'numpy'], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    first, second = (run_process(command, capture_output=True, text=True, check=True, env=dict(os.environ)) for _ in range(2))
    assert first.stdout == second.stdout
    assert len(second.stdout.splitlines()) == 2
    assert first.stderr.strip() != "[]"
    assert second.stderr.strip() == "[]"


def test_paths_are_counted_alone_and_what_cannot_be_read_is_said(
    projects: Path, tmp_path: Path, usage: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "others"
    write_session(folder / "s9.jsonl", "nine", answers=2)
    (folder / "broken.jsonl").write_text('{"type": "user", "uuid": 3', encoding="utf-8")
    made = usage("daily", str(folder))
    assert (made["total"]["requests"], made["unread_files"]) == (2, 1)
    assert main(["usage", "daily", str(folder)]) == 0
    assert "1 of 2 files could not be read" in capsys.readouterr().err
    assert usage("daily")["total"]["requests"] == 1, "and these are not among what tools keep here"
    assert main(["usage", "daily", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("wrong", [["--since", "2026-13-01"], ["--timezone", "Mars"], ["yearly"]])
def test_wrong_wishes_are_named(wrong: list[str], data_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", *wrong]) == 2
    assert wrong[-1] in capsys.readouterr().err


def test_days_are_chosen(projects: Path, usage: Callable[..., dict[str, Any]]) -> None:
    assert usage("--since", DAY, "--until", "20260102", "--timezone", "UTC")["total"]["requests"] == 1
    assert usage("--since", "2026-01-03", "--timezone", "UTC")["total"]["requests"] == 0


def test_the_tokens_of_real_sessions_are_those_that_a_plain_reading_finds(
    data_folder: Path, usage: Callable[..., dict[str, Any]]
) -> None:
    folder = shared("data", "open", "claude-code")
    billed = [record["message"]["usage"] for record in find_billed(sorted(folder.rglob("*.jsonl"))).values()]
    total = usage("daily", str(folder))["total"]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert (
        total["input_tokens"],
        total["cache_write_5m_tokens"] + total["cache_write_1h_tokens"],
        total["cache_read_tokens"],
    ) == tuple(sum(each.get(name, 0) for each in billed) for name in names)
    assert total["output_tokens"] >= sum(each["output_tokens"] for each in billed), "some are counted: the log cannot be right"


def test_the_difference_to_ccusage_is_the_one_that_the_documentation_states(
    data_folder: Path, usage: Callable[..., dict[str, Any]]
) -> None:
    """ccusage takes the first line of each message; the last one has the output, if any has."""
    paths = sorted(shared("data", "open", "claude-code").rglob("*.jsonl"))
    first: dict[tuple[Any, Any], dict[str, Any]] = {}
    for record in (record for path in paths for record in records(path)):
        message = record.get("message")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            first.setdefault((message["id"], record.get("requestId")), message["usage"])
    last = [record["message"]["usage"] for record in find_billed(paths).values()]
    total = usage("daily", str(shared("data", "open", "claude-code")))["total"]
    begun, ended = (sum(each["output_tokens"] for each in found) for found in (first.values(), last))
    written = total["cache_write_5m_tokens"] + total["cache_write_1h_tokens"]
    found = (total["input_tokens"], written, total["cache_read_tokens"])
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert found == tuple(sum(each.get(name, 0) for each in first.values()) for name in names)
    text = (Path(turnscope.__file__).parent / "docs" / "command-line.md").read_text("utf-8")
    for number in (ended - begun, total["output_tokens"] - ended, total["cache_write_1h_tokens"]):
        assert f"| {number:,} tokens" in text
    assert f"real sessions, {total['requests']:,} requests" in text
