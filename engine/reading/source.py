"""What importers read from: a file as bytes, JSON lines or one JSON document, each read once, leniently, and only when needed.

Holds reading, never a format: what a record means is an importer's business. Folders, archives and databases are in `holders`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct

from engine.errors import UnreadableFile
from engine.session.model import JSON, Note

Kind = Literal["file", "folder", "zip", "sqlite"]

HEAD = 1 << 16  # bytes that are read to see what a file is
SNIFF_LINES = 60  # records looked at to recognise a file of JSON lines
SNIFF_BYTES = 1 << 22  # and how many bytes they may have
DEEP = "nested deeper than JSON readers go"
_WORD = re.compile(rb"\S")


class Entry(Struct, frozen=True):
    """One conversation of a source, as far as it is known without reading it whole.

    `id` names it within its source; "" = the only one. `at`: seconds since the epoch; `size`: bytes; 0 = not known.
    """

    id: str = ""
    title: str = ""
    at: float | None = None
    size: int = 0
    requests: int = 0


class Source:
    """A file. `data` may be given where it lies nowhere."""

    kind: Kind = "file"

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        self.path = path
        self.kept: dict[str, Any] = {}  # what its importer found out and needs again
        if data is not None:
            self.data = data

    @cached_property
    def data(self) -> bytes:
        """Everything. UnreadableFile where it cannot be read."""
        try:
            return self.path.read_bytes()
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def head(self) -> bytes:
        """Its first bytes, at least `HEAD` of them where there are as many."""
        if "data" in self.__dict__ or self.size <= HEAD:
            return self.data
        return self._start(HEAD)

    @property
    def size(self) -> int:
        """Bytes; 0 where that is not known."""
        if "data" in self.__dict__:
            return len(self.data)
        try:
            return self.path.stat().st_size
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error) from error

    @property
    def at(self) -> float | None:
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
            raise unreadable(self.path, error) from error
        return f"{stat.st_ino}:{stat.st_mtime_ns}:{stat.st_size}"

    def _start(self, size: int) -> bytes:
        if "data" in self.__dict__:
            return self.data[:size]
        try:
            with self.path.open("rb") as file:
                return file.read(size)
        except (OSError, ValueError) as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def document(self) -> JSON:
        """The whole file as one JSON value, or None where it is none: neither an object nor a list."""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return None
        start = len(self.head) - len(self.head.lstrip())
        held = self.head if b"\n" in self.head[start:] else self.data
        if self.size > len(held) or self._only_line[1] < 0:
            with suppress(orjson.JSONDecodeError):  # several lines: one document, or records that are whole each
                orjson.loads(held[start : held.index(b"\n", start)])
                return None
        return parse(self.data)

    @cached_property
    def _only_line(self) -> tuple[int, int]:
        """Where the first line with text begins, and where it ends if there is no other; -1 where there is."""
        found = _WORD.search(self.data)
        start = found.start() if found else 0
        stop = self.data.find(b"\n", start)
        return start, len(self.data) if stop < 0 else -1 if _WORD.search(self.data, stop) else stop

    @cached_property
    def first(self) -> tuple[JSON, ...]:
        """The first records of a file of JSON lines; the document alone where it is one. Reads no more than it has to."""
        lines = self.head if self.head.count(b"\n") >= SNIFF_LINES else self._start(SNIFF_BYTES)
        whole = "data" in self.__dict__ or self.size <= len(lines) or b"\n" not in lines
        records = self.records(SNIFF_LINES) if whole else lines_of(lines[: lines.rindex(b"\n") + 1], limit=SNIFF_LINES)
        return tuple(value for value, _ in records if not isinstance(value, Note))

    def near(self, name: str) -> Source | None:
        """The file of that name in the same folder; None where it is not there or cannot be read."""
        path = self.path.parent / name
        try:
            return Source(path, path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError):
            return None

    def beside(self, pattern: str) -> list[Source]:
        """Files that match a pattern (`*`, `?`) from the folder that it lies in, by name."""
        try:
            return [Source(path) for path in sorted(self.path.parent.glob(pattern)) if path.is_file()]
        except (OSError, ValueError):
            return []

    def files(self) -> Iterator[Source]:
        """The files inside, each folder's own before those of its folders; a file has none."""
        return iter(())

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Mapping[str, Any]]:
        """What a query gives of a database, row by row."""
        raise TypeError(f"{self.path.name} is no database: {sql!r} with {len(values)} values")

    def tables(self) -> frozenset[str]:
        """Names of a database's tables; none of anything else."""
        return frozenset()

    def records(self, limit: int | None = None) -> Iterator[tuple[Any, int]]:
        """Each record of a file of JSON lines with its line number. What cannot be read comes as a `Note`."""
        if self._only_line[1] >= 0 and self.document is not None:
            yield self.document, self.data.count(b"\n", 0, self._only_line[0]) + 1
            return
        yield from lines_of(self.data, limit=limit)


def lines_of(data: bytes, line: int = 0, limit: int | None = None, start: int = 0) -> Iterator[tuple[Any, int]]:
    """Each record of JSON lines with its line number, from `start` on, which is the end of line `line`."""
    size, last = len(data), None if limit is None else line + limit
    while start < size and (last is None or line < last):
        stop = data.find(b"\n", start)
        stop = size if stop < 0 else stop
        line += 1
        raw = data[start:stop]
        start = stop + 1
        if not raw or raw.isspace():
            continue
        try:
            yield orjson.loads(raw), line
        except orjson.JSONDecodeError:
            yield from _mended(raw, line, last=stop == size)


def _mended(raw: bytes, line: int, last: bool) -> Iterator[tuple[Any, int]]:
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
                why = DEEP if isinstance(error, RecursionError) else str(error)
                yield Note("error", line, f"not readable as JSON, skipped: {why}"), line
            break
        yield value, line
        count += 1
        while at < len(text) and text[at].isspace():
            at += 1
    if count > 1:
        yield Note("warning", line, f"{count} records stand on one line (two writers at once); all were read"), line


def parse(data: bytes) -> JSON:
    """One JSON value, leniently (lone surrogates, NaN, a byte-order mark); None where it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None


def unreadable(path: Path, error: Exception) -> UnreadableFile:
    """Why a file cannot be read, as an error that says what to do."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)  # ValueError: a path with a NUL
    return UnreadableFile(f"{path.name} cannot be read: {why}", hint="Check the path and its permissions.")


def is_blank(source: Source) -> bool:
    """Whether a file holds nothing but white space."""
    return not _WORD.search(source.head) and not _WORD.search(source.data)
