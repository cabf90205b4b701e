"""The file or folder that a session of a fleet was read from, on this machine: where it lies, else a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from turnscope.errors import TurnscopeError
from turnscope.fleet.sources import SourceUnit, find_source, join_path, name_root
from turnscope.fleet.storage import open_storage, report_errors
from turnscope.settings import find_library_file

FOLDER = "fleet-sources"
MOST_BYTES = 2_000_000_000
CHUNK = 4_000_000
HASHED = "its path is hashed in the tables"


def fetch_source(url: str, progress: Callable[[float], object] = lambda _share: None, folder: Path | None = None) -> Path:
    """Find the file or folder of a session; one that lies elsewhere is copied once, with the files that belong to it.

    Args:
        url: where it was read, as the tables have it.
        progress: called with the share that is copied.
        folder: where copies lie; None = in the data folder.

    Raises:
        TurnscopeError: the URL is hashed, the file is gone or too large, or it cannot be read.
    """
    if "://" not in url and "/" not in url and "\\" not in url:
        raise TurnscopeError("the session cannot be opened from here", hint=f"{HASHED.capitalize()}.")
    storage = open_storage(url)
    if storage.is_local:
        path = Path(storage.root)
        if not path.exists():
            raise TurnscopeError(f"{path} is not on this machine", hint="Open it where the tables were made.")
        return path
    unit = find_source(url)
    if unit.size > MOST_BYTES:
        raise TurnscopeError(f"{url} has {unit.size / 1e9:,.1f} GB", hint="Copy it to this machine and open it by its path.")
    to = (folder or find_library_file(FOLDER)) / sha256(f"{url}\0{unit.stamp}".encode()).hexdigest()[:16]
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=to.parent) as part:
            _copy(unit, Path(part, "whole"), progress)
            with suppress(OSError):  # another process was as fast
                Path(part, "whole").rename(to)
    return name_root(to, open_storage(unit.root).root) / unit.main


def _copy(unit: SourceUnit, folder: Path, progress: Callable[[float], object]) -> None:
    """Copy the files of a source below a folder, for the owner's eyes only: who may read the store need not read this disk."""
    storage, done = open_storage(unit.root), 0
    for file in unit.files:
        path, target = storage.join(file.path), join_path(name_root(folder, storage.root), file.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with report_errors(storage.make_url(path), "read"), storage.fs.open(path, "rb") as source, target.open("wb") as out:
            target.chmod(0o600)
            while chunk := source.read(CHUNK):
                done += out.write(chunk)
                progress(min(1.0, done / max(1, unit.size)))
