"""Which sessions lie at a URL: files that are read together, what shows that they changed, and how they get to a disk.

A source is the path that opens as a session, with the files that belong to it by their names. Reads no session.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnscope.errors import TurnscopeError
from turnscope.fleet.rows import Owner, digest
from turnscope.fleet.storage import Storage, open_storage, report_errors
from turnscope.reading.registry import find_session_path, find_session_paths

MAGIC = frozenset("*?[")
CHUNK = 1 << 20
_PART = re.compile(r"\{(team|project|person)\}|(\*\*)|(\*)")


class StoredFile(Struct, frozen=True):
    """A file of a source. `path`: below the root; `stamp`: what changes with its content; `at`: seconds since the epoch."""

    path: str
    size: int
    stamp: str
    at: float = 0.0


class SourceUnit(Struct, frozen=True):
    """What one task reads.

    Attributes:
        id: identifies it.
        root: URL of the folder that it was found in.
        main: path that opens as its sessions, below the root; "" = the root itself.
        files: all files that are read with it.
        owner: whose it is, as far as its path says.
    """

    id: str
    root: str
    main: str
    files: tuple[StoredFile, ...]
    owner: Owner = Owner()

    @property
    def url(self) -> str:
        """Its URL; of a local one the path."""
        return f"{self.root.rstrip('/')}/{self.main}" if self.main else self.root

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def at(self) -> float:
        """When the newest of its files was written, in seconds since the epoch."""
        return max((file.at for file in self.files), default=0.0)

    @property
    def stamp(self) -> str:
        """What changes with any of its files."""
        return digest(*(f"{file.path}\0{file.size}\0{file.stamp}" for file in self.files))


def list_sources(url: str, layout: str = "", identify: Callable[[str], str] = digest) -> list[SourceUnit]:
    """List the sources at a URL, those that were written first before the others.

    Args:
        url: a folder, a file, or a pattern with `*`, `?`, `[...]` or `**`.
        layout: how paths below it say whose sessions they are, as `parse_layout` takes it; "" = they do not.
        identify: gives the id of a URL.

    Raises:
        TurnscopeError: nothing can be listed, or nothing is there.
    """
    storage, known = open_storage(url), parse_layout(layout) if layout else None
    root, found = _list_files(storage)
    if not found:
        raise TurnscopeError(f"{url} holds no file", hint="Name a folder, a file or a pattern of files.")
    base = storage.make_url(root)
    with _mirror(storage, root, found) as folder:
        units = [*_group(folder, found)]
    made = []
    for main, files in units:
        owner = find_owner(known, main) if known else Owner()
        made.append(SourceUnit(identify(f"{base.rstrip('/')}/{main}"), base, main, tuple(files), owner))
    return sorted(made, key=lambda unit: (unit.at, unit.url))


def find_source(url: str) -> SourceUnit:
    """Find what is read for the URL that a row of the tables has: a file with those that belong to it, or a folder.

    Args:
        url: a file or a folder.

    Raises:
        TurnscopeError: it cannot be listed, or no session opens there.
    """
    storage = open_storage(url)
    base, name = PurePosixPath(storage.root.rstrip("/")).parent, PurePosixPath(storage.root.rstrip("/")).name
    root, found = _list_files(storage)
    if root != str(base):  # a folder
        found = [replace(file, path=f"{name}/{file.path}") for file in found]
    with _mirror(storage, str(base), found) as folder:
        files = dict(_group(folder, found)).get(name)
    if files is None:
        raise TurnscopeError(f"{url} cannot be read: no session is there", hint="It may have been removed since it was read.")
    return SourceUnit(digest(url), storage.make_url(str(base)), name, tuple(files))


def _list_files(storage: Storage) -> tuple[str, list[StoredFile]]:
    """The root below which files lie, and the files. Hidden ones are left out."""
    fs, at = storage.fs, storage.root
    with report_errors(storage.make_url(at), "listed"):
        fs.invalidate_cache()
        if MAGIC & set(at):
            parts = PurePosixPath(at).parts
            fixed = next(n for n, part in enumerate(parts) if MAGIC & set(part))
            root, listed = str(PurePosixPath(*parts[:fixed])), fs.glob(at, detail=True)
        elif fs.isfile(at):
            root = str(PurePosixPath(at).parent)
            near = fs.find(str(PurePosixPath(at).with_suffix("")), detail=True) if PurePosixPath(at).suffix else {}
            listed = {at: fs.info(at)} | near
        else:
            root, listed = at, fs.find(at, detail=True)
    infos = ((_cut_root(path, root), info) for path, info in listed.items() if info.get("type") == "file")
    return root, [make_file(path, info) for path, info in sorted(infos) if not any(map(_is_hidden, path.split("/")))]


def _cut_root(path: str, root: str) -> str:
    return path[len(root) :].lstrip("/") if path.startswith(root) else path.lstrip("/")


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def make_file(path: str, info: Mapping[str, Any]) -> StoredFile:
    """Make the entry of a file from what fsspec says of it.

    Args:
        path: its path below the root.
        info: what `info` or `find` says.
    """
    times = (info.get(key) for key in ("mtime", "LastModified", "last_modified", "updated", "created", "modified"))
    at = next((seconds for time in times if (seconds := _to_seconds(time)) is not None), 0.0)
    tag = next((str(info[key]) for key in ("ETag", "etag", "md5Hash", "content_md5", "crc32c") if info.get(key)), "")
    return StoredFile(path, int(info.get("size") or 0), tag or f"{at!r}:{info.get('ino', '')}", at)


def _to_seconds(time: Any) -> float | None:
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if isinstance(time, (int, float)):
        return float(time)
    try:
        return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else None
    except ValueError:
        return None


@contextmanager
def _mirror(storage: Storage, root: str, files: Sequence[StoredFile]) -> Iterator[Path]:
    """A local folder with the names of the files: the root itself where it is local, else one of empty files.

    What belongs together is decided by names and by which files there are, which importers look up on a disk.
    """
    if storage.is_local:
        yield Path(root)
        return
    with TemporaryDirectory(prefix="turnscope-names-") as name:
        folder, made = name_root(Path(name), root), set[Path]()
        folder.mkdir()
        for file in files:
            path = join_path(folder, file.path)
            if path.parent not in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                made.add(path.parent)
            path.touch()
        yield folder


def name_root(folder: Path, root: str) -> Path:
    """A path below a folder with the name of a source's root: where no log says what the project is, that name does.

    Args:
        folder: a local folder.
        root: path of the source's root on its storage.
    """
    return folder / (PurePosixPath(root).name or "root")


def join_path(folder: Path, path: str) -> Path:
    """A path below a folder. TurnscopeError: it leads out of it, as the name of an object may.

    Args:
        folder: a local folder.
        path: the path of a file of a source.
    """
    found = folder.joinpath(*PurePosixPath(path).parts)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise TurnscopeError(f"{path} is no path below its folder", hint="Rename it.")
    return found


def _group(folder: Path, files: Iterable[StoredFile]) -> Iterator[tuple[str, list[StoredFile]]]:
    """Each path that opens as sessions, with the files that belong to it."""
    by_path = {folder / file.path: file for file in files}
    mains = {*find_session_paths(by_path)}
    found = defaultdict[Path, list[StoredFile]](list)
    for path, file in by_path.items():
        if (main := _find_main(path, mains, folder)) is not None:
            found[main].append(file)
    for main in sorted(found):
        yield main.relative_to(folder).as_posix() if main != folder else "", found[main]


def _find_main(path: Path, mains: set[Path], folder: Path) -> Path | None:
    """The path that a file opens with: itself, what its format says, or what it lies below; None = it is no session's."""
    if path in mains:
        return path
    whole = find_session_path(path)
    if whole in mains:
        return whole
    for above in path.parents:
        if above in mains:
            return above
        if above == folder:
            return None
        if (log := above.with_name(f"{above.name}.jsonl")) in mains:  # a folder near a log, with its name
            return log
    return None


def parse_layout(layout: str) -> re.Pattern[str]:
    """Read how paths say whose sessions they are.

    Args:
        layout: a path below the source with names in braces: `{team}/{person}/**`; `*` is any one part.

    >>> find_owner(parse_layout("{team}/{person}/**"), "search/ada/x/1.jsonl")
    Owner(team='search', project='', person='ada')
    """

    def replace(found: re.Match[str]) -> str:
        return f"(?P<{found[1]}>[^/]+)" if found[1] else ".*" if found[2] else "[^/]*"

    parts, end = list[str](), 0
    for found in _PART.finditer(layout):
        parts += [re.escape(layout[end : found.start()]), replace(found)]
        end = found.end()
    try:
        return re.compile("".join((*parts, re.escape(layout[end:]))) + r"(?:/.*)?")
    except re.error as error:
        raise TurnscopeError(f"the layout {layout!r} cannot be used: {error}", hint="Name each part once.") from error


def find_owner(layout: re.Pattern[str], path: str) -> Owner:
    """Find whose sessions a path holds.

    Args:
        layout: what `parse_layout` gave.
        path: the path below the source.
    """
    found = layout.fullmatch(path)
    return Owner(**{name: value or "" for name, value in found.groupdict().items()}) if found else Owner()


def stamp_again(unit: SourceUnit) -> SourceUnit:
    """The source as its files are now. TurnscopeError: one is gone or cannot be looked at."""
    storage = open_storage(unit.root)
    storage.fs.invalidate_cache()
    files = []
    for file in unit.files:
        path = storage.join(file.path)
        with report_errors(storage.make_url(path), "read"):
            files.append(make_file(file.path, storage.fs.info(path)))
    return SourceUnit(unit.id, unit.root, unit.main, tuple(files), unit.owner)


@contextmanager
def fetch(unit: SourceUnit) -> Iterator[tuple[Path, str]]:
    """Give the path of a source on this machine's disk, and the digest of its bytes; a copy is removed at the end.

    Raises:
        TurnscopeError: it cannot be read.
    """
    storage = open_storage(unit.root)
    if storage.is_local:
        yield Path(storage.root, unit.main), _digest_files(Path(storage.root), unit)
        return
    with TemporaryDirectory(prefix="turnscope-source-") as name:
        folder = name_root(Path(name), storage.root)
        for file in unit.files:
            path, target = storage.join(file.path), join_path(folder, file.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with report_errors(storage.make_url(path), "read"):
                storage.fs.get_file(path, str(target))
        yield folder / unit.main, _digest_files(folder, unit)


def _digest_files(folder: Path, unit: SourceUnit) -> str:
    made = blake2b(digest_size=16)
    for file in unit.files:
        made.update(f"{file.path}\0".encode("utf-8", "surrogateescape"))
        try:
            with join_path(folder, file.path).open("rb") as opened:
                while chunk := opened.read(CHUNK):
                    made.update(chunk)
        except OSError as error:
            what = f"{file.path} cannot be read: {error.strerror or error}"
            raise TurnscopeError(what, hint="Check the path and its permissions.") from error
    return made.hexdigest()
