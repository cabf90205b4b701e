"""A file takes its place when it is complete; until then, and where anything fails, what was there stays."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from turnscope.atomic_file import replace_file
from turnscope.errors import TurnscopeError


def write(path: Path, text: str) -> None:
    with replace_file(path) as part:
        assert part.parent == path.resolve().parent
        part.write_text(text)


def test_the_file_is_there_at_the_end_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for text in ("one", "two"):
        with replace_file(file) as part:
            part.write_text(text)
            assert not file.exists() or file.read_text() == "one"
        assert file.read_text() == text
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_was_there_stays_where_anything_fails(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "file"
    write(file, "before")
    with pytest.raises(error), replace_file(file) as part:
        _fail(part, error)
    assert file.read_text() == "before"
    assert [*tmp_path.iterdir()] == [file]


def test_no_folder_is_made_and_none_is_replaced(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none" / "file", "there is no folder"), (tmp_path, "is a folder")):
        with pytest.raises(TurnscopeError, match=why) as error:
            write(path, "")
        assert error.value.hint
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_is_an_error_about_the_file_and_another_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match=r"file cannot be written: No space left"), replace_file(tmp_path / "file"):
        raise OSError(28, "No space left on device")
    with pytest.raises(FileNotFoundError), replace_file(tmp_path / "file"):
        Path(tmp_path, "other").read_bytes()
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
def test_links_modes_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    write(file, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask()
    file.chmod(0o640)
    link.symlink_to(file)
    write(link, "text")
    assert (link.is_symlink(), file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (True, "text", 0o640)
    with replace_file(Path(os.devnull)) as part:
        assert part == Path(os.devnull)


def _fail(part: Path, error: type[BaseException]) -> None:
    part.write_text("half")
    raise error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
