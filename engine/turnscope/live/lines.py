"""The connections of one HTTP client, so that they can be shut while another thread waits for what they bring."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class Lines:
    """Open connections, known through the client's own trace of a request. Requests that were left are not sent again."""

    def __init__(self) -> None:
        self._open: WeakSet[socket.socket] = WeakSet()
        self._lock = threading.Lock()
        self._left = 0  # how often
        self._mine = threading.local()

    def begin(self) -> None:
        """A call of this thread begins: its request, and those that repeat it after an error."""
        self._mine.begun = self._left

    def request(self, request: Any) -> None:
        """A hook of the client, before each request is sent. ConnectionError: the call was left."""
        self._check()
        request.extensions = {**request.extensions, "trace": self._trace}

    def leave(self) -> None:
        """Shut all connections: who waits for them sees them end, and the server that nobody listens."""
        with self._lock:
            self._left += 1
            for line in self._open:
                _shut(line)

    def _trace(self, name: str, info: dict[str, Any]) -> None:
        if not name.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        line = info["return_value"].get_extra_info("socket")
        if isinstance(line, socket.socket):
            with self._lock:
                self._open.add(line)
        self._check()

    def _check(self) -> None:
        if getattr(self._mine, "begun", self._left) != self._left:
            raise ConnectionError("the request was left")


def _shut(line: socket.socket) -> None:
    with suppress(OSError):  # closed already
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # not the one of TLS, which would first forget its keys
