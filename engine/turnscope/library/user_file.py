"""A small JSON file in the data folder that the user's own choices lie in: written whole, and checked when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from turnscope.atomic_file import replace_file
from turnscope.errors import BrokenFile

T = TypeVar("T")


def read_file(file: Path, shape: type[T], lost: str) -> T:
    """Read a file; an empty value of its type where there is none.

    Args:
        file: the file.
        shape: type of what it holds.
        lost: what is lost when it is deleted, for the hint of an error.

    Raises:
        BrokenFile: it holds something else.
    """
    if not file.is_file():
        return shape()
    try:
        return msgspec.json.decode(file.read_bytes(), type=shape)
    except (OSError, msgspec.DecodeError) as error:
        raise BrokenFile(f"{file.name} cannot be read: {error}", hint=f"Repair or delete {file}; {lost}.") from error


def write_file(file: Path, value: object) -> None:
    """Write a file, or nothing of it where that fails.

    Args:
        file: the file.
        value: what it will hold.

    Raises:
        TurnscopeError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as part:
        part.chmod(0o600)
        part.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
