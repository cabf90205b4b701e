"""What importers read from: a file as bytes, JSON lines or one JSON document, each read once, leniently, and only when needed.

Holds reading, never a format: what a record means is an importer's business. Folders, archives and databases are in `holders`.
"""

from __future__ import annotations

import json
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

HEAD_BYTES = 1 << 16  # bytes that are read to see what a file is
BUFFER_BYTES = 1 << 18  # bytes that are read at once
LAZY_LIST_BYTES = 1 << 20  # bytes from which on a list is read item by item
SNIFF_LINES = 60  # records looked at to recognise a file of JSON lines
TOO_DEEP = "nested deeper than JSON readers go"


class Entry(Struct, frozen=True):
    """One conversation of a source, as far as it is known without reading it whole.

    `id` names it within its source; "" = the only one. `at`: seconds since the epoch; `size`: bytes; 0 = not known.
    """

    id: str = ""
    title: str = ""
    at: float | None = None
    size: int = 0
    requests: int = 0


class LazyList(list[Any]):
    """A long list whose items become values when they are looked at, so that an export of thousands is no heap of objects.

    It is measured, indexed, sliced and walked through, and nothing else.
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
    """A file as importers see it: JSON lines, one JSON document, or bytes. `data` may be given where it lies nowhere.

    Lines are read from the file one by one, so that a long session's text is in memory once, as its blocks. What a tool appends
    after `size` was looked at is not part of this source.
    """

    kind: Kind = "file"

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        self.path = path
        self.cache: dict[str, Any] = {}  # what its importer found out and needs again
        self.on_text: Callable[[str], object] | None = None  # somebody who wants to know of texts as soon as they are read
        if data is not None:
            self.data = data

    @cached_property
    def size(self) -> int:
        """Bytes."""
        if "data" in self.__dict__:
            return len(self.data)
        try:
            return self.path.stat().st_size
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error

    @property
    def modified_at(self) -> float | None:
        """When it was changed last, in seconds since the epoch; None where that is not known."""
        try:
            return self.path.stat().st_mtime
        except (OSError, ValueError):
            return None

    @property
    def version(self) -> str:
        """Changes when it does; by what the file system says, without reading it."""
        try:
            stat = self.path.stat()
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error
        return f"{stat.st_ino}:{stat.st_mtime_ns}:{stat.st_size}"

    def compute_digest(self) -> str:
        """SHA-256 of the content, as hexadecimal digits."""
        digest = sha256()
        for piece in self._iter_lines(1 << 20):
            digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def data(self) -> bytes:
        """All bytes, for formats that are one document."""
        held = BytesIO()  # unlike a list of pieces that is joined, never twice in memory
        held.writelines(self._iter_lines(BUFFER_BYTES))
        return held.getvalue()

    @cached_property
    def head(self) -> bytes:
        """Its first bytes."""
        with self._open() as file:
            return file.read(min(HEAD_BYTES, self.size))

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """The content as an open file. UnreadableFile where it is gone by now."""
        if "data" in self.__dict__:
            yield BytesIO(self.data)
            return
        try:
            with self.path.open("rb", buffering=BUFFER_BYTES) as file:
                yield file
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error

    def _iter_lines(self, pieces: int = 0) -> Iterator[bytes]:
        """Each line with its end, or pieces of so many bytes."""
        left = self.size
        with self._open() as file:
            for line in iter(lambda: file.read(pieces), b"") if pieces else file:
                if left <= 0:
                    return
                yield line[:left]
                left -= len(line)

    @cached_property
    def document(self) -> JSON:
        """The whole file as one JSON value, or None where it is none: neither an object nor a list."""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        line, _, alone = self._opening
        if not alone:  # several lines: one document, or records that are whole each
            with suppress(orjson.JSONDecodeError):
                orjson.loads(line.strip())
                return None
        if self.size >= LAZY_LIST_BYTES and self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
            with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                return LazyList(msgspec.json.decode(self.data, type=list[msgspec.Raw]))
        return parse_json(self.data)

    @cached_property
    def _opening(self) -> tuple[bytes, int, bool]:
        """The first line with text, its number, and whether it is the only one; b"" for a line that is all there is.

        Read in pieces: a line that is all there is may be an export of hundreds of megabytes.
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
        """The first records of a file of JSON lines; the document alone where it is one. Reads no further than those."""
        return tuple(value for value, _ in self.iter_records(limit=SNIFF_LINES) if not isinstance(value, Note))

    def open_sibling(self, name: str) -> Source | None:
        """The file of that name in the same folder; None where it is not there or cannot be read."""
        path = self.path.parent / name
        try:
            return Source(path, path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError):
            return None

    def find_siblings(self, pattern: str) -> list[Source]:
        """Files that match a pattern (`*`, `?`) from the folder that it lies in, by name."""
        try:
            return [Source(path) for path in sorted(self.path.parent.glob(pattern)) if path.is_file()]
        except (OSError, ValueError):
            return []

    def iter_files(self) -> Iterator[Source]:
        """The files inside, each folder's own before those of its folders; a file has none."""
        return iter(())

    def query(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Mapping[str, Any]]:
        """What a query gives of a database, row by row."""
        raise TypeError(f"{self.path.name} is no database: {sql!r} with {len(values)} values")

    def list_tables(self) -> frozenset[str]:
        """Names of a database's tables; none of anything else."""
        return frozenset()

    def iter_values(self) -> Iterator[tuple[Any, int]]:
        """The one JSON document, on however many lines; else each record, as `records` gives them."""
        if self.document is not None:
            yield self.document, 1
        else:
            yield from self.iter_records()

    def iter_records(self, limit: int | None = None) -> Iterator[tuple[Any, int]]:
        """Each record of a file of JSON lines with its line number. What cannot be read comes as a `Note`."""
        _, first, alone = self._opening
        if alone and self.document is not None:
            yield self.document, first
            return
        yield from parse_records(islice(self._iter_lines(), limit))


def parse_records(lines: Iterable[bytes], before: int = 0) -> Iterator[tuple[Any, int]]:
    """Each record of JSON lines with its line number, of which `before` went before. What cannot be read comes as a `Note`."""
    for line, raw in enumerate(lines, before + 1):
        if raw.isspace():
            continue
        try:
            yield orjson.loads(raw), line
        except orjson.JSONDecodeError:
            yield from _repair_line(raw.removesuffix(b"\n"), line, last=not raw.endswith(b"\n"))


def _repair_line(raw: bytes, line: int, last: bool) -> Iterator[tuple[Any, int]]:
    """What the strict reader refused: values glued on one line, lone surrogates, NaN, a cut last line.

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
        yield Note("warning", line, f"{count} records stand on one line (two writers at once); all were read"), line


def parse_json(data: bytes) -> JSON:
    """One JSON value, leniently (lone surrogates, NaN, a byte-order mark); None where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None


def make_unreadable_error(path: Path, error: Exception) -> UnreadableFile:
    """Why a file cannot be read, as an error that says what to do."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)  # ValueError: a path with a NUL
    named = isinstance(error, OSError | ValueError)
    hint = "Check the path and its permissions." if named else "It may be damaged: copy it again."
    return UnreadableFile(f"{path.name} cannot be read: {why}", hint=hint)
