"""A provider of this machine that speaks four APIs, calls a tool in each answer, and rejects what providers reject.

It streams where a request wants that.
A call without a result behind it, a result without its call, an empty conversation, a prompt that is larger than the window:
the rules are those of `planning.lint`, read from the body itself. Tokens are counted by characters.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from turnscope.planning.lint import lint
from turnscope.tap.apis import detect_api, find_model
from turnscope.tap.client_bodies import parse_client_body

SUMMARY = "They read many files and found nothing of note."


@dataclass
class StrictUpstream:
    """`bodies`: every body that came, in order; `rejected`: why some were; `asked`: those of requests for a summary."""

    window: int
    bodies: list[Any] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, text: str) -> tuple[int, Any]:
        """Status and body of an answer."""
        api, body = detect_api(path.partition("?")[0]), json.loads(text)
        size = len(text) // 4
        if "<transcript>" in text:
            self.asked.append(body)
            return 200, write(api, len(self.bodies), size, find_model(path) or body.get("model"), summary=True)
        self.bodies.append(body)
        self.texts.append(text)
        if wrong := self._find_wrong(api, text, body, size):
            self.rejected.append(wrong)
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": wrong}}
        return 200, write(api, len(self.bodies), size, find_model(path) or body.get("model"))

    def _find_wrong(self, api: str, text: str, body: Any, size: int) -> str:
        read = parse_client_body(api, text, "m")
        messages = [{"role": one.role, "content": one.parts[0] if one.bare else one.parts} for one in read.messages]
        whole = body if api == "anthropic-messages" else {"messages": messages}
        found = [each for each in lint(whole, read.model) if api == "anthropic-messages" or "result" in each.what]
        if found or not messages:
            return f"{found[0].path}: {found[0].what}" if found else "there is no message"
        return f"prompt is too long: {size} tokens > {self.window} maximum" if size > self.window else ""


def write(api: str, number: int, size: int, model: str, *, summary: bool = False) -> Any:
    """An answer that calls the tool `read`, or a summary."""
    call, path = f"call_{number}", f"src/file_{number}.py"
    if api == "anthropic-messages":
        use = {"type": "tool_use", "id": call, "name": "read", "input": {"path": path}}
        content = [{"type": "text", "text": SUMMARY}] if summary else [{"type": "text", "text": f"Step {number}."}, use]
        usage = {"input_tokens": size, "output_tokens": 20}
        about = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
        return about | {"content": content, "stop_reason": "end_turn" if summary else "tool_use", "usage": usage}
    if api == "openai-chat":
        function = {"name": "read", "arguments": json.dumps({"path": path})}
        message = {"role": "assistant", "content": SUMMARY if summary else f"Step {number}."}
        message |= {} if summary else {"tool_calls": [{"id": call, "type": "function", "function": function}]}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if summary else "tool_calls"}
        usage = {"prompt_tokens": size, "completion_tokens": 20, "total_tokens": size + 20}
        return {
            "id": f"c{number}",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [choice],
            "usage": usage,
        }
    if api == "openai-responses":
        content = [{"type": "output_text", "text": SUMMARY if summary else f"Step {number}.", "annotations": []}]
        output = [{"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": content}]
        item = {
            "type": "function_call",
            "id": f"f{number}",
            "call_id": call,
            "name": "read",
            "arguments": json.dumps({"path": path}),
        }
        usage = {"input_tokens": size, "output_tokens": 20, "total_tokens": size + 20}
        about = {"id": f"r{number}", "object": "response", "created_at": 1, "status": "completed", "model": model}
        about |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
        return about | {"output": output if summary else [*output, item]}
    part = {"functionCall": {"name": "read", "args": {"path": path}}}
    parts = [{"text": SUMMARY}] if summary else [{"text": f"Step {number}."}, part]
    usage = {"promptTokenCount": size, "candidatesTokenCount": 20, "totalTokenCount": size + 20}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


def to_events(api: str, answer: Any) -> bytes:
    """The same answer as a stream."""
    if api == "anthropic-messages":
        events = [*_to_anthropic_events(answer)]
    elif api == "openai-chat":
        chunk = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        said = answer["choices"][0]["message"]
        calls = [{**call, "index": number} for number, call in enumerate(said.get("tool_calls", []))]
        delta = {"role": "assistant", "content": said["content"]} | ({"tool_calls": calls} if calls else {})
        reason = answer["choices"][0]["finish_reason"]
        choices = [{"index": 0, "delta": delta, "finish_reason": None}, {"index": 0, "delta": {}, "finish_reason": reason}]
        events = [*(chunk | {"choices": [one]} for one in choices), chunk | {"choices": [], "usage": answer["usage"]}]
    elif api == "openai-responses":
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        events = [{"type": "response.created", "response": begun}, {"type": "response.completed", "response": answer}]
        events = [{**one, "sequence_number": number} for number, one in enumerate(events)]
    else:
        events = [answer]
    return b"".join(f"event: {one.get('type', '')}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def _to_anthropic_events(answer: Any) -> Iterator[Any]:
    yield {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    for index, block in enumerate(answer["content"]):
        is_text = block["type"] == "text"
        begun = {**block, "text": ""} if is_text else {**block, "input": {}}
        said = {"type": "text_delta", "text": block["text"]} if is_text else None
        delta = said or {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    usage = {"output_tokens": answer["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": {"stop_reason": answer["stop_reason"], "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


@contextmanager
def serve_strictly(window: int) -> Iterator[StrictUpstream]:
    """Serve while the block runs."""
    upstream = StrictUpstream(window)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            upstream.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, body = upstream.answer(self.path, text)
            streams = status == 200 and ('"stream": true' in text or '"stream":true' in text or "streamGenerate" in self.path)
            api = detect_api(self.path.partition("?")[0])
            data = to_events(api, body) if streams else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield upstream
    finally:
        server.shutdown()
        server.server_close()
