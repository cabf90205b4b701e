"""Finds every path in a folder that opens as a session, by names only. Reads no file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from turnscope.reading.registry import find_session_paths


def find_sources(folder: Path) -> Iterator[Path]:
    """Yield the paths under which the contents of a folder open, each once; a file is its own path. Hidden folders are left
    out.
    """
    return find_session_paths(_walk(folder)) if folder.is_dir() else iter((folder,))


def _walk(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(at, name) for name in sorted(names))
