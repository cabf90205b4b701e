"""Limits of what a server may send: bytes after decompression, the body of an error, and the time without an event.

A transport around that of the HTTP client. It decompresses by itself, in steps, so that a small body that expands to gigabytes
is left before it is in memory.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator

import httpx2

from turnscope.errors import ProviderError

MAX_ANSWER_BYTES = 64 << 20  # an answer of 128,000 tokens, each in an event of its own, has about 20 MB
MAX_LINE_BYTES = 16 << 20  # of a stream of events; each is one line
MAX_ERROR_BYTES = 1 << 20
STEP = 1 << 16  # bytes of one step
ACCEPTED = "gzip, deflate"
AUTOMATIC = 47  # for zlib: the header says whether it is gzip or deflate
HINT = "What came until then is kept. If the server works as it should, ask it for shorter answers."


class BoundedTransport(httpx2.BaseTransport):
    """A transport that ends an answer at its limits.

    Args:
        inner: The transport that sends the requests.
    """

    def __init__(self, inner: httpx2.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. A `ProviderError` is raised while the answer is read, once it exceeds a limit."""
        request.headers["accept-encoding"] = ACCEPTED
        response = self._inner.handle_request(request)
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            response.close()
            raise ProviderError(f"no answer: the server compresses it with {coding[:20]!r}, which nobody asked for", hint=HINT)
        headers = [pair for pair in response.headers.raw if pair[0].lower() not in (b"content-encoding", b"content-length")]
        events = "event-stream" in response.headers.get("content-type", "")
        seconds = (request.extensions.get("timeout") or {}).get("read") if events else None
        assert isinstance(response.stream, httpx2.SyncByteStream)
        stream = _BoundedStream(
            response.stream, compressed=coding not in ("", "identity"), is_error=response.status_code >= 400, seconds=seconds
        )
        return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=response.extensions)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, *, compressed: bool, is_error: bool, seconds: float | None) -> None:
        self._stream = stream
        self._compressed = compressed
        self._is_error = is_error
        self._seconds = seconds  # without an event, while the server sends comments

    def __iter__(self) -> Iterator[bytes]:
        left = MAX_ERROR_BYTES if self._is_error else MAX_ANSWER_BYTES
        newest, end, line = time.monotonic(), b"", 0
        for chunk in _decompress(self._stream) if self._compressed else self._stream:
            left -= len(chunk)
            if left < 0 and self._is_error:
                return
            line = len(chunk) - newline - 1 if (newline := chunk.rfind(b"\n")) >= 0 else line + len(chunk)
            if left < 0 or (self._seconds and line > MAX_LINE_BYTES):
                most = MAX_ANSWER_BYTES if left < 0 else MAX_LINE_BYTES
                raise ProviderError(f"the answer is larger than {most >> 20} MB and was left", hint=HINT)
            if self._seconds and b"data:" in end + chunk:
                newest = time.monotonic()
            elif self._seconds and time.monotonic() - newest > self._seconds:
                raise httpx2.ReadTimeout(f"no event for {self._seconds} seconds")
            end = chunk[-4:]
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _decompress(stream: httpx2.SyncByteStream) -> Iterator[bytes]:
    """Decompress gzip and deflate, at most a step at a time."""
    inflate, begun = zlib.decompressobj(AUTOMATIC), False
    for chunk in stream:
        data, begun = chunk, True
        while data and not inflate.eof:
            try:
                yield inflate.decompress(data, STEP)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from error
            data = inflate.unconsumed_tail
    if begun and not inflate.eof:
        yield inflate.flush()
