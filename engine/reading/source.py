"""A file as importers see it: bytes, JSON lines or one JSON document, each read once and leniently.

Holds reading, never a format: what a record means is an importer's business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson

from engine.errors import UnreadableFile
from engine.session.model import JSON, Note

SNIFF_LINES = 60  # records looked at to recognise a file of JSON lines
DEEP = "nested deeper than JSON readers go"
TASK_FILES = (  # of Cline and Roo Code: one task is one folder
    "api_conversation_history.json",
    "ui_messages.json",
    "claude_messages.json",
    "context_history.json",
    "task_metadata.json",
)


class Source:
    """One file as importers see it: JSON lines, one JSON document, or bytes.

    Lines are read from the file one by one, so that a long session's text is in memory once, as its blocks. `size`: bytes that
    count; what a tool appends later is not part of this source.
    """

    def __init__(self, path: Path, data: bytes | None = None, size: int = 0) -> None:
        self.path = path
        self.size = size if data is None else len(data)
        if data is not None:
            self.data = data

    @cached_property
    def data(self) -> bytes:
        """All bytes, for formats that are one document."""
        return b"".join(self._lines())

    @property
    def head(self) -> bytes:
        """The first 4,096 bytes."""
        with self._file() as file:
            return file.read(min(4096, self.size))

    def digest(self) -> str:
        """SHA-256 of the content, as hexadecimal digits."""
        digest = sha256()
        for line in self._lines(1 << 20):
            digest.update(line)
        return digest.hexdigest()

    @contextmanager
    def _file(self) -> Iterator[IO[bytes]]:
        """The content as an open file. UnreadableFile where it is gone by now."""
        if "data" in self.__dict__:
            yield BytesIO(self.data)
            return
        try:
            with self.path.open("rb") as file:
                yield file
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _lines(self, pieces: int = 0) -> Iterator[bytes]:
        """Each line with its end, or pieces of so many bytes."""
        left = self.size
        with self._file() as file:
            for line in iter(lambda: file.read(pieces), b"") if pieces else file:
                if left <= 0:
                    return
                yield line[:left]
                left -= len(line)

    @cached_property
    def document(self) -> JSON:
        """The whole file as one JSON value, or None where it is not one."""
        line, _, alone = self._opening
        if self.head[:1] in (b"", b"\x00"):
            return None
        if not alone:  # several lines: one document, or records that are whole each
            with suppress(orjson.JSONDecodeError):
                orjson.loads(line.strip())
                return None
        return parse(self.data)

    @cached_property
    def _opening(self) -> tuple[bytes, int, bool]:
        """The first line with text, its number, and whether it is the only one; b"" for a line that is all there is."""
        found = ((line, number) for number, line in enumerate(self._lines(), 1) if not line.isspace())
        line, number = next(found, (b"", 0))
        alone = next(found, None) is None
        return b"" if alone else line, number, alone

    @property
    def blank(self) -> bool:
        """Whether there is no text in it."""
        return not self._opening[1]

    @cached_property
    def first(self) -> tuple[JSON, ...]:
        """The first records of a file of JSON lines; the document alone where it is one."""
        found: list[JSON] = []
        for value, _ in self.records(limit=SNIFF_LINES):
            if not isinstance(value, Note):
                found.append(value)
        return tuple(found)

    def near(self, name: str) -> Source | None:
        """The file of that name in the same folder; None where it is not there or cannot be read."""
        path = self.path.parent / name
        try:
            return Source(path, path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError):
            return None

    def beside(self) -> list[Path]:
        """Files that belong to this one: those of its subagents, or the others of its task, where a tool writes several."""
        if self.path.name in TASK_FILES:
            others = (self.path.parent / name for name in TASK_FILES if name != self.path.name)
            return [file for file in others if file.is_file()]
        if self.path.stem.startswith("agent-"):
            return []
        own = sorted(self.path.with_suffix("").glob("subagents/agent-*.jsonl"))
        return [file for file in (*own, *sorted(self.path.parent.glob("agent-*.jsonl"))) if file.is_file()]

    def records(self, limit: int | None = None) -> Iterator[tuple[Any, int]]:
        """Each record of a file of JSON lines with its line number. What cannot be read comes as a `Note`."""
        _, first, alone = self._opening
        if alone and self.document is not None:
            yield self.document, first
            return
        for line, raw in enumerate(islice(self._lines(), limit), 1):
            if raw.isspace():
                continue
            try:
                yield orjson.loads(raw), line
            except orjson.JSONDecodeError:
                yield from _mended(raw.removesuffix(b"\n"), line, last=not raw.endswith(b"\n"))


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


def open_source(path: Path) -> Source:
    """Read a file. UnreadableFile where it cannot be, with what to do instead."""
    try:
        if path.is_dir():
            raise UnreadableFile(f"{path.name or path} is a folder", hint="Choose one of the session files inside it.")
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise UnreadableFile(f"{path.name} is no regular file", hint="Save what it gives into a file and open that.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = None if size else file.read()  # files of the system may say that they are empty
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise unreadable(path, error) from error
    source = Source(path, data, size)
    if source.blank:
        raise UnreadableFile(f"{path.name} is empty", hint="Choose a file that holds a session.")
    return source


def unreadable(path: Path, error: OSError | ValueError) -> UnreadableFile:
    """What to say of a file that cannot be read."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UnreadableFile(f"{path.name} cannot be read: {why}", hint="Check the path and its permissions.")
