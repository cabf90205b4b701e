"""A server of this machine that gives one answer after the other, for what asks other servers for JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import GeneratorType
from typing import Any


@contextmanager
def serve(answers: list[tuple[int, dict[str, str], Any]]) -> Iterator[tuple[str, list[Any]]]:
    """A server that gives these answers one after the other: address, and the requests that came. A generator is a stream."""
    came: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            came.append((self.path, dict(self.headers.items()), json.loads(self.rfile.read(size) or b"null")))
            status, head, body = answers[len(came) - 1]
            data = body if isinstance(body, bytes | GeneratorType) else json.dumps(body).encode()
            size = {} if isinstance(data, GeneratorType) else {"content-length": str(len(data))}
            self.send_response(status)
            for name, value in {"content-type": "application/json", **size, **head}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # whoever asked has heard enough
                for part in data if isinstance(data, GeneratorType) else [data]:
                    self.wfile.write(part)

        do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
