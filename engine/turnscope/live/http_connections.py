"""The open connections of one HTTP client. Closing them wakes up a thread that waits for an answer.

And what a provider's client may send: to an address that a user typed, nothing but the request and the key typed for it.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import httpx2

from turnscope.live import request_headers
from turnscope.live.bounded_transport import BoundedTransport

_ALLOWED_HEADERS = re.compile(
    "host|accept|accept-encoding|connection|content-type|content-length|transfer-encoding|user-agent|authorization"
    "|anthropic-(?:version|beta)|x-stainless-.*|idempotency-key",
    re.IGNORECASE,
)


def list_client_options(connections: HttpConnections, key_headers: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the options of an SDK's HTTP client. Redirects are not followed.

    Args:
        connections: Watches the client's connections.
        key_headers: The headers with the key for an address that a user typed: no other header of the environment is sent
            there, no proxy of the environment is used, and its answers have limits. None = a vendor's own API.
    """
    hooks = [connections.watch_request, *(() if key_headers is None else (partial(_strip_headers, key_headers),))]
    direct = {} if key_headers is None else dict.fromkeys(("all://", "http://", "https://"))  # SDKs look for proxies themselves
    options = {
        "follow_redirects": False,
        "trust_env": key_headers is None,
        "event_hooks": {"request": hooks},
        "mounts": direct,
    }
    if key_headers is not None:  # with a transport of ours, the client would use no proxy of the environment
        options["transport"] = BoundedTransport(httpx2.HTTPTransport(trust_env=False))
    return options


def _strip_headers(key_headers: Mapping[str, str], request: Any) -> None:
    """Remove all headers that are not of the API or of the conversation, and set the key."""
    ours = {name.lower() for name in request_headers.list_header_names()}
    for name in [name for name in request.headers if not _ALLOWED_HEADERS.fullmatch(name) and name.lower() not in ours]:
        del request.headers[name]
    for name, value in key_headers.items():
        request.headers[name] = value


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
