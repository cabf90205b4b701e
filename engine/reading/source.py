"""A file as importers see it: bytes, JSON lines or one JSON document, each read once and leniently.

Holds reading, never a format: what a record means is an importer's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

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
_WORD = re.compile(rb"\S")


class Source:
    """One file as importers see it: bytes, JSON lines, or one JSON document. Each is read once."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data

    @cached_property
    def document(self) -> JSON:
        """The whole file as one JSON value, or None where it is not one."""
        if self.data[:1] in (b"", b"\x00"):
            return None
        start, stop = self._only_line
        if stop < 0:  # several lines: one document, or records that are whole each
            with suppress(orjson.JSONDecodeError):
                orjson.loads(self.data[start : self.data.index(b"\n", start)])
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
        start, line, size = 0, 0, len(self.data)
        if self._only_line[1] >= 0 and self.document is not None:
            yield self.document, self.data.count(b"\n", 0, self._only_line[0]) + 1
            return
        while start < size and (limit is None or line < limit):
            stop = self.data.find(b"\n", start)
            stop = size if stop < 0 else stop
            line += 1
            raw = self.data[start:stop]
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


def open_source(path: Path) -> Source:
    """Read a file. UnreadableFile where it cannot be, with what to do instead."""
    try:
        if path.is_dir():
            raise UnreadableFile(f"{path.name or path} is a folder", hint="Choose one of the session files inside it.")
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise UnreadableFile(f"{path.name} is no regular file", hint="Save what it gives into a file and open that.")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableFile(f"{path.name} cannot be read: {why}", hint="Check the path and its permissions.") from error
    if not _WORD.search(data):
        raise UnreadableFile(f"{path.name} is empty", hint="Choose a file that holds a session.")
    return Source(path, data)
