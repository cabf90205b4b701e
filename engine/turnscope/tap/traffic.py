"""Counts what passes a tap: requests, clients, rate, errors. `WatchedRecorder` records and counts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from turnscope.tap.recorder import Headers, Recorder

MINUTE = 60.0  # seconds over which the rate is measured
MOST_CLIENTS = 50  # clients that are told apart; further ones are counted as one
NO_NAME, OTHERS = "no name", "others"
FAILED = "provider failed"  # the outcome of a request that its provider gave no answer to, or no whole one


@dataclass(frozen=True, slots=True)
class Client:
    """A client by the name that it gives itself. `last_at`: when its last request came, in seconds since the Unix epoch."""

    name: str
    requests: int = 0
    errors: int = 0
    last_at: float = 0.0


@dataclass(frozen=True, slots=True)
class TrafficState:
    """What has passed so far.

    Attributes:
        requests: Since the start.
        running: Those that are not answered yet.
        errors: Those that the provider refused, or did not answer.
        per_minute: Requests of the last minute.
        clients: The one that was there last first.
        last_error: Why the last of the errors failed; "" = there was none.
        last_error_at: When that was, in seconds since the Unix epoch.
    """

    requests: int = 0
    running: int = 0
    errors: int = 0
    per_minute: int = 0
    clients: tuple[Client, ...] = ()
    last_error: str = ""
    last_error_at: float = 0.0


@dataclass(slots=True)
class Traffic:
    """Counts requests. Its methods may be called from any thread.

    Attributes:
        clock: Gives the time in seconds since the Unix epoch.
    """

    clock: Callable[[], float] = time.time
    _clients: dict[str, Client] = field(default_factory=dict)
    _open: dict[int, str] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)
    _last_error: tuple[str, float] = ("", 0.0)
    _lock: Lock = field(default_factory=Lock)

    def begin(self, number: int, headers: Headers) -> None:
        """Count a request.

        Args:
            number: Number of the call; 0 = it is not recorded, and counts nevertheless.
            headers: Its headers.
        """
        name = _read_client(headers)
        with self._lock:
            if name not in self._clients and len(self._clients) >= MOST_CLIENTS:
                name = OTHERS
            known = self._clients.get(name, Client(name))
            self._clients[name] = replace(known, requests=known.requests + 1, last_at=self.clock())
            self._recent.append(self.clock())
            self._forget_old()
            if number:
                self._open[number] = name

    def fail(self, number: int, why: str) -> None:
        """Count a request as failed.

        Args:
            number: Number of the call.
            why: The reason.
        """
        with self._lock:
            name = self._open.get(number, "")
            if name in self._clients:
                known = self._clients[name]
                self._clients[name] = replace(known, errors=known.errors + 1)
                self._last_error = (f"{name}: {why}", self.clock())

    def end(self, number: int) -> None:
        """Count a request as answered."""
        with self._lock:
            self._open.pop(number, None)

    def read(self) -> TrafficState:
        """Return what has passed so far."""
        with self._lock:
            self._forget_old()
            clients = tuple(sorted(self._clients.values(), key=lambda one: -one.last_at))
            requests, errors = sum(one.requests for one in clients), sum(one.errors for one in clients)
            return TrafficState(requests, len(self._open), errors, len(self._recent), clients, *self._last_error)

    def _forget_old(self) -> None:
        while self._recent and self._recent[0] < self.clock() - MINUTE:
            self._recent.popleft()


class WatchedRecorder(Recorder):
    """A recorder that counts what it records.

    Args:
        path: The file.
        command: The command that the tap runs; () = none.
        report: Is told once when recording fails, and when it works again.
        traffic: What counts.
    """

    def __init__(self, path: Path, command: Sequence[str], report: Callable[[str], None], traffic: Traffic) -> None:
        self.traffic = traffic
        super().__init__(path, command, report)

    def begin(self, api: str, url: str, headers: Headers, body: Sequence[bytes], secrets: Iterable[str], sent_at: float) -> int:
        """Record a request, and count it. Gives the number of its call; 0 where it is not recorded.

        Args:
            api: The API.
            url: The address, without its query.
            headers: Its headers.
            body: Its body as it was sent, in parts.
            secrets: Texts that are not to be stored.
            sent_at: When it was sent, in seconds since the Unix epoch.
        """
        sent = list(headers)
        number = super().begin(api, url, sent, body, secrets, sent_at)
        self.traffic.begin(number, sent)
        return number

    def answer(self, number: int, status: int, headers: Headers) -> None:
        """Record the head of an answer, and count it where it is a refusal.

        Args:
            number: Number of the call.
            status: The HTTP status.
            headers: The headers.
        """
        super().answer(number, status, headers)
        if status >= 400:
            self.traffic.fail(number, f"status {status}")

    def end(self, number: int, outcome: str, why: str = "") -> None:
        """Record how a call ended, and count it.

        Args:
            number: Number of the call.
            outcome: "complete", or what went wrong.
            why: More about that.
        """
        super().end(number, outcome, why)
        if outcome == FAILED:
            self.traffic.fail(number, why)
        self.traffic.end(number)


def _read_client(headers: Headers) -> str:
    """The name and version that a client gives itself."""
    given = next((value for name, value in headers if name.lower() == b"user-agent"), b"").decode("latin-1")
    name, _, rest = given.partition(" ")
    version = rest.partition(" ")[0]  # SDKs name themselves "Anthropic/Python 2.14.0"
    return (f"{name} {version}" if version[:1].isdigit() else name)[:60] or NO_NAME
