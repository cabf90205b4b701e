"""A turn that somebody may leave at any moment, whatever it waits for: a server that is silent, a name that is not resolved.

What may take long is done in a thread of its own. Who leaves does not wait for it: its connections are shut, and what still
comes of it is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, ProviderAnswer, StreamChunk
from turnscope.session.destination import Destination
from turnscope.session.model import JSON

T = TypeVar("T")


class TurnCancelled(GeneratorExit):
    """The person has left: a turn ends as if its iterator had been closed."""


@runtime_checkable
class SupportsCancel(Protocol):
    """A provider that can be told to end what is under way."""

    def cancel(self) -> None:
        """Shut the connections of all requests that were begun before; later ones go on as ever."""


class Cancellation:
    """One turn's way out. `leave` may be called from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._waiting: SimpleQueue[Any] | None = None
        self._lock = threading.Lock()

    def is_cancelled(self, wait_seconds: float = 0.0) -> bool:
        """Whether it was left, or is within so many seconds, which are waited."""
        return self._cancelled.wait(wait_seconds)

    def cancel(self) -> None:
        """End whatever the turn waits for, now and from now on."""
        with self._lock:
            self._cancelled.set()
            if self._waiting is not None:
                self._waiting.put((None, TurnCancelled()))

    def call(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises. Left: it was left, and goes on by itself."""
        pipe: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

        def run() -> None:
            try:
                pipe.put((work(), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                pipe.put((None, error))

        self._start_thread(pipe, run)
        given: T = _take(pipe)
        return given

    @contextmanager
    def stream(self, opening: AbstractContextManager[Iterator[T]]) -> Iterator[Iterator[T]]:
        """A stream that is opened, read and closed elsewhere. Left, on entering and from the iterator: it was left."""
        pipe: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        over, end = threading.Event(), object()

        def run() -> None:
            try:
                with opening as pieces:
                    pipe.put((None, None))
                    for piece in pieces:
                        if over.is_set():
                            break
                        pipe.put((piece, None))
                pipe.put((end, None))
            except BaseException as error:  # noqa: BLE001 - as above
                pipe.put((None, error))

        def read() -> Iterator[T]:
            while (piece := _take(pipe)) is not end:
                yield piece

        self._start_thread(pipe, run)
        try:
            _take(pipe)
            pieces = read()
            yield pieces
            over.set()
            for _ in pieces:  # until it is closed: the connection can serve the next request
                pass
        finally:
            over.set()

    def _start_thread(self, pipe: SimpleQueue[Any], run: Callable[[], None]) -> None:
        with self._lock:
            if self._cancelled.is_set():
                raise TurnCancelled
            self._waiting = pipe
        threading.Thread(target=run, name="chat request", daemon=True).start()


def _take(pipe: SimpleQueue[tuple[Any, BaseException | None]]) -> Any:
    given, error = pipe.get()
    if error is not None:
        raise error
    return given


@dataclass(frozen=True, slots=True)
class CancellableProvider:
    """A provider whose every call can be left."""

    provider: Provider
    cancellation: Cancellation

    @property
    def place(self) -> Destination:
        """See `Provider`."""
        return self.provider.place

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
        """See `Provider`."""
        with self._cancel_on_exit(), self.cancellation.stream(self.provider.stream(body)) as pieces:
            yield pieces

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        with self._cancel_on_exit():
            return self.cancellation.call(lambda: self.provider.complete(body))

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        with self._cancel_on_exit():
            return self.cancellation.call(lambda: self.provider.count_tokens(body))

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        return self.provider.explain_error(error)

    @contextmanager
    def _cancel_on_exit(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:  # left, or closed amid the answer
            if isinstance(self.provider, SupportsCancel):
                self.provider.cancel()
            raise
