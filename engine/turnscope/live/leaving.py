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
from turnscope.live.provider import Piece, Provider, Said
from turnscope.session.destination import Destination
from turnscope.session.model import JSON

T = TypeVar("T")


class Left(GeneratorExit):
    """The person has left: a turn ends as if its iterator had been closed."""


@runtime_checkable
class Leaves(Protocol):
    """A provider that can be told to end what is under way."""

    def leave(self) -> None:
        """Shut the connections of all requests that were begun before; later ones go on as ever."""


class Leaving:
    """One turn's way out. `leave` may be called from any thread."""

    def __init__(self) -> None:
        self._left = threading.Event()
        self._waiting: SimpleQueue[Any] | None = None
        self._lock = threading.Lock()

    def left(self, within: float = 0.0) -> bool:
        """Whether it was left, or is within so many seconds, which are waited."""
        return self._left.wait(within)

    def leave(self) -> None:
        """End whatever the turn waits for, now and from now on."""
        with self._lock:
            self._left.set()
            if self._waiting is not None:
                self._waiting.put((None, Left()))

    def call(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises. Left: it was left, and goes on by itself."""
        pipe: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

        def run() -> None:
            try:
                pipe.put((work(), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                pipe.put((None, error))

        self._begin(pipe, run)
        given: T = _taken(pipe)
        return given

    @contextmanager
    def streamed(self, opening: AbstractContextManager[Iterator[T]]) -> Iterator[Iterator[T]]:
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
            while (piece := _taken(pipe)) is not end:
                yield piece

        self._begin(pipe, run)
        try:
            _taken(pipe)
            pieces = read()
            yield pieces
            over.set()
            for _ in pieces:  # until it is closed: the connection can serve the next request
                pass
        finally:
            over.set()

    def _begin(self, pipe: SimpleQueue[Any], run: Callable[[], None]) -> None:
        with self._lock:
            if self._left.is_set():
                raise Left
            self._waiting = pipe
        threading.Thread(target=run, name="chat request", daemon=True).start()


def _taken(pipe: SimpleQueue[tuple[Any, BaseException | None]]) -> Any:
    given, error = pipe.get()
    if error is not None:
        raise error
    return given


@dataclass(frozen=True, slots=True)
class Leavable:
    """A provider whose every call can be left."""

    provider: Provider
    leaving: Leaving

    @property
    def place(self) -> Destination:
        """See `Provider`."""
        return self.provider.place

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[Piece]]:
        """See `Provider`."""
        with self._left(), self.leaving.streamed(self.provider.stream(body)) as pieces:
            yield pieces

    def say(self, body: Mapping[str, JSON]) -> Said:
        """See `Provider`."""
        with self._left():
            return self.leaving.call(lambda: self.provider.say(body))

    def count(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        with self._left():
            return self.leaving.call(lambda: self.provider.count(body))

    def explain(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        return self.provider.explain(error)

    @contextmanager
    def _left(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:  # left, or closed amid the answer
            if isinstance(self.provider, Leaves):
                self.provider.leave()
            raise
