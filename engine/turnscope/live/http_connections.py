"""The connections of one HTTP client, so that they can be shut while another thread waits for what they bring."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class HttpConnections:
    """Open connections, known through the client's own trace of a request. Requests that were left are not sent again."""

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = threading.Lock()
        self._cancel_count = 0  # how often
        self._thread = threading.local()

    def start_call(self) -> None:
        """A call of this thread begins: its request, and those that repeat it after an error."""
        self._thread.cancel_count = self._cancel_count

    def watch_request(self, request: Any) -> None:
        """A hook of the client, before each request is sent. ConnectionError: the call was left."""
        self._check_cancelled()
        request.extensions = {**request.extensions, "trace": self._watch_sockets}

    def cancel(self) -> None:
        """Shut all connections: who waits for them sees them end, and the server that nobody listens."""
        with self._lock:
            self._cancel_count += 1
            for line in self._sockets:
                _shut_down(line)

    def _watch_sockets(self, name: str, info: dict[str, Any]) -> None:
        if not name.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        line = info["return_value"].get_extra_info("socket")
        if isinstance(line, socket.socket):
            with self._lock:
                self._sockets.add(line)
        self._check_cancelled()

    def _check_cancelled(self) -> None:
        if getattr(self._thread, "cancel_count", self._cancel_count) != self._cancel_count:
            raise ConnectionError("the request was left")


def _shut_down(line: socket.socket) -> None:
    with suppress(OSError):  # closed already
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # not the one of TLS, which would first forget its keys
