"""Whether anything below some folders has changed: a digest of names, sizes and times, without reading a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

SHARED_MEMORY = "-shm"  # end of the name of a file that SQLite changes while a database is read


def digest_folders(folders: Iterable[str]) -> str:
    """Return a text that changes when a file below the folders is made, changed or removed.

    Args:
        folders: Paths of folders or files. One that is absent counts as such.
    """
    digest = blake2b(digest_size=16)
    for folder in folders:
        digest.update(f"{folder}\0".encode("utf-8", "surrogateescape"))
        for line in _iter_files(folder):
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _iter_files(path: str) -> Iterator[str]:
    """Each file below a path with its size and time, in a fixed order. What cannot be read counts as absent."""
    try:
        with os.scandir(path) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except NotADirectoryError:
        status = Path(path).stat()
        yield f"{status.st_size}:{status.st_mtime_ns}\0"
        return
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir():
                yield from _iter_files(entry.path)
            elif not entry.name.endswith(SHARED_MEMORY):
                status = entry.stat()
                yield f"{entry.path}:{status.st_size}:{status.st_mtime_ns}\0"
        except OSError:
            continue
