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
from turnscope.live.events import Kept, Unkept
from turnscope.session.model import Request
from turnscope.storage.database import StorageError

PAUSE = 1.0  # seconds between two tries
TRIES = 60  # of one turn; what is still not written then is tried before whatever is written next
TICK = 0.5  # seconds between two looks at what there is to draft

_log = logging.getLogger(__name__)
Write = Callable[[], None]


@runtime_checkable
class Begins(Protocol):
    """A sink that keeps a request from before it is sent, and what is shown of its answer meanwhile."""

    def began(self, request: Request, plan: Plan) -> None:
        """A request is about to be sent."""

    def draft(self, texts: Sequence[str]) -> None:
        """What was shown so far of its answer."""


def _waited(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@dataclass(slots=True)
class Keeping:
    """Writes that wait for their store."""

    waiting: deque[Write] = field(default_factory=deque)
    last: StorageError | None = None

    def do(self, write: Write) -> None:
        """Write now, or as soon as it can be done, after all that waits already."""
        self.waiting.append(write)
        try:
            self.flush()
        except StorageError as error:
            self.last = error

    def flush(self) -> None:
        """Write what waits. StorageError: it cannot be written yet, and waits on."""
        while self.waiting:
            try:
                self.waiting[0]()
            except StorageError:
                raise
            except Exception:
                self.waiting.clear()  # another window has taken the place: it will never be written
                raise
            self.waiting.popleft()
        self.last = None

    def settle(self, left: Callable[[float], bool] = _waited) -> Iterator[Unkept | Kept]:
        """Say that something waits, try until it is written, and say that it is. `left` waits some seconds; true: no more."""
        if not self.waiting or self.last is None:
            return
        yield Unkept(self.last)
        for _ in range(TRIES):
            try:
                self.flush()
            except StorageError as error:
                self.last = error
                if left(PAUSE):
                    return
            else:
                yield Kept()
                return


class Draft:
    """What was delivered of an answer, by block; handed on every half second while it grows, by a thread of its own."""

    def __init__(self, keep: Callable[[Sequence[str]], None] | None, conversation: str) -> None:
        self.conversation = conversation
        self._keep, self._texts = keep, dict[int, str]()
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
        while not self._over.wait(TICK):
            if self._new.is_set():
                self._new.clear()
                try:
                    self._keep(self.texts)
                except Exception as error:  # noqa: BLE001 - the answer itself is kept at its end, or said not to be
                    _log.warning("conversation %s: a draft was not kept: %s", self.conversation, error)
