"""The file that a session of a fleet was read from, on this machine: where it lies, else a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path, PurePosixPath

from turnscope.atomic_file import replace_file
from turnscope.errors import TurnscopeError
from turnscope.fleet.storage import open_storage, report_errors
from turnscope.settings import find_library_file

FOLDER = "fleet-sources"
MOST_BYTES = 2_000_000_000
CHUNK = 4_000_000
HASHED = "its path is hashed in the tables"


def fetch_source(url: str, progress: Callable[[float], object] = lambda _share: None, folder: Path | None = None) -> Path:
    """Find the file of a session; one that lies elsewhere is copied once.

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
    with report_errors(url, "read"):
        storage.fs.invalidate_cache()
        facts = storage.fs.info(storage.root)
        size, stamp = int(facts.get("size") or 0), str(facts.get("ETag") or facts.get("mtime") or facts.get("created") or "")
        if size > MOST_BYTES:
            raise TurnscopeError(f"{url} has {size / 1e9:,.1f} GB", hint="Copy it to this machine and open it by its path.")
        name = PurePosixPath(storage.root).name
        to = (folder or find_library_file(FOLDER)) / sha256(f"{url}\0{size}\0{stamp}".encode()).hexdigest()[:16] / name
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(to) as part, part.open("wb") as out, storage.fs.open(storage.root, "rb") as source:
                part.chmod(0o600)  # whoever may read the store need not be who may read this machine
                while chunk := source.read(CHUNK):
                    out.write(chunk)
                    progress(min(1.0, out.tell() / max(1, size)))
    return to
