"""Where sessions may lie: every path in a folder that opens as one, by names alone. No file is read for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from turnscope.reading.registry import find_session_path, find_suffixes


def find_sources(folder: Path) -> Iterator[Path]:
    """The paths under which what lies in a folder opens, each once; a file alone is one. Hidden folders are left out."""
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
