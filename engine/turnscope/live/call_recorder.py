"""Record the requests that an app of your own sends to a provider, so that they open in Turnscope.

The SDKs of Anthropic, OpenAI and Google send through `httpx` or `httpx2`: a call is recorded there, as it went over the wire.
No header is recorded, so no key is.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextvars import ContextVar, copy_context
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast, overload

from turnscope import settings

P = ParamSpec("P")
T = TypeVar("T")

CLIENTS = ("httpx", "httpx2")
_PROMPTS = ("messages", "input", "contents")  # a body of a chat has one of these
_UNRECORDED = re.compile(r"(?:embed\w*|count_?tokens|input_tokens|moderations)$", re.IGNORECASE)
_MODEL = re.compile(r"/models/([^/:]+):")  # Gemini names the model in the address

_target: ContextVar[Path | None] = ContextVar("turnscope_trace", default=None)
_patched: set[str] = set()
_lock = threading.Lock()


@overload
def trace(function: Callable[P, T], *, path: str | Path | None = None) -> Callable[P, T]: ...


@overload
def trace(function: None = None, *, path: str | Path | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def trace(function: Any = None, *, path: str | Path | None = None) -> Any:
    """Record every request that a function sends to a provider: functions, generators and coroutines, streamed or not.

    Args:
        function: The function. `@turnscope.trace` and `@turnscope.trace(path=...)` both work.
        path: The file to which the calls are added, as JSON lines; None = `traces/<function>.jsonl` in the data folder.

    >>> import tempfile, pathlib, turnscope
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "calls.jsonl"
    >>> @turnscope.trace(path=log)
    ... def ask(client, question):
    ...     return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": question}])
    >>> ask.__name__, log.exists()  # once `ask` was called: turnscope.load(log), or `turnscope calls.jsonl`
    ('ask', False)
    """
    if function is None:
        return lambda wrapped: trace(wrapped, path=path)
    target = Path(path) if path else settings.find_data_folder() / "traces" / f"{function.__name__}.jsonl"
    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(function, target)
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, target)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _enter(target).run(function, *args, **kwargs)

    return call


def _enter(target: Path) -> Any:
    """A context in which calls are recorded."""
    _patch_clients()
    context = copy_context()
    context.run(_target.set, target)
    return context


def _wrap_coroutine(function: Any, target: Path) -> Any:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        _patch_clients()
        token = _target.set(target)
        try:
            return await function(*args, **kwargs)
        finally:
            _target.reset(token)

    return call


def _wrap_generator(function: Any, target: Path) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, None, Any]:
        context, made = _enter(target), function(*args, **kwargs)
        try:
            while True:
                try:
                    value = context.run(next, made)
                except StopIteration as stopped:
                    return stopped.value
                yield value
        finally:
            made.close()

    return call


def _patch_clients() -> None:
    """Let the clients of this process tell of their calls. Outside of a traced function they work as before."""
    with _lock:
        for name in CLIENTS:
            if name in _patched or find_spec(name) is None:
                continue
            _patched.add(name)
            module = importlib.import_module(name)
            module.Client.send = _wrap_send(module.Client.send)
            module.AsyncClient.send = _wrap_async_send(module.AsyncClient.send)


def _wrap_send(send: Any) -> Any:
    @wraps(send)
    def call(client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        record = _begin(request)
        response = send(client, request, *args, **kwargs)
        if record is not None:
            _finish(record, response)
        return response

    return call


def _wrap_async_send(send: Any) -> Any:
    @wraps(send)
    async def call(client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        record = _begin(request)
        response = await send(client, request, *args, **kwargs)
        if record is not None:
            _finish(record, response)
        return response

    return call


def _begin(request: Any) -> dict[str, Any] | None:
    """The record of a call, if it is one of a chat and its function is traced."""
    target, url = _target.get(), request.url
    if target is None or request.method != "POST" or _UNRECORDED.search(url.path):
        return None
    try:
        body = json.loads(request.content)
    except (ValueError, RuntimeError):  # no JSON, or a body that is streamed
        return None
    if not isinstance(body, dict) or not any(name in body for name in _PROMPTS):
        return None
    named = _MODEL.search(url.path)
    model = {"model": named[1]} if named and "model" not in body else {}
    return {"target": target, "sent_at": time.time(), "url": f"{url.scheme}://{url.host}{url.path}", "request": model | body}


def _finish(record: dict[str, Any], response: Any) -> None:
    """Write the record: now, or when the stream was read."""
    if response.is_stream_consumed or response.is_closed:
        _write(record, response.status_code, response.content)
        return
    read, read_async = response.iter_bytes, response.aiter_bytes

    def tee(*args: Any, **kwargs: Any) -> Iterator[bytes]:
        parts: list[bytes] = []
        try:
            for part in read(*args, **kwargs):
                parts.append(part)
                yield part
        finally:
            _write(record, response.status_code, b"".join(parts))

    async def tee_async(*args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        try:
            async for part in read_async(*args, **kwargs):
                parts.append(part)
                yield part
        finally:
            _write(record, response.status_code, b"".join(parts))

    response.iter_bytes, response.aiter_bytes = tee, tee_async


def _write(record: Mapping[str, Any], status: int, content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    try:
        answer: Any = json.loads(text)
    except ValueError:
        answer = text  # a stream of events
    fields = {name: value for name, value in record.items() if name != "target"}
    append_line(cast(Path, record["target"]), fields | {"answered_at": time.time(), "status": status, "response": answer})


def append_line(target: Path, fields: Mapping[str, Any]) -> None:
    """Add a record to a file of JSON lines, which its owner alone may read.

    Args:
        target: The file; its folder is made.
        fields: The record.
    """
    line = json.dumps(fields, ensure_ascii=False) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock:
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, line.encode("utf-8", "replace"))
        finally:
            os.close(handle)
