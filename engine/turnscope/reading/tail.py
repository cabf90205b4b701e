"""Reads what was added to a growing file of JSON lines since the last read. Knows no format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from turnscope.reading.source import make_unreadable_error, parse_records

MARK_BYTES = 4096  # bytes at the start, and before the place where reading goes on, that have to be as they were


@dataclass(frozen=True, slots=True)
class NewRecords:
    """Records that were added.

    `unfinished`: a last line without a line break. `replaced`: the file was replaced or cut, and this is all of it.
    """

    records: Iterator[tuple[Any, int]]
    unfinished: tuple[tuple[Any, int], ...]
    replaced: bool


class Tail:
    """How far a file was read: up to a whole line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = self._line = 0
        self._file: tuple[int, int] = (0, 0)
        self._digest_marks = b""

    def read(self) -> NewRecords:
        """Read on. UnreadableFile where the file is gone."""
        try:
            with self.path.open("rb") as file:
                stat = os.fstat(file.fileno())
                same = self._file == (stat.st_dev, stat.st_ino) and stat.st_size >= self._offset
                anew = not (same and _digest_marks(file, self._offset) == self._digest_marks)
                if anew:
                    self._offset = self._line = 0
                file.seek(self._offset)
                data = file.read()
                whole = data.rfind(b"\n") + 1
                line, self._offset = self._line, self._offset + whole
                self._line += data.count(b"\n", 0, whole)
                self._file, self._digest_marks = (stat.st_dev, stat.st_ino), _digest_marks(file, self._offset)
        except (OSError, ValueError) as error:
            raise make_unreadable_error(self.path, error) from error
        return NewRecords(
            parse_records(BytesIO(data[:whole]), line), tuple(parse_records(BytesIO(data[whole:]), self._line)), anew
        )


def _digest_marks(file: BinaryIO, offset: int) -> bytes:
    """Compute a digest of the start of a file, and of the bytes before an offset."""
    digest = blake2b(digest_size=16)
    for start in (0, max(0, offset - MARK_BYTES)):
        file.seek(start)
        digest.update(file.read(min(MARK_BYTES, offset - start)))
    return digest.digest()
