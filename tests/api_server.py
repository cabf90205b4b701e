"""A server on loopback that speaks Chat Completions, Responses and Gemini, and refuses what those APIs refuse.

Answers are scripted. What was asked is kept. Requests are checked with the SDKs' own types, and for what the types do not say:
every call has its result behind it, and results name a call.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

KEY = "a-key-of-this-test"
SEALED = "gAAAAA-sealed"
SIGNED = b64encode(b"signed by gemini").decode()
EXTRA_OF_OPENROUTER = {"reasoning"}


# The vendors' packages are imported where a test needs them: each takes seconds, and every worker imports every test.
@cache
def chat_body() -> TypeAdapter[Any]:
    """What a request of Chat Completions may hold, by the vendor's SDK, and nothing else."""
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(CompletionCreateParamsStreaming))


@cache
def responses_body() -> TypeAdapter[Any]:
    """The same of a request of the Responses API."""
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(ResponseCreateParamsStreaming))


@dataclass
class Say:
    """One scripted answer.

    Args:
        text: The text, which comes in two pieces.
        thinking: The thinking before it.
        calls: Tool calls: id, name and arguments.
        usage: Tokens of the prompt, those of it that were cached, and of the answer.
        status: The HTTP status; not 200 = an error.
        error: The message of an error. With status 200 it comes in the middle of the stream.
        cut: The connection breaks after the first piece.
        broken: The first piece is followed by an event that is no JSON.
        reason: Why the answer ends, as Chat Completions names it; "" = it is finished.
        location: Where a redirect points to.
        wait: The answer goes on when this is set.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    usage: tuple[float, float, float] = (100, 40, 7)
    status: int = 200
    error: str = ""
    cut: bool = False
    broken: bool = False
    reason: str = ""
    location: str = ""
    wait: threading.Event | None = None


@dataclass
class ApiServer:
    """The server. `asked` holds path, headers and body of each request; `counts` says whether it counts tokens, and as what;
    `models` are those that it lists, None = it has no list."""

    script: deque[Say] = field(default_factory=deque)
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    counts: str = ""
    models: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_POST(self) -> None:
                with suppress(BrokenPipeError, ConnectionResetError):  # the client stopped
                    self._reply()

            def do_GET(self) -> None:
                if server.models is None or not self.path.endswith("/v1/models"):
                    return _send(self, 404, {"error": {"message": "no such endpoint"}})
                return _send(self, 200, {"data": [{"id": name} for name in server.models]})

            def _reply(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
                server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                server._answer(self, body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of the requests for an answer."""
        ends = ("/chat/completions", "/responses", "generateContent", "alt=sse")
        return [body for path, _, body in self.asked if path.endswith(ends)]

    def _answer(self, to: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        path = to.path
        if found := self._count(path, body) or _embed_texts(path, body):
            return _send(to, 200, found)
        if not path.endswith(("/chat/completions", "/responses", "/responses/compact")) and ":" not in path:
            return _send(to, 404, {"error": {"message": "no such endpoint"}})
        given = to.headers.get("x-goog-api-key") if "models/" in path else to.headers.get("authorization")
        if given not in (KEY, f"Bearer {KEY}"):
            return _send(to, 401, {"error": {"message": f"wrong key: {given}"}})
        if wrong := self._find_mistake(path, body):
            self.rejected.append(wrong)
            return _send(to, 400, {"error": {"message": wrong, "code": 400, "status": "INVALID_ARGUMENT"}})
        say = self.script.popleft() if self.script else Say("Nothing is scripted.")
        if say.status != 200:
            head = {"location": say.location} if say.location else {}
            return _send(to, say.status, {"error": {"message": say.error, "code": say.status, "status": "X"}}, head)
        pieces = PROTOCOLS[_get_protocol(path)](say)
        if not body.get("stream") and "stream" not in path:
            return _send(to, 200, _compact(body) if path.endswith("/compact") else _join(path, [*pieces]))
        return _stream(to, pieces, say, done=path.endswith("/chat/completions"))

    def _count(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        size = len(json.dumps(body)) // 4
        if path.endswith("/responses/input_tokens") and self.counts:
            return {"object": "response.input_tokens", "input_tokens": size}
        if path.endswith(":countTokens") and self.counts:
            return {"totalTokens": size}
        if path.endswith("/apply-template") and self.counts == "llama.cpp":
            return {"prompt": json.dumps(body["messages"])}
        if path.endswith("/tokenize") and self.counts == "llama.cpp":
            return {"tokens": [*range(len(body.get("content") or "") // 4)]}
        if path.endswith("/tokenize") and self.counts == "vllm":
            return {"count": size, "max_model_len": 32_000, "tokens": []}
        return None

    def _find_mistake(self, path: str, body: dict[str, Any]) -> str:
        try:
            match _get_protocol(path):
                case "chat":
                    known = {name: value for name, value in body.items() if name not in EXTRA_OF_OPENROUTER}
                    chat_body().validate_python(known | {"stream": True})
                    return _check_chat(body["messages"])
                case "responses":
                    if not path.endswith("/compact"):
                        responses_body().validate_python(body | {"stream": True})
                    return _check_responses(body["input"])
                case _:
                    from google.genai import types

                    contents = [types.Content.model_validate(each) for each in body["contents"]]
                    return _check_gemini(contents)
        except ValidationError as error:
            return f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}"


def _get_protocol(path: str) -> str:
    return "chat" if path.endswith("/chat/completions") else "responses" if "/responses" in path else "gemini"


def _embed_texts(path: str, body: dict[str, Any]) -> dict[str, Any] | None:
    if path.endswith("/embeddings"):
        rows = [{"object": "embedding", "index": i, "embedding": _embed(text)} for i, text in enumerate(body["input"])]
        return {"object": "list", "data": rows[::-1], "model": body["model"], "usage": {}}
    if ":batchEmbedContents" in path:
        texts = [each["content"]["parts"][0]["text"] for each in body["requests"]]
        return {"embeddings": [{"values": _embed(text)} for text in texts]}
    return None


def _embed(text: str) -> list[float]:
    """A vector that only says which of a few words stand in a text."""
    words = ("database", "postgres", "colour", "teal")
    return [float(word in text.lower()) + 0.01 for word in words]


def _check_chat(messages: list[dict[str, Any]]) -> str:
    open_calls: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages.{i}: a tool message must be a response to a preceding message with 'tool_calls'"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"messages.{i}: an assistant message with 'tool_calls' must be followed by tool messages"
        if not message.get("content") and not message.get("tool_calls"):
            return f"messages.{i}: content must not be empty"
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
    return "messages: the last call has no result" if open_calls else ""


def _check_responses(items: list[dict[str, Any]]) -> str:
    called = {item["call_id"] for item in items if item["type"] == "function_call"}
    answered = {item["call_id"] for item in items if item["type"] == "function_call_output"}
    if called - answered:
        return f"No tool output found for function call {min(called - answered)}."
    if answered - called:
        return f"No tool call found for function call output with call_id {min(answered - called)}."
    for i, item in enumerate(items):
        if item["type"] == "reasoning":
            if not item["encrypted_content"].startswith("gAAAA"):
                return "The encrypted content could not be verified."
            if i + 1 == len(items) or items[i + 1].get("role") == "user":
                return "A reasoning item was provided without its required following item."
    return ""


def _check_gemini(contents: list[Any]) -> str:
    before: list[str] = []
    for content in contents:
        if content.role not in ("user", "model") or not content.parts:
            return "contents.parts must not be empty."
        results = [part.function_response.id for part in content.parts if part.function_response]
        if sorted(results) != sorted(before):
            return "The number of function response parts must equal the number of function call parts of the call turn."
        calls = [part for part in content.parts if part.function_call]
        if calls and not calls[0].thought_signature:
            return "Function call is missing a thought_signature."
        before = [part.function_call.id for part in calls]
    return "The last call has no response." if before else ""


def _split(text: str) -> tuple[str, ...]:
    middle = (len(text) + 1) // 2
    return tuple(part for part in (text[:middle], text[middle:]) if part)


def _say_chat(say: Say) -> Iterator[dict[str, Any]]:
    def chunk(delta: Mapping[str, Any] | None, reason: str | None = None, **more: Any) -> dict[str, Any]:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
        return {"id": "chat-1", "object": "chat.completion.chunk", "choices": choices, **more}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _split(say.thinking):
        detail = {"type": "reasoning.text", "text": piece, "index": 0, "format": "x", "signature": None}
        yield chunk({"reasoning": piece, "reasoning_details": [detail]})
    for piece in _split(say.text):
        yield chunk({"content": piece})
    for i, (id, name, arguments) in enumerate(say.calls):
        yield chunk({"tool_calls": [{"index": i, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]})
        for piece in _split(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, say.reason or ("tool_calls" if say.calls else "stop"))
    prompt, cached, answer = say.usage
    details = {"cached_tokens": cached}
    total = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    yield chunk(None, usage=total | {"prompt_tokens_details": details})


def _say_responses(say: Say) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {"id": "resp-1", "object": "response", "status": "in_progress"}}
    output: list[dict[str, Any]] = []
    if say.thinking:
        for piece in _split(say.thinking):
            yield {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": piece}
        summary = [{"type": "summary_text", "text": say.thinking}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": SEALED})
        yield {"type": "response.output_item.done", "output_index": 0, "item": output[-1]}
    if say.text:
        for piece in _split(say.text):
            yield {"type": "response.output_text.delta", "output_index": len(output), "content_index": 0, "delta": piece}
        output.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": say.text}]})
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": output[-1]}
    for id, name, arguments in say.calls:
        call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        output.append(call)
        yield {"type": "response.function_call_arguments.delta", "output_index": len(output) - 1, "delta": call["arguments"]}
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": call}
    prompt, cached, answer = say.usage
    usage = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": answer}
    usage["total_tokens"] = prompt + answer
    cut = {"incomplete_details": {"reason": "max_output_tokens"}} if say.reason == "length" else {}
    status = "incomplete" if cut else "completed"
    whole = {"id": "resp-1", "object": "response", "status": status, "output": output, "usage": usage, **cut}
    yield {"type": f"response.{status}", "response": whole}


def _say_gemini(say: Say) -> Iterator[dict[str, Any]]:
    def chunk(parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        finish = {"finishReason": more.pop("reason")} if "reason" in more else {}
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **finish}
        return {"candidates": [candidate], "responseId": "gem-1", **more}

    for piece in _split(say.thinking):
        yield chunk([{"text": piece, "thought": True}])
    for piece in _split(say.text):
        yield chunk([{"text": piece}])
    for n, (id, name, arguments) in enumerate(say.calls):
        signed = {} if n else {"thoughtSignature": SIGNED}
        yield chunk([{"functionCall": {"id": id, "name": name, "args": arguments}, **signed}])
    prompt, cached, answer = say.usage
    thought = 3 if say.thinking else 0
    usage = {"promptTokenCount": prompt, "cachedContentTokenCount": cached, "candidatesTokenCount": answer - thought}
    more = {"thoughtsTokenCount": thought} if thought else {}
    reason = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(say.reason, "STOP")
    yield chunk([], reason=reason, usageMetadata=usage | more | {"totalTokenCount": prompt + answer})


PROTOCOLS = {"chat": _say_chat, "responses": _say_responses, "gemini": _say_gemini}


def _join(path: str, pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """The pieces of a stream as one answer."""
    match _get_protocol(path):
        case "responses":
            return pieces[-1]["response"]
        case "chat":
            deltas = [choice["delta"] for piece in pieces for choice in piece["choices"]]
            text = "".join(delta.get("content") or "" for delta in deltas)
            return {**pieces[-1], "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
        case _:
            parts = [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]
            last = pieces[-1]
            return {**last, "candidates": [{**last["candidates"][0], "content": {"role": "model", "parts": parts}}]}


def _compact(body: dict[str, Any]) -> dict[str, Any]:
    kept = [item for item in body["input"] if item.get("role") == "user"]
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": SEALED}
    usage = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 20, "total_tokens": 110}
    return {"id": "cmp-1", "object": "response.compaction", "created_at": 1, "output": [*kept, sealed], "usage": usage}


def _send(to: BaseHTTPRequestHandler, status: int, body: Any, head: Mapping[str, str] | None = None) -> None:
    data = json.dumps(body).encode()
    to.send_response(status)
    for name, value in {"content-type": "application/json", "content-length": str(len(data)), **(head or {})}.items():
        to.send_header(name, value)
    to.end_headers()
    to.wfile.write(data)


def _stream(to: BaseHTTPRequestHandler, pieces: Iterator[dict[str, Any]], say: Say, *, done: bool) -> None:
    to.send_response(200)
    to.send_header("content-type", "text/event-stream")
    to.send_header("connection", "close")
    to.end_headers()
    to.close_connection = True

    def write(data: str) -> None:
        to.wfile.write(f"data: {data}\n\n".encode())
        to.wfile.flush()

    for n, piece in enumerate(pieces):
        if n == 2:
            if say.broken:
                write("{no JSON")
            if say.error:
                write(json.dumps({"type": "error", "error": {"message": say.error, "code": 503}}))
            if say.cut or say.error:
                return
            if say.wait:
                say.wait.wait(20)
        write(json.dumps(piece))
    if done:
        write("[DONE]")


def decode_signature(text: str) -> bytes:
    """A signature as it stands in a body."""
    return b64decode(text.replace("-", "+").replace("_", "/"))
