"""A text that grows from request to request: each version shares the lines of the one before, and is built when it is read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

_LOCK = Lock()  # whoever extends lines that several versions share


class Transcript:
    """Lines of a text, the first `count` of a list that later versions extend. It equals another one of the same text.

    Args:
        head: What the digest begins with, before the text.
        source: What the lines were made of, for whoever extends them.

    Attributes:
        lines: The lines of this and later versions. Do not change them.
        count: How many of them this version has.
        length: Characters of the text.
        running: The running digest of head and text.
        added: Bytes that this version adds to the memory of the one before.
        source: What the lines were made of; None where they cannot be extended.

    Example:
        >>> short = Transcript("", None).extend(["user: Why?"], None)
        >>> long = short.extend(["assistant: It rains."], None)
        >>> (short.text, long.text, long.lines is short.lines)
        ('user: Why?', 'user: Why?\\nassistant: It rains.', True)
    """

    __slots__ = ("_head", "added", "count", "length", "lines", "running", "source")

    def __init__(self, head: str, source: Any) -> None:
        self.lines: list[str] = []
        self.count = self.length = self.added = 0
        self.source = source
        self._head = head
        self.running = blake2b(_encode(head), digest_size=16)

    def extend(self, lines: Sequence[str], source: Any) -> Transcript:
        """Return the text with further lines. The work is that of these lines.

        Args:
            lines: The further lines.
            source: What all lines were made of.
        """
        grown = Transcript(self._head, source)
        with _LOCK:
            shared = self.lines if len(self.lines) == self.count else self.lines[: self.count]
            shared += lines
        text = "\n".join(lines)
        if lines and self.count:
            text = f"\n{text}"
        grown.lines, grown.count, grown.length = shared, self.count + len(lines), self.length + len(text)
        grown.added = sum(map(sys.getsizeof, lines)) + (0 if shared is self.lines else sys.getsizeof(shared))
        grown.running = self.running.copy()
        grown.running.update(_encode(text))
        return grown

    @property
    def digest(self) -> str:
        """The digest of head and text, 32 hexadecimal digits."""
        return self.running.hexdigest()

    @property
    def text(self) -> str:
        """The text. It is built anew each time."""
        return "\n".join(self.lines[: self.count])

    def read_beginning(self, length: int) -> str:
        """Return the first characters of the text.

        Args:
            length: How many, at most.
        """
        read, stop = 0, 0
        while stop < self.count and read <= length:  # `read` counts a line break behind each line
            read += len(self.lines[stop]) + 1
            stop += 1
        return "\n".join(self.lines[:stop])[:length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        same = self.lines is other.lines and self.count == other.count
        return same or (self.length == other.length and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<Transcript of {self.length:,} characters>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._head, self.source, self.lines, self.count, self.length, self.added)


def _restore(head: str, source: Any, lines: list[str], count: int, length: int, added: int) -> Transcript:
    made = Transcript(head, source)
    made.lines, made.count, made.length, made.added = lines, count, length, added
    made.running.update(_encode(made.text))  # a running digest cannot leave its process
    return made


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
