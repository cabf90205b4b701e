"""A provider of this machine that answers with given bytes, and keeps every request as it came over its socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Wait = Callable[[], object]
Answer = Iterable[bytes | Wait]  # bytes are sent at once; a function is called, and may wait


@dataclass
class Upstream:
    """`came`: head and body of each request; `closed`: set when a client has closed while it was answered."""

    port: int
    came: list[tuple[bytes, bytes]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    open_ones: list[socket.socket] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close_all(self) -> None:
        """Close all connections."""
        for connection in self.open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def whole(body: bytes, status: str = "200 OK", *headers: str) -> list[bytes]:
    """An answer with its length."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, f"Content-Length: {len(body)}"]
    return ["\r\n".join([*lines, "", ""]).encode() + body]


def stream(*parts: bytes | Wait, headers: Iterable[str] = (), end: bool = True) -> list[bytes | Wait]:
    """An answer of server-sent events in chunks; without its end where `end` is false."""
    head = "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: text/event-stream", *headers, "Transfer-Encoding: chunked", "", ""])
    chunks = [part if callable(part) else b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return [head.encode(), *chunks, *([b"0\r\n\r\n"] if end else [])]


@contextmanager
def serve(*answers: Answer) -> Iterator[Upstream]:
    """Serve the answers, one for each request; the last one again and again."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    upstream = Upstream(listening.getsockname()[1])

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                upstream.connections += 1
                upstream.open_ones.append(connection)
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while request := read_request(connection):
                upstream.came.append(request)
                answer = answers[min(len(upstream.came), len(answers)) - 1]
                if not send(connection, answer):
                    return

    def send(connection: socket.socket, answer: Answer) -> bool:
        is_chunked, last = False, b""
        try:
            for part in answer:
                if callable(part):
                    part()
                else:
                    connection.sendall(part)
                    is_chunked, last = is_chunked or b"Transfer-Encoding: chunked" in part, part
        except OSError:
            upstream.closed.set()
            return False
        return not is_chunked or last == b"0\r\n\r\n"  # an answer that breaks off closes the connection

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield upstream
    finally:
        listening.close()
        upstream.close_all()


def read_request(connection: socket.socket) -> tuple[bytes, bytes] | None:
    """Head and body of the next request; None where the client has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(1 << 16)):
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding") == b"chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(1 << 16)
        return head, join_chunks(body)
    size = int(fields.get(b"content-length", b"0"))
    parts, got = [body], len(body)
    while got < size:
        more = connection.recv(1 << 20)
        if not more:
            return None
        parts.append(more)
        got += len(more)
    return head, b"".join(parts)


def join_chunks(data: bytes) -> bytes:
    """The content of a chunked body."""
    found = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        found, data = found + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return found


def ask(url: str, request: bytes, *, until: bytes = b"") -> bytes:
    """What comes back for a request over a socket of its own: up to some bytes, or until the other side closes or is silent."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request)
        return read_answer(connection, until)


def read_answer(connection: socket.socket, until: bytes = b"") -> bytes:
    """Read up to some bytes; without them the whole answer."""
    data = bytearray()
    while more := connection.recv(1 << 20):
        data += more
        if until and until in data:
            break
        if not until and is_whole(data):
            break
    return bytes(data)


def is_whole(data: bytes | bytearray) -> bool:
    head, mark, body = bytes(data).partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if not mark or head.startswith(b"HTTP/1.1 100"):
        return False
    return body.endswith(b"0\r\n\r\n") if b"transfer-encoding" in fields else len(body) >= int(fields[b"content-length"])


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)
