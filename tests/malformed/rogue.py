"""A server of the Messages API that does one wrong thing when told to, and otherwise answers as it should.

A misbehaviour is a function of the handler: it writes what goes over the wire. Most are made from the frames of a good answer.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Wrong = Callable[["Handler"], None]
WORDS = ("Grüße ", "from ", "Zürich.")
SAID = "".join(WORDS)
USAGE = {"input_tokens": 40, "output_tokens": 9}


def message(**more: Any) -> dict[str, Any]:
    """A whole answer in one piece."""
    text = {"type": "text", "text": SAID}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "local", "stop_sequence": None}
    return head | {"content": [text], "stop_reason": "end_turn", "usage": USAGE} | more


def events(*blocks: Sequence[dict[str, Any]], reason: str = "end_turn", usage: Any = USAGE) -> list[dict[str, Any]]:
    """A good answer as its events. Each of `blocks` is how it begins, then its deltas."""
    blocks = blocks or (({"type": "text", "text": ""}, *({"type": "text_delta", "text": word} for word in WORDS)),)
    start = message(content=[], stop_reason=None, usage=usage)
    found = [{"type": "message_start", "message": start}]
    for index, (block, *deltas) in enumerate(blocks):
        found.append({"type": "content_block_start", "index": index, "content_block": block})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    found.append({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    return [*found, {"type": "message_stop"}]


def call(given: Any, **more: Any) -> list[dict[str, Any]]:
    """The events of an answer that calls a tool; `given` is its input, as text that is streamed."""
    block = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}} | more
    return events((block, {"type": "input_json_delta", "partial_json": given}), reason="tool_use")


def frame(event: Any, *, ascii: bool = False) -> bytes:
    """An event as it is written."""
    name = event.get("type", "x") if isinstance(event, dict) else "content_block_delta"
    return f"event: {name}\ndata: {json.dumps(event, ensure_ascii=ascii)}\n\n".encode("utf-8", "surrogatepass")


def stream(found: Sequence[Any], *, ascii: bool = False) -> Wrong:
    """Events, one after the other."""
    return raw(b"".join(frame(event, ascii=ascii) for event in found))


def raw(data: bytes, kind: str = "text/event-stream", status: int = 200, *, reset: bool = False, **headers: str) -> Wrong:
    """Any bytes. `reset`: then the connection is not closed but reset."""

    def write(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.send_header("connection", "close")
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)
        handler.wfile.flush()
        handler.close_connection = True
        if reset:
            time.sleep(0.005)  # what was written arrives
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()

    return write


def refusal(status: int, words: str, **more: Any) -> Wrong:
    """An error object with a status."""
    value = {"type": "error", "error": {"type": "invalid_request_error", "message": words} | more}
    return raw(json.dumps(value).encode(), "application/json", status)


def silent(handler: Handler) -> None:
    """The beginning of an answer, then nothing."""
    raw(b"".join(map(frame, events()[:4])))(handler)
    time.sleep(0.6)


def hold(going_on: threading.Event, most: float = 120) -> Wrong:
    """A good answer with thinking, which stops before its text until the event is set, for `most` seconds at most."""
    thinking = ({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking_delta", "thinking": "It is far. "})
    text = ({"type": "text", "text": ""}, {"type": "text_delta", "text": SAID})
    found = events(thinking, text)

    def write(handler: Handler) -> None:
        raw(b"".join(map(frame, found[:3])))(handler)
        going_on.wait(most)
        handler.wfile.write(b"".join(map(frame, found[3:])))
        handler.wfile.flush()

    return write


class Rogue:
    """The server. `wrongs` are done in order, one per request; `bodies` is what it was sent."""

    def __init__(self) -> None:
        self.wrongs: deque[Wrong] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.counts = False  # whether it has an endpoint for counting
        self._http = _Http(("127.0.0.1", 0), Handler)
        self._http.rogue = self
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    rogue: Rogue

    def handle_error(self, *_: Any) -> None:
        """A connection that was reset on purpose is no news."""


class Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    body: dict[str, Any]

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        raw(b"{}", "application/json", 404)(self)

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        rogue = self.server.rogue
        if self.path.split("?")[0].endswith("/count_tokens") and not rogue.counts:
            refusal(404, "not found")(self)
            return
        rogue.bodies.append(self.body)
        rogue.heads.append({name.lower(): value for name, value in self.headers.items()})
        good = stream(events()) if self.body.get("stream") else raw(json.dumps(message()).encode(), "application/json")
        (rogue.wrongs.popleft() if rogue.wrongs else good)(self)
