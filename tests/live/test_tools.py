"""The chat's tools read inside one folder and nowhere else, and never hang."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from turnscope.live import tools
from turnscope.live.tools import MAX_FILE_BYTES, Toolbox


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("def alpha():\n    return 42\n")
    (folder / "sub" / "b.txt").write_text("Alpha again\n")
    (tmp_path / "secret.txt").write_text("secret")
    return Toolbox(folder)


def test_files_of_the_folder_are_read_listed_and_searched(box: Toolbox) -> None:
    assert box.run("read_file", {"path": "a.py"}) == ("def alpha():\n    return 42\n", False)
    assert box.run("list_files", {"path": "."}) == ("a.py\nsub/", False)
    assert box.run("search_files", {"query": "ALPHA"}) == ("a.py:1: def alpha():\nsub/b.txt:1: Alpha again", False)


@pytest.mark.parametrize(
    "path", ["../secret.txt", "../../etc/passwd", "/etc/passwd", "sub/../../secret.txt", "a\x00b", "link", "sub/up/secret.txt"]
)
def test_nothing_outside_the_folder_is_read(box: Toolbox, path: str) -> None:
    (box.folder / "link").symlink_to(box.folder.parent / "secret.txt")
    (box.folder / "sub" / "up").symlink_to(box.folder.parent)
    text, failed = box.run("read_file", {"path": path})
    assert failed
    assert "secret" not in text.replace("secret.txt", "")
    assert box.run("search_files", {"query": "secret"}) == ("(nothing found)", False)


@pytest.mark.parametrize(("tool", "path"), [("read_file", "sub/b.txt"), ("list_files", "sub"), ("search_files", "")])
def test_a_folder_that_becomes_a_link_after_the_check_is_not_left(
    box: Toolbox, tool: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = box.folder.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("secret")
    before = tools._open_inside

    def swap(root: Path, parts: Sequence[str]) -> AbstractContextManager[int]:
        if not (box.folder / "sub").is_symlink():
            (box.folder / "sub").rename(box.folder.parent / "aside")
            (box.folder / "sub").symlink_to(outside)
        return before(root, parts)

    monkeypatch.setattr(tools, "_open_inside", swap)
    text, failed = box.run(tool, {"path": path, "query": "secret"})
    assert text == "(nothing found)" if tool == "search_files" else failed
    assert "b.txt" not in text


def test_a_pipe_does_not_hang_and_a_huge_file_is_cut(box: Toolbox) -> None:
    os.mkfifo(box.folder / "pipe")
    assert box.run("read_file", {"path": "pipe"}) == ("that is not a regular file", True)
    with (box.folder / "huge.txt").open("wb") as file:
        file.truncate(2 << 30)
        file.write(b"x" * 10_000)
    assert box.run("read_file", {"path": "huge.txt"})[0].endswith(f"of {2 << 30:,} bytes]")
    (box.folder / "long.txt").write_text("y" * (MAX_FILE_BYTES + 5))
    text, failed = box.run("read_file", {"path": "long.txt"})
    assert not failed
    assert text.endswith(f"[cut: the first {MAX_FILE_BYTES:,} of {MAX_FILE_BYTES + 5:,} bytes]")
    assert box.run("search_files", {"query": "alpha"})[0].startswith("a.py:1")


@pytest.mark.parametrize(
    ("expression", "value"), [("2 + 3*4", "14"), ("(1+2)/4", "0.75"), ("-7 // 2", "-4"), ("2**10 % 7", "2")]
)
def test_the_calculator_calculates(box: Toolbox, expression: str, value: str) -> None:
    assert box.run("calculate", {"expression": expression}) == (value, False)


@pytest.mark.parametrize("expression", ["__import__('os')", "9**9**9", "1/0", "a", "'x'*9", "(" * 500, "9" * 400 + "**300", ""])
def test_the_calculator_refuses_everything_else(box: Toolbox, expression: str) -> None:
    assert box.run("calculate", {"expression": expression})[1]


def test_an_unknown_tool_and_a_missing_file_are_results(box: Toolbox) -> None:
    assert box.run("rm", {"path": "a.py"})[1]
    assert box.run("read_file", {"path": "none.py"}) == ("there is no none.py", True)
    assert box.run("read_file", {})[1]


def test_tools_read_the_argument_that_they_declare(box: Toolbox) -> None:
    assert box.run("read_file", {"why": "b.txt", "path": "a.py"}) == ("def alpha():\n    return 42\n", False)
    assert box.run("calculate", {"expression": 7}) == ("7", False)
    for given in ({"file": "a.py"}, {"path": None}, {"path": ["a.py"]}, {"path": True}):
        assert box.run("read_file", given) == ("read_file needs 'path', a text", True)


def test_the_calculator_refuses_what_it_would_have_to_cut(box: Toolbox) -> None:
    long = "+".join(["1"] * 501)
    text, failed = box.run("calculate", {"expression": long})
    assert failed
    assert "nothing was worked out" in text
    assert box.run("calculate", {"expression": long[2:]}) == ("500", False)
