"""What a chat hands to its store while the store cannot be written: kept in memory, in order, and tried again. And drafts.

A prompt is never taken before it is kept; an answer that was paid for is never thrown away because a file was locked.
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

RETRY_SECONDS = 1.0  # seconds between two tries
MAX_TRIES = 60  # of one turn; what is still not written then is tried before whatever is written next
DRAFT_SECONDS = 0.5  # seconds between two looks at what there is to draft

_log = logging.getLogger(__name__)
Write = Callable[[], None]


@runtime_checkable
class DraftSink(Protocol):
    """A sink that keeps a request from before it is sent, and what is shown of its answer meanwhile."""

    def record_start(self, request: Request, plan: Plan) -> None:
        """A request is about to be sent."""

    def record_draft(self, texts: Sequence[str]) -> None:
        """What was shown so far of its answer."""


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@dataclass(slots=True)
class WriteQueue:
    """Writes that wait for their store."""

    pending: deque[Write] = field(default_factory=deque)
    last_error: StorageError | None = None

    def run(self, write: Write) -> None:
        """Write now, or as soon as it can be done, after all that waits already."""
        self.pending.append(write)
        try:
            self.flush()
        except StorageError as error:
            self.last_error = error

    def flush(self) -> None:
        """Write what waits. StorageError: it cannot be written yet, and waits on."""
        while self.pending:
            try:
                self.pending[0]()
            except StorageError:
                raise
            except Exception:
                self.pending.clear()  # another window has taken the place: it will never be written
                raise
            self.pending.popleft()
        self.last_error = None

    def retry(self, wait_cancelled: Callable[[float], bool] = _sleep) -> Iterator[WriteFailed | WriteRecovered]:
        """Say that something waits, try until it is written, and say that it is. `left` waits some seconds; true: no more."""
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
    """What was delivered of an answer, by block; handed on every half second while it grows, by a thread of its own."""

    def __init__(self, record: Callable[[Sequence[str]], None] | None, conversation: str) -> None:
        self.conversation = conversation
        self._keep, self._texts = record, dict[int, str]()
        self._new, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, block: int, text: str) -> None:
        """More of a block's text."""
        self._texts[block] = self._texts.get(block, "") + text
        self._new.set()
        if self._keep and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="chat draft", daemon=True)
            self._thread.start()

    @property
    def texts(self) -> list[str]:
        """The texts in order, as far as they came."""
        return [text for _, text in sorted(self._texts.copy().items()) if text]

    def close(self) -> None:
        """It is a draft no longer."""
        self._over.set()

    def _run(self) -> None:
        assert self._keep is not None
        while not self._over.wait(DRAFT_SECONDS):
            if self._new.is_set():
                self._new.clear()
                try:
                    self._keep(self.texts)
                except Exception as error:  # noqa: BLE001 - the answer itself is kept at its end, or said not to be
                    _log.warning("conversation %s: a draft was not kept: %s", self.conversation, error)
