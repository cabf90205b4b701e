"""Each tool of `turnscope mcp`, called by a client of the SDK: once over standard input and output, else in this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log
from formats import database
from importers import test_cursor as cursor
from importers import test_goose as goose
from turnscope.cli import main
from turnscope.mcp import project_sessions
from turnscope.mcp.questions import CHARACTERS
from turnscope.reading.contents import read_entry

mcp = pytest.importorskip("mcp")

SECRET = "turnstile_gate_417"
Calls = Sequence[tuple[str, dict[str, Any]]]


@pytest.fixture
def home(data_folder: Path) -> Path:
    return data_folder.parent / "home"


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    log = Log(session="s1")
    log.user("look at both files", cwd=str(folder))
    for n in range(2):
        call = {"type": "tool_use", "id": f"c{n}", "name": "Read", "input": {"file_path": "/a.py"}}
        log.answer(f"m{n}", call, usage=(10, 2_000, 3_000, 40))
        log.result(f"c{n}", f"lines of a file with {SECRET} in them " * 200)
    log.answer("m2", "I have read it.", usage=(10, 4_000, 5_000, 40))
    log.user("and now the rest")
    log.answer("m3", "done", usage=(10, 20, 9_000, 40))
    save(log, home, "s1", folder)
    return folder


def save(log: Log, home: Path, name: str, folder: Path) -> Path:
    lines = [{**line, "cwd": str(folder)} for line in log.lines]
    path = home / ".claude" / "projects" / name / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def start(project: Path) -> Any:
    """The command as a process."""
    command = ["-m", "turnscope", "mcp", "--project", str(project)]
    return mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ)))


def ask(project: Path, calls: Calls, session: str = "", server: Any = None) -> Iterator[tuple[bool, Any]]:
    """Call tools; gives of each whether it failed, and its answer."""
    from turnscope.mcp.server import build_server

    async def run() -> list[tuple[bool, Any]]:
        found: list[tuple[bool, Any]] = []
        async with mcp.Client(server or build_server(project, session)) as client:
            listed = (await client.list_tools()).tools
            assert all(tool.annotations.read_only_hint for tool in listed)
            for name, given in calls:
                done = await client.call_tool(name, given)
                text = done.content[0].text
                found.append((bool(done.is_error), text if done.is_error else json.loads(text)))
        return found

    return iter(asyncio.run(run()))


def test_answers_are_those_of_the_app(project: Path, home: Path) -> None:
    view = turnscope.overview(turnscope.load(next(home.rglob("s1.jsonl"))))
    calls: Calls = [("context_fill", {}), ("cost_so_far", {}), ("removable_results", {}), ("compaction_losses", {})]
    (_, fill), (_, cost), (_, spare), (_, cuts) = ask(project, calls, server=start(project))
    assert (fill["session"], fill["request"], fill["prompt_tokens"]) == ("s1", 4, view.get_prompt(3))
    assert fill["fill"] == pytest.approx(float(view.fill[3]), abs=1e-4)
    assert sum(fill["parts"].values()) == view.get_prompt(3)
    assert cost["usd"] == pytest.approx(float(view.total or 0), abs=1e-6)
    assert cost["requests"] == 4
    first = spare["results"][0]
    assert first["why"].startswith("it was read again")
    assert first["tokens"] > 500
    assert cuts["cuts"] == []


def test_a_text_that_left_is_found_and_given_back(project: Path, home: Path) -> None:
    log = Log(session="s2")
    log.user("read it")
    log.answer("n0", {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "/a.py"}}, usage=(10, 2_000, 0, 40))
    log.result("c", f"before {SECRET} after " + "x" * CHARACTERS)
    log.answer("n1", "read", usage=(10, 9_000, 0, 40))
    log.compact("We read a file.")
    log.user("go on")
    log.answer("n2", "yes", usage=(10, 900, 0, 40))
    save(log, home, "s2", project)
    calls: Calls = [
        ("find_removed_text", {"text": SECRET.upper(), "session_id": "s2"}),
        ("compaction_losses", {"session_id": "s2"}),
    ]
    (_, found), (_, lost) = ask(project, calls)
    assert found["matches"] == 1
    hit = found["hits"][0]
    assert "left at request 3" in hit["why"]
    assert hit["address"] in {at for item in lost["addresses"] for at in item["addresses"]}
    assert "We read a file." in lost["what_was_lost"]
    calls = [("read_block", {"address": hit["address"]}), ("read_block", {"address": hit["address"], "offset": CHARACTERS})]
    (_, text), (_, rest) = ask(project, calls, "s2")
    assert text["text"].startswith(f"before {SECRET} after")
    assert (len(text["text"]), text["next_offset"], rest["next_offset"]) == (CHARACTERS, CHARACTERS, None)
    assert len(text["text"] + rest["text"]) == text["characters"]


def test_other_projects_are_not_given_away(project: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "my project of someone else"
    log = Log(session="s3")
    log.user(f"the folder {json.dumps(str(project))} is named here, but this is another project")
    log.answer("o0", "yes", usage=(10, 900, 0, 40))
    path = save(log, home, "s3", other)
    calls: Calls = [
        ("context_fill", {"session_id": "s3"}),
        ("context_fill", {"session_id": "../s3/s3"}),
        ("context_fill", {"session_id": str(path)}),
        ("context_fill", {"session_id": "none"}),
        ("context_fill", {}),
    ]
    *refused, (failed, mine) = ask(project, calls)
    assert all(wrong and "has no session" in text for wrong, text in refused)
    assert "s3" not in refused[-1][1]
    assert (failed, mine["session"]) == (False, "s1"), "the one written last is another project's"


def test_sessions_in_databases_that_all_projects_share_are_found(project: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "another project"
    sessions: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for name, folder, year in (("mine", project / "below", 2090), ("theirs", other, 2091)):
        sessions.append({**goose.HEAD, "id": name, "working_dir": str(folder), "updated_at": f"{year}-01-01 00:00:09"})
        for n, row in enumerate(goose.MADE):
            about = {"id": f"{name}{n}", "session_id": name, "role": row["role"], "created_timestamp": row["created"]}
            messages.append({**about, "content_json": row["content"], "metadata_json": row["metadata"]})
    place = home / ".local" / "share" / "goose" / "sessions"
    place.mkdir(parents=True)
    database(place / "sessions.db", {"sessions": sessions, "messages": messages})
    calls: Calls = [
        ("context_fill", {}),
        ("context_fill", {"session_id": "mine"}),
        ("context_fill", {"session_id": "theirs"}),
        ("context_fill", {"session_id": "s1"}),
    ]
    (_, last), (_, mine), (wrong, theirs), (_, of_claude) = ask(project, calls)
    assert last["session"] == mine["session"] == "mine", "it was written last"
    assert of_claude["session"] == "s1"
    assert wrong
    assert "has no session" in theirs
    ((_, there),) = ask(other, [("context_fill", {})])
    assert there["session"] == "theirs"


def test_a_database_is_read_once_until_it_changes(project: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations are read only where their list names no project, and no more than a few."""
    chats = [{**chat, "composerId": f"o{n}"} for n in range(5) for chat in cursor.OLD["allComposers"][:1]]
    place = data_folder / "Cursor" / "User" / "workspaceStorage" / "w"
    place.mkdir(parents=True)
    database(place / "state.vscdb", {"ItemTable": [{"key": "composer.composerData", "value": {"allComposers": chats}}]})
    read: list[str] = []

    def count(source: Any, entry: str) -> Any:
        read.append(entry)
        return read_entry(source, entry)

    monkeypatch.setattr(project_sessions, "read_entry", count)
    monkeypatch.setattr(project_sessions, "MOST_READ", 3)
    sessions = project_sessions.ProjectSessions(project)
    assert [sessions.open().session.id for _ in range(2)] == ["s1", "s1"]
    assert len(read) == 3
    (place / "workspace.json").write_text(json.dumps({"folder": project.as_uri()}))
    found = project_sessions.ProjectSessions(project).open("o4")
    assert found.session.about["workspace"] == str(project)
    assert len(read) == 3, "the file beside the database names the project"


def test_what_is_wrong_is_one_sentence(project: Path, home: Path) -> None:
    calls: Calls = [
        ("read_block", {"address": 10_000}),
        ("read_block", {"address": -1}),
        ("compaction_losses", {"number": 7}),
        ("find_removed_text", {"text": "(", "regex": True}),
        ("find_removed_text", {"text": ""}),
    ]
    answers = [*ask(project, calls)]
    assert [wrong for wrong, _ in answers] == [True, True, False, True, True]
    assert "there is no block 10000" in answers[0][1]
    empty = home.parent / "empty"
    empty.mkdir()
    ((wrong, text),) = ask(empty, [("context_fill", {})])
    assert wrong
    assert "no session of" in text


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "turnscope.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert main(["mcp"]) == 2
    assert "pip install 'turnscope[mcp]'" in capsys.readouterr().err
