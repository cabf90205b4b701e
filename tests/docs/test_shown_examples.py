"""What the documentation shows is true: its commands, its Python and its policy; and where tools keep their files."""

from __future__ import annotations

import inspect
import io
import json
import re
import shlex
import shutil
import sys
import zipfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import ROOT
from turnscope.cli import context, main, tap
from turnscope.cli import open as opening
from turnscope.importers import Importer, Place
from turnscope.planning.policy import parse
from turnscope.reading.registry import find_importers
from turnscope.settings import Machine
from turnscope.tap import server as tap_server
from turnscope.telemetry import sending

DOCS = ROOT / "engine" / "turnscope" / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SAMPLE = ROOT / "sample_sessions" / "thinking-grows.jsonl"
OPENED = (
    "session.jsonl",
    "calls.jsonl",
    "conversation.json",
    "trace.json",
    "run.traj",
    "log.eval",
    "webui.db",
    "sessions.db",
    "state.vscdb",
    "store.db",
    "threads.db",
    "data.sqlite3",
    "transcript_full.jsonl",
    ".specstory/history/session.jsonl",
    "chat.json",
    "output.jsonl",
    ".crush/crush.db",
    ".aider.chat.history.md",
    "compare",
)
APP = 7  # exit code of what stands in the app's place
TILDE = re.compile(r"`(?:turnscope )?~/([^`]+)`")


def list_blocks(page: Path) -> Iterator[str]:
    """The indented blocks of a page, one after the other."""
    lines = page.read_text("utf-8").splitlines()
    for indented, block in groupby(lines, lambda line: line.startswith("    ")):
        if indented:
            yield "\n".join(line[4:] for line in block)


def list_commands() -> Iterator[tuple[str, str]]:
    """Each command that a page shows, with the page's name; without what installs something or needs a home or a store."""
    for page in PAGES:
        for block in list_blocks(page):
            for line in block.splitlines():
                if re.search(r"(^|\| )turnscope( |$)", line) and not re.search(" ~/| s3://", line):
                    yield page.stem, line
        for line in re.findall(r"`(turnscope [^`]*)`", page.read_text("utf-8")):
            if not re.search(r"[A-Z]{2}|~/|\./| open ", line):  # a usage line with words to fill in, or a place of a tool
                yield page.stem, line


COMMANDS = sorted(set(list_commands()))


@pytest.fixture
def files(tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of the names that the pages show, in which the test runs. Neither the app nor a tool is started."""
    monkeypatch.setattr(opening, "serve", lambda *_: APP)
    monkeypatch.setattr(tap_server, "run_command", lambda *_: APP)
    monkeypatch.setattr(tap, "wait_until_interrupted", lambda: None)
    monkeypatch.setattr(tap, "PORT", 0)
    monkeypatch.setattr(context, "wait", stop)
    monkeypatch.setattr(sending, "send_spans", lambda spans, *_: len(spans))
    kept = data_folder.parent / "home" / ".claude" / "projects" / "p" / "session.jsonl"
    kept.parent.mkdir(parents=True)
    shutil.copy(SAMPLE, kept)
    folder = tmp_path / "work"
    for name in ("runs/latest.jsonl", "logs/a.jsonl", *OPENED):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE, folder / name)
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi"]}}
    chat = {"title": "Hi", "id": "6f1c", "current_node": "m", "mapping": {"m": {"id": "m", "message": said, "children": []}}}
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([chat, {**chat, "id": "6f1d"}]))
    monkeypatch.chdir(folder)
    return folder


def stop() -> None:
    """End a command that would go on until Ctrl-C."""
    raise click.exceptions.Exit(0)


def split(shown: str) -> list[str]:
    """The words of the one Turnscope command in a line: without what comes before and after it in a pipe, or goes to a file."""
    for command in shown.split(" | "):
        words = shlex.split(command, comments=True)
        if words[0] == "turnscope":
            return words[1 : words.index(">") if ">" in words else None]
    raise ValueError(f"no command in {shown!r}")


def test_there_are_commands_to_run() -> None:
    assert len(COMMANDS) > 25


@pytest.mark.thorough(every=2)
@pytest.mark.parametrize(("page", "shown"), COMMANDS)
def test_a_shown_command_does_what_it_says(
    page: str, shown: str, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [{"FILE": "session.jsonl", "a,b": "balanced"}.get(word, word) for word in split(shown)]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.read_bytes())))
    code = main(words)
    assert code in (0, 1, APP), capsys.readouterr().err  # 1: the answer is no


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "library.md"], ids=lambda page: page.stem)
def test_shown_python_runs(page: Path, files: Path) -> None:
    shown = [block for block in list_blocks(page) if block.startswith("import turnscope")]
    assert shown
    for block in shown:
        exec(compile(block, page.name, "exec"), {})


def test_the_shown_test_of_a_budget_calls_the_fixture_as_it_is(files: Path) -> None:
    [shown] = [block for block in list_blocks(DOCS / "library.md") if "def test_" in block]
    names: dict[str, Any] = {}
    exec(shown, names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    from turnscope.pytest_plugin import context_budget

    test(inspect.unwrap(context_budget)())


def test_the_shown_policy_loads() -> None:
    [shown] = [block for block in list_blocks(DOCS / "adding.md") if "[[rules]]" in block]
    assert parse("shown", shown).rules


def list_places(home: Path) -> Iterator[tuple[Importer, Place]]:
    """Where importers look on a machine with Linux, whether anything lies there or not."""
    machine = Machine("linux", home, home / ".config", home / ".local" / "share", {})
    return ((importer, place) for importer in find_importers() for place in importer.finds(machine))


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "tools.md"], ids=lambda page: page.stem)
def test_tools_are_looked_for_where_the_pages_say(page: Path) -> None:
    """Each place below the home folder that a page names is one that the Library looks into, is inside it or around it."""
    home = Path("/home/someone")
    places = [place.folder for _, place in list_places(home)]
    named = {home / re.split(r"/?[*<]", place)[0] for place in TILDE.findall(page.read_text("utf-8"))}
    assert len(named) > 3
    assert [str(name) for name in named if not any(name.is_relative_to(at) or at.is_relative_to(name) for at in places)] == []


def test_every_tool_that_is_looked_for_is_on_the_page_of_tools() -> None:
    text = (DOCS / "tools.md").read_text("utf-8").lower().replace("traces", "trace")
    named = {importer.title.split(" (")[0].split(" or ")[0] for importer, _ in list_places(Path("/home/someone"))}
    tools = {
        re.sub(r" (session|sessions|rollout|task|thread|chat|chats|conversation|transcript|agent threads)$", "", title)
        for title in named
    }
    assert sorted(tool for tool in tools if tool.lower() not in text) == []
