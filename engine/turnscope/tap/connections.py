"""Connections to providers for the HTTP client, on asyncio alone. What comes is kept until it is read.

With the client's own ones each part of an answer cost two system calls, to start and to stop reading, and a look at which event
loop runs; and each request asked every idle connection whether it is still open. Here its end is known when it comes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore2

MOST_BYTES = 1 << 18  # that wait to be read: beyond it nothing more is taken from the socket
NEXT_ADDRESS_SECONDS = 0.25  # after which another address of a host is tried as well


class AsyncioNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Connection:
        """Open a connection.

        Args:
            host: Name or address.
            port: The port.
            timeout: Seconds that it may take; None = any.
            local_address: Ignored: the tap names none.
            socket_options: Ignored as well.

        Raises:
            httpcore2.ConnectError: There is none.
            httpcore2.ConnectTimeout: It took too long.
        """
        try:
            async with asyncio.timeout(timeout):
                loop = asyncio.get_running_loop()
                opened = await loop.create_connection(Connection, host, port, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"{host} took longer than {timeout:g} seconds") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return opened[1]


class Connection(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection. One task reads and writes at a time."""

    def __init__(self) -> None:
        self._came = bytearray()
        self._ended = False  # nothing more comes
        self._error: Exception | None = None
        self._is_paused = self._is_full = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._came += data
        if len(self._came) > MOST_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        """See asyncio. The other side may still read."""
        self._ended = True
        _wake(self._reader)
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._ended, self._error = True, exc or self._error
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        """See asyncio."""
        self._is_full = True

    def resume_writing(self) -> None:
        """See asyncio."""
        self._is_full = False
        _wake(self._writer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what has come; b"" at the end.

        Args:
            max_bytes: How many bytes at most.
            timeout: Ignored: it waits as long as it takes.

        Raises:
            httpcore2.ReadError: The connection broke off.
        """
        if not self._came and not self._ended:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self._came and self._error:
            raise httpcore2.ReadError(str(self._error)) from self._error
        data = bytes(self._came[:max_bytes])
        del self._came[:max_bytes]
        if self._is_paused and len(self._came) <= MOST_BYTES:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write bytes, and wait while the other side takes none.

        Args:
            buffer: The bytes.
            timeout: Ignored: it waits as long as it takes.

        Raises:
            httpcore2.WriteError: The connection is closed.
        """
        if not self._transport.is_closing():
            self._transport.write(buffer)
        if self._is_full and not self._transport.is_closing():
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if self._transport.is_closing():
            raise httpcore2.WriteError(str(self._error or "the connection is closed"))

    async def aclose(self) -> None:
        """Close the connection. What was not sent yet is not sent."""
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Connection:
        """Go on encrypted.

        Args:
            ssl_context: Whom to trust.
            server_hostname: The name that the certificate has to show.
            timeout: Seconds that it may take; None = any.

        Raises:
            httpcore2.ConnectError: The other side cannot do so, or is not trusted.
            httpcore2.ConnectTimeout: It took too long.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                encrypted = await loop.start_tls(self._transport, self, ssl_context, server_hostname=server_hostname)
        except TimeoutError as error:
            self._transport.abort()
            raise httpcore2.ConnectTimeout(f"{server_hostname} took longer than {timeout:g} seconds to encrypt") from error
        except OSError as error:  # also what is wrong with a certificate
            self._transport.abort()
            raise httpcore2.ConnectError(str(error)) from error
        self._transport = cast("asyncio.Transport", encrypted)
        return self

    def get_extra_info(self, info: str) -> Any:
        """See httpcore2: whether there is something to read, which of an idle connection is its end; and what encrypts it."""
        return bool(self._came) or self._ended if info == "is_readable" else self._transport.get_extra_info(info)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
