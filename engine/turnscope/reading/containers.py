"""Sources that hold others: folders, zip archives that are read in place, and SQLite databases that are read from a copy.

`open_source` makes a `Source` of any path: of a gzip or zstd file its content, of UTF-16 UTF-8. The module knows no format.
"""

from __future__ import annotations

import gzip
import os
import posixpath
import shutil
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

if sys.version_info >= (3, 14):
    import zipfile

    from compression import zstd
else:
    from backports import zstd
    from backports.zstd import zipfile  # the standard library's, which reads members packed with zstd from 3.14 on

from turnscope.errors import ArchiveTooLarge, UnreadableFile
from turnscope.reading.source import Kind, Source, make_unreadable_error
from turnscope.session.model import Note

MAX_RATIO = 200  # factor by which an archive's content may exceed the archive, beyond FREE_BYTES
FREE_BYTES = 50_000_000  # content that is always accepted
MAX_BYTES = 4_000_000_000  # most content of one archive
MAX_MEMBERS = 200_000
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # PowerShell writes the output of programs so
COPY_TRIES = 5  # a database that changes while it is copied is copied again, so many times
STEPS, STRIDE = 200_000_000, 1_000_000  # steps of SQLite's virtual machine: limit of one query, and between two checks
NO_TEXT = "Could not decode to UTF-8"  # how SQLite's module begins an error
_TROUBLE = (OSError, ValueError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error, zstd.ZstdError)


def open_source(path: Path) -> Source:
    """Open what lies at a path. UnreadableFile, with what to do instead, where it cannot be read or is empty."""
    try:
        if path.is_dir():
            return Folder(path)
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise UnreadableFile(f"{path.name} is no regular file", hint="Save its output to a file and open that file.")
    except (OSError, ValueError) as error:
        raise make_unreadable_error(path, error) from error
    source = Source(path)
    if not source.size:  # files of the system may report that they are empty
        with suppress(OSError):
            source = Source(path, path.read_bytes())
    if source.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return Archive(path)
    if source.head.startswith(b"SQLite format 3\x00"):
        return Database(path)
    if source.head.startswith(b"\x1f\x8b"):
        source = Source(path, _inflate(source, gzip.open))
    elif source.head.startswith(b"\x28\xb5\x2f\xfd"):
        source = Source(path, _inflate(source, zstd.open))
    if source.head.startswith(UTF_16):
        source = Source(path, source.data.decode("utf-16", "replace").encode())
    if source.blank:
        raise UnreadableFile(f"{path.name} is empty", hint="Choose a file that holds a session.")
    return source


def _inflate(source: Source, unpack: Callable[[Any], Any]) -> bytes:
    """Unpack a file of gzip or zstd. ArchiveTooLarge for one that was made to fill the memory."""
    return _unpack(source.path, source.size, source.path, unpack)


def unpack_zstd(data: bytes, path: Path) -> bytes:
    """Unpack bytes that were packed with zstd, as databases hold them.

    Args:
        data: The packed bytes.
        path: The file that holds them, for errors.

    Raises:
        UnreadableFile: The bytes are damaged.
        ArchiveTooLarge: They were made to fill the memory.
    """
    return _unpack(BytesIO(data), len(data), path, zstd.open)


def _unpack(packed: Any, size: int, path: Path, unpack: Callable[[Any], Any]) -> bytes:
    room = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * size))
    try:
        with unpack(packed) as file:
            data: bytes = file.read(room + 1)
    except _TROUBLE as error:
        raise make_unreadable_error(path, error) from error
    if len(data) > room:
        raise _make_too_large_error(path, room)
    return data


def _make_too_large_error(path: Path, room: int) -> ArchiveTooLarge:
    return ArchiveTooLarge(
        f"{path.name} would unpack to far more than it should hold",
        hint="If you trust it, unpack it yourself and open the folder.",
        limit=room,
    )


class Folder(Source):
    """A folder. `open_sibling` and `find_siblings` look inside it."""

    kind: Kind = "folder"

    def __init__(self, path: Path) -> None:
        super().__init__(path, b"")

    def iter_files(self) -> Iterator[Source]:
        for folder, names, files in os.walk(self.path):
            names.sort()
            yield from (Source(Path(folder, name)) for name in sorted(files))

    @property
    def version(self) -> str:
        """Version of all files inside."""
        digest = blake2b(digest_size=16)
        for file in self.iter_files():
            with suppress(UnreadableFile):  # gone since it was listed
                digest.update(f"{file.path}:{file.version}".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def compute_digest(self) -> str:
        return self.version

    def open_sibling(self, name: str) -> Source | None:
        return Source(self.path / "-").open_sibling(name)

    def find_siblings(self, pattern: str) -> list[Source]:
        return Source(self.path / "-").find_siblings(pattern)


class Archive(Source):
    """A zip archive. Members are unpacked as they are read. One that would unpack to too much is not opened at all."""

    kind: Kind = "zip"
    max_bytes = MAX_BYTES  # limit of its content

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        """The open archive.

        ArchiveTooLarge where it reports that it would fill the memory; UnreadableFile where it is broken.
        """
        try:
            archive = zipfile.ZipFile(self.path)
            packed = self.path.stat().st_size
        except _TROUBLE as error:
            raise make_unreadable_error(self.path, error) from error
        self.max_bytes = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * packed))
        if sum(info.file_size for info in archive.infolist()) > self.max_bytes or len(archive.infolist()) > MAX_MEMBERS:
            raise self.make_too_large_error()
        return archive

    def make_too_large_error(self) -> ArchiveTooLarge:
        return _make_too_large_error(self.path, self.max_bytes)

    @cached_property
    def members(self) -> Mapping[str, zipfile.ZipInfo]:
        """Its files by name. A file whose name leads outside is left out."""
        inside = (info for info in self._zip.infolist() if not info.is_dir() and not info.filename.startswith("/"))
        return {info.filename: info for info in inside}

    @contextmanager
    def open_member(self, name: str) -> Iterator[IO[bytes]]:
        """Open a member. It gives no more bytes than its recorded size; a longer one fails its checksum."""
        try:
            with self._zip.open(self.members[name]) as member:
                yield member
        except _TROUBLE as error:
            raise make_unreadable_error(self.path / name, error) from error

    def iter_files(self) -> Iterator[Source]:
        order = sorted(self.members, key=lambda name: (PurePosixPath(name).parent.parts, name))
        return (Member(self, name) for name in order)

    def open_sibling(self, name: str) -> Source | None:
        return Member(self, name) if name in self.members else None

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Names of members by the folder that they lie in."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.members):
            found.setdefault(posixpath.dirname(name), []).append(name)
        return found

    def find_siblings(self, pattern: str) -> list[Source]:
        folder = posixpath.dirname(pattern)
        folders = [one for one in sorted(self._folders) if _matches(one, folder)] if set(folder) & set("*?[") else [folder]
        names = (name for one in folders for name in self._folders.get(one, ()))
        return [Member(self, name) for name in names if _matches(name, pattern)]


class Member(Source):
    """A file of an archive. Its path continues the archive's own."""

    def __init__(self, archive: Archive, name: str) -> None:
        super().__init__(archive.path / name)
        self.archive, self.name = archive, name

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        with self.archive.open_member(self.name) as file:
            yield file

    @cached_property
    def size(self) -> int:
        return self.archive.members[self.name].file_size

    @property
    def modified_at(self) -> float | None:
        return self.archive.modified_at

    @property
    def version(self) -> str:
        return self.archive.version

    def open_sibling(self, name: str) -> Source | None:
        return self.archive.open_sibling(self._resolve(name))

    def find_siblings(self, pattern: str) -> list[Source]:
        return self.archive.find_siblings(self._resolve(pattern))

    def _resolve(self, name: str) -> str:
        return posixpath.normpath(PurePosixPath(self.name).parent / name)  # a path out of the archive is no member


class Database(Source):
    """An SQLite database. It is copied with its log before it is read, so that a tool that has it open is not disturbed."""

    kind: Kind = "sqlite"
    _steps = 0

    def compute_digest(self) -> str:
        return self.version

    @property
    def version(self) -> str:
        """Version of the database and its log."""
        return f"{super().version}:{_stat_parts([self.path.with_name(self.path.name + '-wal')])}"

    @cached_property
    def _copy(self) -> TemporaryDirectory[str]:
        folder = TemporaryDirectory(prefix="turnscope-")
        parts = [self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm", "-journal")]
        try:
            for _ in range(COPY_TRIES):
                before = _stat_parts(parts)
                for part in parts:
                    copy = Path(folder.name, part.name)
                    copy.unlink(missing_ok=True)
                    if part.is_file():
                        shutil.copyfile(part, copy)
                if _stat_parts(parts) == before:
                    return folder
        except OSError as error:
            raise make_unreadable_error(self.path, error) from error
        what = f"{self.path.name} changes all the time"
        raise UnreadableFile(what, hint="Close the application that uses it, or try again in a moment.")

    @cached_property
    def _db(self) -> sqlite3.Connection:
        copy = Path(self._copy.name, self.path.name)
        try:
            if copy.with_name(copy.name + "-journal").exists():  # a write was interrupted: SQLite rolls it back
                with closing(sqlite3.connect(copy)) as db:
                    db.execute("pragma schema_version")
            db = sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True, check_same_thread=False)
            db.row_factory = sqlite3.Row
            db.set_progress_handler(self._is_over_limit, STRIDE)
            db.execute("select count(*) from sqlite_master").fetchone()  # an index may call functions: reads it, calls none
            db.execute("pragma trusted_schema = off")  # a view of the file calls no function that does more than compute
        except sqlite3.Error as error:
            raise make_unreadable_error(self.path, error) from error
        return db

    def _is_over_limit(self) -> bool:
        """Whether a query runs without end, as a view may: anybody can write the schema of a file."""
        self._steps += STRIDE
        return self._steps > STEPS

    def list_tables(self) -> frozenset[str]:
        return frozenset(row["name"] for row in self.query("select name from sqlite_master where type in ('table', 'view')"))

    def query(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of one query. UnreadableFile where the file is damaged, or answers without end.

        Args:
            sql: One `select`.
            values: Values of its parameters.
        """
        self._steps = number = 0
        try:
            for row in self._db.execute(sql, values):
                number += 1
                yield dict(row)
        except sqlite3.OperationalError as error:
            if NO_TEXT in str(error) and self._db.text_factory is str:
                self._replace_bad_texts()
                yield from islice(self.query(sql, values), number, None)
                return
            if self._steps <= STEPS:
                raise make_unreadable_error(self.path, error) from error
            hint = "Its tables are not what a chat tool writes; check where it comes from."
            raise UnreadableFile(f"{self.path.name} takes too long to read", hint=hint) from error
        except (sqlite3.Error, UnicodeError) as error:  # UnicodeError: in a column's name
            raise make_unreadable_error(self.path, error) from error

    def _replace_bad_texts(self) -> None:
        """Read texts that are no UTF-8 as far as they are, from now on: one damaged text hides no other row."""
        self._db.text_factory = _decode
        what = "the database holds texts that are no UTF-8: what cannot be read of them is replaced"
        self.unread[0, what] = Note("warning", 0, what)


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _stat_parts(parts: Sequence[Path]) -> list[tuple[int, int]]:
    """Get when the parts of a database were written last. Readers write to its `-shm` as well, so it is left out."""
    found = []
    for part in parts:
        if part.name.endswith("-shm"):
            continue
        try:
            stat = part.stat()
            found.append((stat.st_mtime_ns, stat.st_size))
        except FileNotFoundError:
            found.append((0, 0))
    return found


def _matches(name: str, pattern: str) -> bool:
    """Whether a path matches a pattern part by part. `*` stays within a folder."""
    parts, wanted = PurePosixPath(name).parts, PurePosixPath(pattern).parts
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
