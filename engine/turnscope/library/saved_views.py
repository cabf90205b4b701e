"""Views of the library that the user saved: a name, and the filters and the order behind it.

{"Expensive": {"least": "10", "sort": "cost"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from turnscope.errors import TurnscopeError
from turnscope.library.user_file import read_file, write_file
from turnscope.settings import find_library_file

MAX_VIEWS = 30
MAX_CHARACTERS = 40  # of a name


def read_views(path: Path | None = None) -> dict[str, dict[str, str]]:
    """Read the saved views by name, in the order they were saved.

    Args:
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
    """
    return read_file(path or find_library_file("views.json"), dict[str, dict[str, str]], "saved views are then gone")


def save_view(name: str, query: Mapping[str, str], path: Path | None = None) -> None:
    """Save a view, in place of the one of that name.

    Args:
        name: its name.
        query: filters and order, as the address of the library has them.
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
        TurnscopeError: it has no name, there are too many, or the file cannot be written.
    """
    name = " ".join(name.split())[:MAX_CHARACTERS]
    if not name:
        raise TurnscopeError("a view needs a name", hint="Type one.")
    views = read_views(path) | {name: dict(query)}
    if len(views) > MAX_VIEWS:
        raise TurnscopeError(f"there are {MAX_VIEWS} views already", hint="Delete one of them first.")
    write_file(path or find_library_file("views.json"), views)


def delete_view(name: str, path: Path | None = None) -> None:
    """Delete a view, if there is one of that name.

    Args:
        name: its name.
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
        TurnscopeError: it cannot be written.
    """
    views = read_views(path)
    if views.pop(name, None) is not None:
        write_file(path or find_library_file("views.json"), views)
