"""Texts that are counted before anybody asks, while the file that they stand in is still being read.

Holds who listens and what was counted, by the texts' hashes: the texts themselves belong to whoever reads. How
they are counted is the business of whoever listens (`tokens`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

BATCH_CHARACTERS = 1 << 17  # characters that are counted at once


class EagerCounter:
    """Counts texts in a thread of its own, by `count`, which should do its work where the interpreter's lock is not needed."""

    def __init__(self, count: Callable[[Sequence[str]], list[int]]) -> None:
        self._count = count
        self._thread = ThreadPoolExecutor(1)
        self._texts: list[str] = []
        self._size = 0
        self._done: list[Future[dict[tuple[int, int], int]]] = []

    def add(self, text: str) -> None:
        """Take a text to be counted."""
        self._texts.append(text)
        self._size += len(text)
        if self._size >= BATCH_CHARACTERS:
            self._hand_over()

    def finish(self) -> None:
        """No text comes any more; the last ones are counted."""
        self._hand_over()
        self._thread.shutdown(wait=False)

    def wait_for_counts(self) -> dict[tuple[int, int], int]:
        """Tokens of all texts that were heard, by `key_of` each; waits for them."""
        found: dict[tuple[int, int], int] = {}
        for done in self._done:
            found |= done.result()
        return found

    def _hand_over(self) -> None:
        texts, self._texts, self._size = self._texts, [], 0
        self._done.append(self._thread.submit(self._count_by_key, texts))

    def _count_by_key(self, texts: list[str]) -> dict[tuple[int, int], int]:
        return dict(zip(map(make_key, texts), self._count(texts), strict=True))


def make_key(text: str) -> tuple[int, int]:
    """What a text is known by in this process."""
    return hash(text), len(text)
