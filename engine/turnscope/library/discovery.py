"""Finds every path in a folder that opens as a session, by names only. Reads no file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from turnscope.reading.registry import find_session_path, find_suffixes


def find_sources(folder: Path) -> Iterator[Path]:
    """Yield the paths under which the contents of a folder open, each once; a file is its own path. Hidden folders are left
    out.
    """
    if not folder.is_dir():
        yield folder
        return
    wanted, seen = find_suffixes(), set[Path]()
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix in wanted and (path := find_session_path(Path(at, name))) not in seen:
                seen.add(path)
                yield path
