"""The open connections of one HTTP client. Closing them wakes up a thread that waits for an answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class HttpConnections:
    """The open sockets of an HTTP client, as its request trace reports them.

    `cancel` closes them all. The client's own retries do not send a cancelled request again. Later calls are not affected.
    """

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = threading.Lock()
        self._cancel_count = 0  # how often `cancel` was called; a call that began before the last time is cancelled
        self._thread = threading.local()

    def start_call(self) -> None:
        """Begin a call in this thread: one request and its retries."""
        self._thread.cancel_count = self._cancel_count

    def watch_request(self, request: Any) -> None:
        """Watch a request for new sockets. Use it as the client's "request" hook: it runs before each request is sent.

        Raises:
            ConnectionError: The call was cancelled.
        """
        self._check_cancelled()
        request.extensions = {**request.extensions, "trace": self._watch_sockets}

    def cancel(self) -> None:
        """Close all connections. Threads that read from them get an error, and the server notices that the client is gone."""
        with self._lock:
            self._cancel_count += 1
            for connection in self._sockets:
                _shut_down(connection)

    def _watch_sockets(self, name: str, info: dict[str, Any]) -> None:
        if not name.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        connection = info["return_value"].get_extra_info("socket")
        if isinstance(connection, socket.socket):
            with self._lock:
                self._sockets.add(connection)
        self._check_cancelled()

    def _check_cancelled(self) -> None:
        if getattr(self._thread, "cancel_count", self._cancel_count) != self._cancel_count:
            raise ConnectionError("the request was cancelled")


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        # The plain socket's method: that of a TLS socket drops its keys first, while another thread still reads.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
