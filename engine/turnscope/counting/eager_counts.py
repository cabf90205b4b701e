"""Counts texts while the file that holds them is still being read, before anybody asks for the counts.

The module keeps counts under the texts' hashes. The texts themselves belong to the reader. `tokens` decides how to count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

BATCH_CHARACTERS = 1 << 17  # characters counted in one batch


class EagerCounter:
    """Counts texts in a thread of its own. `count` should release the interpreter's lock while it works."""

    def __init__(self, count: Callable[[Sequence[str]], list[int]]) -> None:
        self._count = count
        self._thread = ThreadPoolExecutor(1)
        self._texts: list[str] = []
        self._size = 0
        self._done: list[Future[dict[tuple[int, int], int]]] = []

    def add(self, text: str) -> None:
        """Add a text to count."""
        self._texts.append(text)
        self._size += len(text)
        if self._size >= BATCH_CHARACTERS:
            self._hand_over()

    def finish(self) -> None:
        """Count the last texts. No text may be added after this."""
        self._hand_over()
        self._thread.shutdown(wait=False)

    def wait_for_counts(self) -> dict[tuple[int, int], int]:
        """Wait for the counts of all added texts. Gives tokens by `make_key` of each text."""
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
    """Make the key of a text within this process."""
    return hash(text), len(text)
