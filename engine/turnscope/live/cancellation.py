"""Cancel a turn at any moment, whatever it waits for: a silent server, a name that is not resolved, a slow tool.

Slow work runs in a thread of its own. Cancelling does not wait for that thread: its connections are closed, and its results are
thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, ProviderAnswer, StreamChunk, SupportsEmbeddings, SupportsModels
from turnscope.session.destination import Destination
from turnscope.session.model import JSON

T = TypeVar("T")


class TurnCancelled(GeneratorExit):
    """The turn was cancelled. It ends as if its iterator had been closed."""


@runtime_checkable
class SupportsCancel(Protocol):
    """A provider that can end its open requests."""

    def cancel(self) -> None:
        """Close the connections of all open requests. Later requests are not affected."""


class Cancellation:
    """Cancels one turn. `cancel` may be called from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._waiting: SimpleQueue[Any] | None = None
        self._lock = threading.Lock()

    def is_cancelled(self, wait_seconds: float = 0.0) -> bool:
        """Return whether the turn is cancelled.

        Args:
            wait_seconds: How long to wait for a cancellation before answering.
        """
        return self._cancelled.wait(wait_seconds)

    def cancel(self) -> None:
        """End whatever the turn waits for, and whatever it would wait for from now on."""
        with self._lock:
            self._cancelled.set()
            if self._waiting is not None:
                self._waiting.put((None, TurnCancelled()))

    def call(self, work: Callable[[], T]) -> T:
        """Run a function in a thread of its own and return its result.

        Raises:
            TurnCancelled: The turn was cancelled. The function runs on, and its result is thrown away.
        """
        pipe: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

        def run() -> None:
            try:
                pipe.put((work(), None))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                pipe.put((None, error))

        self._start_thread(pipe, run)
        result: T = _take(pipe)
        return result

    @contextmanager
    def stream(self, opening: AbstractContextManager[Iterator[T]]) -> Iterator[Iterator[T]]:
        """Open, read and close a stream in a thread of its own.

        Args:
            opening: The stream, as a context manager that is not entered yet.

        Raises:
            TurnCancelled: The turn was cancelled; on entering, or while the stream is read.
        """
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
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
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
            for _ in pieces:  # read to the end, so that the connection can serve the next request
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
    result, error = pipe.get()
    if error is not None:
        raise error
    return result


@dataclass(frozen=True, slots=True)
class CancellableProvider:
    """A provider whose calls end when the turn is cancelled. See `Provider` for the methods."""

    provider: Provider
    cancellation: Cancellation

    @property
    def destination(self) -> Destination:
        """See `Provider`."""
        return self.provider.destination

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

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """See `SupportsEmbeddings`."""
        provider = self.provider
        if not isinstance(provider, SupportsEmbeddings):
            raise ProviderError("this provider has no endpoint for embeddings", hint="Name a model of this machine.")
        with self._cancel_on_exit():
            return self.cancellation.call(lambda: provider.embed(model, texts))

    def list_models(self) -> list[str]:
        """See `SupportsModels`."""
        provider = self.provider
        if not isinstance(provider, SupportsModels):
            return []
        with self._cancel_on_exit():
            return self.cancellation.call(provider.list_models)

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        return self.provider.explain_error(error)

    @contextmanager
    def _cancel_on_exit(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:  # cancelled, or the stream was closed before its end
            if isinstance(self.provider, SupportsCancel):
                self.provider.cancel()
            raise
