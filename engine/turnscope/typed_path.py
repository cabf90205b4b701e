"""Paths that a person types: in a field of a page, or on the command line."""

from __future__ import annotations

import os
from pathlib import Path

from turnscope.errors import UnreadableFile, describe_path

HINT = "Check the path."


def parse_path(text: str) -> Path:
    """Return a path that a person typed, after `~` and all links. What it leads to need not exist.

    Args:
        text: The path.

    Raises:
        UnreadableFile: It leads to no place: a link to itself, a name that no file can have, a user that is not known.
    """
    try:
        path = Path(text).expanduser().resolve()
        path.exists()
        os.fsencode(path)
    except RuntimeError:  # of a link and of a user; Python gives both no other error
        what = "its home folder is not known" if text.startswith("~") else "a link in it leads to itself"
        raise UnreadableFile(f"{describe_path(text)} leads nowhere: {what}", hint=HINT) from None
    except (OSError, ValueError) as error:
        what = (error.strerror if isinstance(error, OSError) else None) or "no file can have this name"
        raise UnreadableFile(f"{describe_path(text)} leads nowhere: {what}", hint=HINT) from None
    return path
