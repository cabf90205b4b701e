"""Writes that wait while the store is locked: kept in memory in their order, and tried again. Also drafts of an answer.

A prompt is stored before it is sent. An answer that was paid for is not lost because a file was locked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from turnscope.envelope.plan import Plan
from turnscope.live.events import WriteFailed, WriteRecovered
from turnscope.session.model import Request
from turnscope.storage.database import StorageError

RETRY_SECONDS = 1.0  # between two tries
MAX_TRIES = 60  # tries in one turn; later writes try again first
DRAFT_SECONDS = 0.5  # between two drafts of an answer

_log = logging.getLogger(__name__)
Write = Callable[[], None]


@runtime_checkable
class DraftSink(Protocol):
    """A sink that stores a request before it is sent, and drafts of its answer while it arrives."""

    def record_start(self, request: Request, plan: Plan) -> None:
        """Store a request that is about to be sent.

        Args:
            request: The request.
            plan: Its plan.
        """

    def record_draft(self, texts: Sequence[str]) -> None:
        """Store the texts of the answer so far."""


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@dataclass(slots=True)
class WriteQueue:
    """Writes that wait for their store, in order."""

    pending: deque[Write] = field(default_factory=deque)
    last_error: StorageError | None = None

    def run(self, write: Write) -> None:
        """Write now, after everything that waits already. If the store cannot be written, the write waits."""
        self.pending.append(write)
        try:
            self.flush()
        except StorageError as error:
            self.last_error = error

    def flush(self) -> None:
        """Write everything that waits.

        Raises:
            StorageError: The store cannot be written yet. What is not written waits on.
        """
        while self.pending:
            try:
                self.pending[0]()
            except StorageError:
                raise
            except Exception:
                self.pending.clear()  # another window continued the chat, so these writes can never succeed
                raise
            self.pending.popleft()
        self.last_error = None

    def retry(self, wait_cancelled: Callable[[float], bool] = _sleep) -> Iterator[WriteFailed | WriteRecovered]:
        """Try until everything is written, at most a minute. Yield `WriteFailed` before and `WriteRecovered` after.

        Args:
            wait_cancelled: Waits so many seconds and returns True if the turn was cancelled meanwhile.
        """
        if not self.pending or self.last_error is None:
            return
        yield WriteFailed(self.last_error)
        for _ in range(MAX_TRIES):
            try:
                self.flush()
            except StorageError as error:
                self.last_error = error
                if wait_cancelled(RETRY_SECONDS):
                    return
            else:
                yield WriteRecovered()
                return


class Draft:
    """The texts of an answer as they arrive. A thread of its own records them every half second while they grow.

    Args:
        record: Stores the texts; None = drafts are not stored.
        conversation: The id of the chat, for the log.
    """

    def __init__(self, record: Callable[[Sequence[str]], None] | None, conversation: str) -> None:
        self.conversation = conversation
        self._keep, self._texts = record, dict[int, str]()
        self._new, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, block: int, text: str) -> None:
        """Add text to the answer.

        Args:
            block: The number of the content block.
            text: The text.
        """
        self._texts[block] = self._texts.get(block, "") + text
        self._new.set()
        if self._keep and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="chat draft", daemon=True)
            self._thread.start()

    @property
    def texts(self) -> list[str]:
        """The texts so far, in the order of their blocks."""
        return [text for _, text in sorted(self._texts.copy().items()) if text]

    def close(self) -> None:
        """End the draft: the answer itself is stored now."""
        self._over.set()

    def _run(self) -> None:
        assert self._keep is not None
        while not self._over.wait(DRAFT_SECONDS):
            if self._new.is_set():
                self._new.clear()
                try:
                    self._keep(self.texts)
                except Exception as error:  # noqa: BLE001 - the answer itself is stored at its end, or reported as not stored
                    _log.warning("conversation %s: a draft was not stored: %s", self.conversation, error)
