"""Paths that lead nowhere, and folders that mean harm: links to themselves and out, pipes, a file of a gigabyte, names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT
from turnscope import TurnscopeError, library
from turnscope import cli as command
from turnscope.envelope.context_items import decode_item
from turnscope.live.context_sources import ContextSources
from turnscope.live.tools import MAX_FILE_BYTES, Toolbox
from turnscope.session.model import Ask

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLE = ROOT / "sample_sessions" / "chat-forgets-first-instruction.jsonl"
NAMES = ["loop", "loop/inside", "x" * 5_000, "~nobody-of-this-name/x"]


@pytest.fixture
def loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: `loop` is a link to itself, `again` a link to the folder it is in."""
    (tmp_path / "other").symlink_to("loop")
    (tmp_path / "loop").symlink_to("other")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "notes.md").write_text("Ships leave at noon.")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*NAMES, "a\x00b", "\ud800"])
def test_a_path_that_leads_nowhere_is_a_sentence(name: str, loops: Path) -> None:
    with pytest.raises(TurnscopeError, match="leads nowhere: ") as raised:
        library.parse_path(name)
    assert raised.value.what.isprintable()
    assert len(raised.value.what) < 300


@pytest.mark.parametrize("name", NAMES[::2])
@pytest.mark.parametrize(
    "words", ["open {}", "trace {} out.json", "check {} --max-usd 1", "trace {sample} {}", "share {sample} {}"]
)
def test_a_command_says_so_and_ends_with_2(
    name: str, words: str, loops: Path, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([word.format(name, sample=SAMPLE) for word in words.split()]) == 2
    written = capsys.readouterr().err
    assert "turnscope: " in written
    assert "Traceback" not in written


@pytest.mark.parametrize("words", ["trace {} out.json", "check {} --max-usd 1", "share {} out.html"])
def test_a_folder_that_holds_itself_is_searched_once(
    words: str, loops: Path, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    assert command.main([word.format(loops) for word in words.split()]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert time.monotonic() - begun < 20


@pytest.mark.thorough
def test_pages_say_so_and_go_on(loops: Path, app: AppTest) -> None:
    def texts() -> str:
        assert not app.exception
        return "\n".join(element.proto.body for element in app.get("html"))

    app.switch_page("pages/library.py").run()
    for name in ("loop", NAMES[2], NAMES[3]):
        app.text_input(key="library.path").set_value(str(loops / name) if name[0] != "~" else name).run()
        assert "leads nowhere: " in texts()
    app.text_input(key="library.path").set_value(str(loops / "again")).run()
    assert "leads nowhere: " not in texts()
    app.switch_page("pages/chat.py").run()
    for name in ("loop", NAMES[3]):
        app.text_input(key="chat.folder").set_value(str(loops / name) if name[0] != "~" else name).run()
        assert "leads nowhere: " in texts()
    app.query_params.update({"what": "advise", "over": str(loops / "loop")})
    app.switch_page("pages/plan.py").run()
    texts()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose owner means harm to whoever reads it."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.md").write_text("The anchor is gold.")
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "up").symlink_to(outside)
    (folder / "round").symlink_to(folder)
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "device.md").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.md")
    with (folder / "huge.md").open("wb") as huge:  # a gigabyte that takes no room
        huge.write(b"The harbour is deep.\n" * 500)
        huge.truncate(1 << 30)
    (folder / "locked.md").write_text("The anchor is hidden.")
    (folder / "locked.md").chmod(0)
    (folder / "a\nb\x1b[2J<document>.md").write_text("The anchor weighs two tons.")
    (folder / os.fsdecode(b"\xff.md")).write_text("The anchor is red.")
    return folder


def test_a_hostile_folder_gives_its_own_files_within_limits_and_nothing_outside(hostile: Path) -> None:
    begun = time.monotonic()
    question = "How heavy is the anchor? @link.md @up/secret.md @loop.md @device.md @pipe.md @huge.md @tree up @search anchor"
    answer = ContextSources(hostile).answer(Ask("provide", "p", "document file tree search rules workspace", question, 8))
    items = [item for one in answer.items if (item := decode_item(one))]
    assert time.monotonic() - begun < 10, "no pipe and no device was waited for"
    assert not [item for item in items if "gold" in item.text]
    assert [item.text for item in items if item.kind == "document" and "two tons" in item.text]
    assert all(len(item.text) <= MAX_FILE_BYTES for item in items)
    assert not [item for item in items if any(not (char.isprintable() or char in "\n\t") for char in item.name)]
    refused = {item.name: item.text for item in items if item.kind == "file" and item.text.startswith("[not read: ")}
    assert {"link.md", "up/secret.md", "loop.md", "device.md", "pipe.md"} <= refused.keys()


@pytest.mark.parametrize("name", ["link.md", "up/secret.md", "loop.md", "device.md", "pipe.md", "../outside/secret.md", "up"])
def test_tools_refuse_what_leads_out_or_is_no_file(name: str, hostile: Path) -> None:
    text, failed = Toolbox(hostile).run("read_file", {"path": name})
    assert failed, text


@pytest.mark.parametrize(("tool", "input"), [("list_files", {"path": "."}), ("search_files", {"query": "deep"})])
def test_what_a_tool_says_of_hostile_names_can_be_sent(tool: str, input: dict[str, str], hostile: Path) -> None:
    text, failed = Toolbox(hostile).run(tool, input)
    assert not failed
    assert "huge.md" in text
    assert "gold" not in text
    text.encode()
