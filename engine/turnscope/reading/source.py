"""What importers read from: a file as bytes, JSON lines or one JSON document, each read once, leniently, and only when needed.

The module reads and knows no format: an importer decides what a record means. Folders, archives and databases are in
`containers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import orjson
from msgspec import Struct

from turnscope.errors import UnreadableFile
from turnscope.session.model import JSON, Note

Kind = Literal["file", "folder", "zip", "sqlite"]

HEAD_BYTES = 1 << 16  # read to see what a file is
BUFFER_BYTES = 1 << 18  # read at once
LAZY_LIST_BYTES = 1 << 20  # a list of so many bytes is read item by item
SNIFF_LINES = 60  # records that are looked at to recognise a file of JSON lines
TOO_DEEP = "nested deeper than JSON readers go"


class Entry(Struct, frozen=True):
    """One conversation of a source, as far as it is known without reading it whole.

    `id` names it within its source; "" = the only one. `at`: seconds since the Unix epoch. `size`: bytes; 0 = unknown.
    `project`: its folder; "" = only the conversation itself says it, if anything does.
    """

    id: str = ""
    title: str = ""
    at: float | None = None
    size: int = 0
    requests: int = 0
    project: str = ""


class LazyList(list[Any]):
    """A long list whose items are parsed when they are read. So an export of thousands of conversations stays small in memory.

    It supports length, index, slice and iteration, and nothing else.
    """

    def __init__(self, raws: list[msgspec.Raw]) -> None:
        super().__init__()
        self._raws = raws

    def __len__(self) -> int:
        return len(self._raws)

    def __iter__(self) -> Iterator[Any]:
        return (parse_json(bytes(raw)) for raw in self._raws)

    def __getitem__(self, at: Any) -> Any:
        return (
            [parse_json(bytes(raw)) for raw in self._raws[at]] if isinstance(at, slice) else parse_json(bytes(self._raws[at]))
        )


class Source:
    """A file as importers see it: JSON lines, one JSON document, or bytes. `data` may be given for a file that lies nowhere.

    Lines are read from the file one by one, so that a long session's text is in memory once, as its blocks. What a tool appends
    after `size` was read is not part of this source.
    """

    kind: Kind = "file"

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        self.path = path
        self.cache: dict[str, Any] = {}  # what its importer found out and needs again
        self.unread: dict[tuple[int, str], Note] = {}  # by line and words: what a reader of the records met and could not read
        self.cut: Note | None = None  # says what is lost where the content was closed before its end
        self.on_text: Callable[[str], object] | None = None  # somebody who wants to know of texts as soon as they are read
        if data is not None:
            self.data = data

    @cached_property
    def size(self) -> int:
        """Size in bytes."""
        if "data" in self.__dict__:
            return len(self.data)
        try:
            return self.path.stat().st_size
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error

    @property
    def modified_at(self) -> float | None:
        """When the file was changed last, in seconds since the Unix epoch; None = unknown."""
        try:
            return self.path.stat().st_mtime
        except (OSError, ValueError):
            return None

    @property
    def version(self) -> str:
        """A text that changes when the file does. It comes from the file system, without reading the file."""
        try:
            stat = self.path.stat()
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error
        return f"{stat.st_ino}:{stat.st_mtime_ns}:{stat.st_size}"

    def compute_digest(self) -> str:
        """Compute SHA-256 of the content, as hexadecimal digits."""
        digest = sha256()
        for piece in self._iter_lines(1 << 20):
            digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def data(self) -> bytes:
        """All bytes, for formats that are one document."""
        buffer = BytesIO()  # never holds the content twice, unlike a joined list
        buffer.writelines(self._iter_lines(BUFFER_BYTES))
        return buffer.getvalue()

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        with self._open() as file:
            return file.read(min(HEAD_BYTES, self.size))

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """Open the content as a file. UnreadableFile where it is gone."""
        if "data" in self.__dict__:
            yield BytesIO(self.data)
            return
        try:
            with self.path.open("rb", buffering=BUFFER_BYTES) as file:
                yield file
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error

    def _iter_lines(self, pieces: int = 0) -> Iterator[bytes]:
        """Iterate over the lines with their ends, or over pieces of so many bytes."""
        left = self.size
        with self._open() as file:
            for line in iter(lambda: file.read(pieces), b"") if pieces else file:
                if left <= 0:
                    return
                yield line[:left]
                left -= len(line)

    @cached_property
    def document(self) -> JSON:
        """The whole file as one JSON object or list; None where it is neither."""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        line, _, alone = self._opening
        if not alone:  # several lines: one document, or one record per line
            with suppress(orjson.JSONDecodeError):
                orjson.loads(line.strip())
                return None
        if self.size >= LAZY_LIST_BYTES and self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                return LazyList(msgspec.json.decode(self.data, type=list[msgspec.Raw]))
        return parse_json(self.data)

    @cached_property
    def _opening(self) -> tuple[bytes, int, bool]:
        """The first line with text, its number, and whether it is the only one; b"" for an only line.

        It is read in pieces: an only line may be an export of hundreds of megabytes.
        """
        number, begun, ended = 1, False, False
        for piece in self._iter_lines(BUFFER_BYTES):
            rest = piece if begun else piece.lstrip()
            if not begun:
                number, begun = number + piece[: len(piece) - len(rest)].count(b"\n"), bool(rest)
            if begun and not ended:
                _, end, rest = rest.partition(b"\n")
                ended = bool(end)
            if ended and rest.strip():
                return next(line for line in self._iter_lines() if not line.isspace()), number, False
        return b"", number if begun else 0, True

    @property
    def blank(self) -> bool:
        """Whether there is no text in it."""
        return not self._opening[1]

    @cached_property
    def first(self) -> tuple[JSON, ...]:
        """The first records of a file of JSON lines; the document alone where it is one. Reads no further."""
        return tuple(value for value, _ in self.iter_records(limit=SNIFF_LINES) if not isinstance(value, Note))

    def open_sibling(self, name: str) -> Source | None:
        """Open the file of that name in the same folder; None where it is not there or cannot be read."""
        path = self.path.parent / name
        try:
            return Source(path, path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError):
            return None

    def find_siblings(self, pattern: str) -> list[Source]:
        """Find files that match a pattern (`*`, `?`, `..` at its start) from the file's folder, by name."""
        try:
            found = (Path(os.path.normpath(path)) for path in self.path.parent.glob(pattern))
            return [Source(path) for path in sorted(found) if path.is_file()]
        except (OSError, ValueError):
            return []

    def iter_files(self) -> Iterator[Source]:
        """Iterate over the files inside, each folder's own before those of its subfolders. A file has none."""
        return iter(())

    def query(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Mapping[str, Any]]:
        """Run an SQL query on a database, row by row.

        Args:
            sql: The query.
            values: Its parameters.
        """
        raise TypeError(f"{self.path.name} is no database: {sql!r} with {len(values)} values")

    def list_tables(self) -> frozenset[str]:
        """List the names of a database's tables; none of anything else."""
        return frozenset()

    def iter_values(self, limit: int | None = None) -> Iterator[tuple[Any, int]]:
        """Iterate over the one JSON document; else over the records, as `iter_records` gives them."""
        if self.document is not None:
            yield self.document, 1
        else:
            yield from self.iter_records(limit)

    def iter_records(self, limit: int | None = None) -> Iterator[tuple[Any, int]]:
        """Iterate over the records of a file of JSON lines, with line numbers. What cannot be read comes as a `Note`."""
        _, first, alone = self._opening
        if alone and self.document is not None:
            yield self.document, first
            return
        for value, line in parse_records(islice(self._iter_lines(), limit)):
            if isinstance(value, Note) and limit is None:
                self.unread[line, value.what] = value
            yield value, line


def parse_records(lines: Iterable[bytes], before: int = 0) -> Iterator[tuple[Any, int]]:
    """Parse JSON lines: each record with its line number. What cannot be read comes as a `Note`.

    Args:
        lines: The lines, with their ends.
        before: How many lines came before.
    """
    for line, raw in enumerate(lines, before + 1):
        if raw.isspace():
            continue
        try:
            yield orjson.loads(raw), line
        except orjson.JSONDecodeError:
            yield from _repair_line(raw.removesuffix(b"\n"), line, last=not raw.endswith(b"\n"))


def _repair_line(raw: bytes, line: int, last: bool) -> Iterator[tuple[Any, int]]:
    """Read what the strict parser refused: several values on one line, lone surrogates, NaN, a cut last line.

    `last`: the file ends here without a line break, as it does while a tool is writing.
    """
    text = raw.decode("utf-8-sig", "replace").strip()
    decoder = json.JSONDecoder()
    at, count = 0, 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if last and isinstance(error, ValueError) and text[at] in '{["':
                yield Note("info", line, "the last line is cut: the session is still being written, or was interrupted"), line
            else:
                why = TOO_DEEP if isinstance(error, RecursionError) else str(error)
                yield Note("error", line, f"not readable as JSON, skipped: {why}"), line
            break
        yield value, line
        count += 1
        while at < len(text) and text[at].isspace():
            at += 1
    if count > 1:
        yield Note("warning", line, f"{count} records are on one line (two writers at once); all were read"), line


def parse_json(data: bytes) -> JSON:
    """Parse one JSON value, leniently (lone surrogates, NaN, a byte-order mark); None where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None


def make_unreadable_error(path: Path, error: Exception) -> UnreadableFile:
    """Make the error for a file that cannot be read, with what to do next.

    Args:
        path: The file.
        error: What went wrong.
    """
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)  # ValueError: the path holds a NUL
    named = isinstance(error, OSError | ValueError)
    hint = "Check the path and its permissions." if named else "It may be damaged: copy it again."
    return UnreadableFile(f"{path.name} cannot be read: {why}", hint=hint)
