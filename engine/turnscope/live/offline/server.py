"""The HTTP server of the built-in model: `/v1/messages` (streamed or not), `count_tokens`, `models`, and simulated errors."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from turnscope.counting.tokens import count_texts
from turnscope.live.offline import context_edits, edit_validation, validation
from turnscope.live.offline import model as offline
from turnscope.session.content import dumps

JSON = Any
FAULTS = {
    "overloaded": "529: the provider is overloaded",
    "rate_limit": "429: too many requests",
    "server_error": "500: something broke at the provider",
    "too_long": "400: prompt is too long",
    "too_large": "413: the body is too large",
    "cut": "the answer breaks off",
    "malformed": "the answer holds an event that is not JSON",
    "slow": "the answer comes late",
}
_ERRORS = {
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "rate_limit": (429, "rate_limit_error", "This request would exceed your rate limit."),
    "server_error": (500, "api_error", "Internal server error"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
}


class OfflineServer:
    """The server, as a context manager: `with OfflineServer() as server: server.url`.

    It listens on loopback, and accepts any key.

    Args:
        delay: Seconds between the deltas of a stream.
        clock: Gives the time in seconds; the cache expires by it.

    Attributes:
        faults: Names of `FAULTS`; each request uses up one.
        memory: The cache, and every usage that was billed.
        betas: The beta features of each request for an answer.
    """

    def __init__(self, *, delay: float = 0.0, clock: Callable[[], float] = time.time) -> None:
        self.memory = offline.CacheState()
        self.faults: deque[str] = deque()
        self.cut_after, self.slow, self.delay, self.clock = 3, 2.0, delay, clock
        self.lock = threading.Lock()
        self.count = 0
        self.betas: list[tuple[str, ...]] = []
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.offline = self
        threading.Thread(target=self._http.serve_forever, name="offline-model", daemon=True).start()

    @property
    def url(self) -> str:
        """The base address for a client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """Stop the server."""
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def handle_message(self, body: dict[str, JSON]) -> tuple[int, dict[str, JSON]]:
        """Answer a request: return the HTTP status and the message, or an error object."""
        window = offline.WINDOWS.get(body.get("model", ""), offline.WINDOWS["offline-200k"])
        wrong = validation.find_rejection(body)
        if wrong:
            return _build_error(400, "invalid_request_error", wrong)
        if body.get("compaction"):
            return self._handle_compaction(body, window)
        messages = body["messages"]
        body, applied = context_edits.apply_edits(body, offline.count_tokens)
        size = offline.count_tokens(body)
        wished = context_edits.find_due_compaction(body, size)
        passes, first = ([], []) if wished is None else self._run_summary_pass(body, size)
        if wished is not None and size <= window:
            body = {**body, "messages": [{"role": "assistant", "content": first}]}
            if wished.get("pause_after_compaction"):
                return self._build_response(body, first, "compaction", _build_zero_usage() | {"iterations": passes}, applied)
        found = offline.split_prompt(body)
        size = sum(unit.tokens for unit in found)
        if size > window:
            return _build_error(400, "invalid_request_error", f"prompt is too long: {size} tokens > {window} maximum")
        if size + body["max_tokens"] > window:
            what = f"input length and `max_tokens` exceed context limit: {size} + {body['max_tokens']} > {window}"
            return _build_error(400, "invalid_request_error", what)
        sent = [*messages, *({"role": "assistant", "content": first} for _ in passes)]
        blocks = offline.write_answer({**body, "messages": messages}, size, sent)
        blocks, spent, whole = offline.cut_to_limit(blocks, body["max_tokens"], body, sent)
        with self.lock:
            usage = offline.bill_prompt(found, self.memory, self.clock())
        usage["output_tokens"] = spent
        if passes:
            usage["iterations"] = [*passes, {**usage, "type": "message"}]
        stop = "max_tokens" if not whole else "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        return self._build_response(body, [*first, *blocks], stop, usage, applied)

    def _handle_compaction(self, body: dict[str, JSON], window: int) -> tuple[int, dict[str, JSON]]:
        """Answer a request for a compaction on demand, with a summary and nothing else."""
        size = offline.count_tokens(body)
        if size > window:
            return _build_error(400, "invalid_request_error", f"prompt is too long: {size} tokens > {window} maximum")
        passes, (block,) = self._run_summary_pass(body, size)
        block["signature"] = edit_validation.sign_summary(block["content"])
        return self._build_response(body, [block], "compaction", _build_zero_usage() | {"iterations": passes}, [])

    def _run_summary_pass(self, body: dict[str, JSON], size: int) -> tuple[list[JSON], list[JSON]]:
        """Summarise the prompt: return the usage of the pass, and the compaction block."""
        text = context_edits.summarize(body, body["max_tokens"])
        written = count_texts([text], offline.COUNTER)[0]
        usage = _build_zero_usage() | {"type": "compaction", "input_tokens": size, "output_tokens": written}
        return [usage], [{"type": "compaction", "content": text}]

    def _build_response(
        self, body: dict[str, JSON], blocks: list[JSON], stop: str, usage: dict[str, JSON], applied: list[JSON]
    ) -> tuple[int, dict[str, JSON]]:
        with self.lock:
            self.count += 1
            self.memory.billed.append(usage)
            number = self.count
        answer = {
            "id": f"msg_offline_{number:06}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", ""),
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        return 200, answer | ({"context_management": {"applied_edits": applied}} if body.get("context_management") else {})


def _build_zero_usage() -> dict[str, JSON]:
    """Return a usage of no token."""
    return dict.fromkeys(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"), 0)


def _build_error(status: int, kind: str, what: str) -> tuple[int, dict[str, JSON]]:
    return status, {"type": "error", "error": {"type": kind, "message": what}, "request_id": "req_offline"}


def build_events(message: dict[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield the events of a stream that carries a message."""
    head = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    head.pop("context_management", None)
    yield "message_start", {"type": "message_start", "message": head}
    for i, block in enumerate(message["content"]):
        for start, deltas in (_split_block(block),):
            yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": start}
            for delta in deltas:
                yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": i}
    end: dict[str, JSON] = {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}}
    end["usage"] = message["usage"]
    if "context_management" in message:
        end["context_management"] = message["context_management"]
    yield "message_delta", end
    yield "message_stop", {"type": "message_stop"}


def _split_block(block: dict[str, JSON]) -> tuple[JSON, list[JSON]]:
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in _split_text(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _split_text(block["thinking"])]
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "tool_use":
        parts = [{"type": "input_json_delta", "partial_json": part} for part in _split_text(dumps(block["input"]))]
        return {**block, "input": {}}, parts
    if block.get("signature"):  # a compaction on demand is not streamed in parts
        return block, []
    return {"type": "compaction", "content": None}, [{"type": "compaction_delta", "content": block["content"]}]


def _split_text(text: str, size: int = 24) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    offline: OfflineServer


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        """Print nothing: requests hold private text."""

    def do_GET(self) -> None:
        rows = [
            {"type": "model", "id": name, "display_name": name, "max_input_tokens": size}
            for name, size in offline.WINDOWS.items()
        ]
        self.send(200, {"data": rows, "has_more": False, "first_id": None, "last_id": None})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        features = [name.strip() for name in (self.headers.get("anthropic-beta") or "").split(",") if name.strip()]
        if missing := edit_validation.find_missing_beta(body, features):
            self.send(*_build_error(400, "invalid_request_error", missing))
            return
        if self.path.split("?")[0].endswith("/count_tokens"):
            after = offline.count_tokens(context_edits.apply_edits(body, offline.count_tokens)[0])
            before = {"context_management": {"original_input_tokens": offline.count_tokens(body)}}
            self.send(200, {"input_tokens": after} | (before if body.get("context_management") else {}))
            return
        offline_model = self.server.offline
        offline_model.betas.append(tuple(features))
        fault = offline_model.faults.popleft() if offline_model.faults else ""
        if fault == "slow":
            time.sleep(offline_model.slow)
        if fault in _ERRORS:
            status, kind, what = _ERRORS[fault]
            self.send(*_build_error(status, kind, what))
        elif fault == "too_long":
            self.send(*_build_error(400, "invalid_request_error", "prompt is too long: 210883 tokens > 200000 maximum"))
        else:
            status, message = offline_model.handle_message(body)
            if status == 200 and body.get("stream"):
                self.stream(message, fault)
            else:
                self.send(status, message)

    def send(self, status: int, value: JSON) -> None:
        data = dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, message: JSON, fault: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        cut_after, delay = self.server.offline.cut_after, self.server.offline.delay
        try:
            for n, (name, event) in enumerate(build_events(message)):
                if fault == "cut" and n >= cut_after:
                    return
                data = "{not json" if fault == "malformed" and n == cut_after else dumps(event)
                self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
                self.wfile.flush()
                if delay and name == "content_block_delta":
                    time.sleep(delay)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client closed the connection
