"""What a chat needs of a provider, and how the Anthropic SDK gives it. No other module of the engine knows that SDK.

A request's body has the shape of the Messages API. SDK facts: anthropic 2.12 (`messages.stream`, error classes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import anthropic
from msgspec import Struct

from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import provider_errors, request_headers, stream_assembler
from turnscope.live.betas import list_betas
from turnscope.live.events import TextDelta, ThinkingDelta
from turnscope.live.http_connections import HttpConnections
from turnscope.live.secrets import register_key, scrub, scrub_logs
from turnscope.live.stream_assembler import StreamAssembler
from turnscope.session.destination import Destination, parse_origin
from turnscope.session.model import JSON, AppliedEdit, Usage

ANTHROPIC_URL = "https://api.anthropic.com"
_COUNT_FIELDS = ("messages", "system", "tools", "thinking", "model", "context_management")  # what of a body counts
_ALLOWED_HEADERS = re.compile(
    "host|accept|accept-encoding|connection|content-type|content-length|transfer-encoding|user-agent|authorization"
    "|anthropic-(?:version|beta)|x-stainless-.*|idempotency-key",
    re.IGNORECASE,
)


class ProviderAnswer(Struct, frozen=True):
    """A whole answer: its content blocks as they are sent back, why it ended, and what was billed."""

    content: tuple[JSON, ...] = ()
    stop_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    applied: tuple[AppliedEdit, ...] = ()  # context edits that the provider made in the prompt


class AnswerStart(Struct, frozen=True):
    """An answer has begun: the usage told so far is billed whether or not it comes to an end."""

    id: str = ""
    usage: Usage | None = None


StreamChunk = AnswerStart | TextDelta | ThinkingDelta | ProviderAnswer
"""What a stream consists of; the last one is the whole answer."""


class Provider(Protocol):
    """Where requests go. Its methods raise whatever they raise; `explain_error` says what that means."""

    @property
    def destination(self) -> Destination:
        """Where that is; its model counts for nothing. Asked only for a chat that says where it goes."""

    def stream(self, body: Mapping[str, JSON]) -> AbstractContextManager[Iterator[StreamChunk]]:
        """Send a request. Entered once it was accepted; then the answer as it comes, with the whole of it at the end."""

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """Send a request and wait for its whole answer."""

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """Prompt tokens of a request that is not sent; None where this provider does not count."""

    def explain_error(self, error: Exception) -> ProviderError:
        """What these methods raised, with what to do about it. Never holds a key."""


@runtime_checkable
class SupportsHeaders(Protocol):
    """A provider whose requests can carry further headers."""

    def with_headers(self, headers: Mapping[str, str]) -> Provider:
        """The same provider, each of whose requests carries them."""


@contextmanager
def translate_errors(provider: Provider) -> Iterator[None]:
    """Whatever a provider raises inside is a ProviderError outside."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        why = provider.explain_error(error)
        error.args = scrub(error.args)
        raise why from None  # the error itself holds the provider's answer as it came


@contextmanager
def stream_answer(provider: Provider, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
    """A request that is sent: its answer as it comes, to the whole of it. ProviderError on entering: it was not accepted;
    from the iterator: the answer broke off.
    """
    with ExitStack() as stack:
        with translate_errors(provider):
            chunks = stack.enter_context(provider.stream(body))
        yield _read_to_end(provider, chunks)


def _read_to_end(provider: Provider, chunks: Iterator[StreamChunk]) -> Iterator[StreamChunk]:
    with translate_errors(provider):
        for chunk in chunks:
            yield chunk
            if isinstance(chunk, ProviderAnswer):
                return
    raise ProviderError("no answer: the stream ended before the answer did", hint="Nothing was lost; send again.")


@dataclass(frozen=True, slots=True)
class AnthropicProvider:
    """A server of the Messages API, through the SDK, at `place`. Whatever it says is scrubbed of every key that is known."""

    client: anthropic.Anthropic
    destination: Destination = Destination("anthropic")  # noqa: RUF009 - a frozen value
    connections: HttpConnections = field(default_factory=HttpConnections)
    headers: Mapping[str, str] = field(default_factory=dict)  # further ones of each request

    def with_headers(self, headers: Mapping[str, str]) -> AnthropicProvider:
        """See `SupportsHeaders`."""
        return replace(self, headers=headers)

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
        """See `Provider`. Events are read as they come, whatever is wrong with them (`wire`): the SDK stops at the first."""
        with ExitStack() as stack:
            create = self.client.messages.with_streaming_response.create
            self.connections.start_call()
            try:
                answer = stack.enter_context(create(**self._build_arguments(body), stream=True))
            except UnicodeEncodeError:  # half a character, from a session that was imported
                answer = stack.enter_context(create(**self._build_arguments(stream_assembler.repair_text(body)), stream=True))
            yield _read_chunks(answer.http_response, _get_max_tokens(body))

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        create = self.client.messages.with_raw_response.create
        self.connections.start_call()
        try:
            answer = create(**self._build_arguments(body))
        except UnicodeEncodeError:
            answer = create(**self._build_arguments(stream_assembler.repair_text(body)))
        return _parse_answer(answer.http_response.text, _get_max_tokens(body))

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        asked = self._build_arguments(stream_assembler.repair_text({key: body[key] for key in _COUNT_FIELDS if key in body}))
        self.connections.start_call()
        try:
            told = json.loads(self.client.messages.with_raw_response.count_tokens(**asked).http_response.text)
        except anthropic.APIStatusError as error:
            if error.status_code in (404, 405, 501):  # a server without that endpoint
                return None
            raise
        tokens = told.get("input_tokens") if isinstance(told, Mapping) else None
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    def _build_arguments(self, body: Mapping[str, JSON]) -> dict[str, Any]:
        """A body as the SDK takes it: what it does not know by name goes along as it is, under the headers that it needs."""
        given = {name: value for name, value in body.items() if name in _list_sdk_parameters()}
        more = {name: value for name, value in body.items() if name not in given}
        head = ",".join(list_betas(body))
        headers = {**self.headers, **({"anthropic-beta": head} if head else {})}
        return given | ({"extra_body": more} if more else {}) | ({"extra_headers": headers} if headers else {})

    def cancel(self) -> None:
        """See `SupportsCancel`."""
        self.connections.cancel()

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`. The SDK also lets through what its HTTP client raises amid a stream."""
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, anthropic.APIStatusError):
            text = error.body if isinstance(error.body, str) else json.dumps(error.body) if error.body else str(error)
            return provider_errors.explain_refusal(error.status_code, text, error.response.headers.get("location", ""))
        waited = self.client.timeout
        seconds = waited if isinstance(waited, int | float) else getattr(waited, "read", None) or 0.0
        return provider_errors.explain_failure(error, seconds, parse_origin(str(self.client.base_url)) or "the server")


def connect(url: str, key: str, *, retries: int = 2, timeout: float = 600.0, kind: str = "server") -> AnthropicProvider:
    """A server of the Messages API at an address. `key` "" = what the environment holds; seconds. TurnscopeError: no key.

    Redirects are not followed. What the environment says (proxies, further headers, other credentials) goes to the Anthropic
    API alone: an address that somebody typed receives the key that was typed for it, and nothing else.
    """
    hint = "Type one in the settings; it is kept in memory only."
    ours = parse_origin(url) == parse_origin(ANTHROPIC_URL)
    if not key and not ours:
        raise TurnscopeError("there is no API key", hint=hint)
    register_key(key)
    base = url.rstrip("/").removesuffix("/v1")  # as OpenAI's clients write it: the SDK adds that itself
    connections = HttpConnections()
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [connections.watch_request, *(() if ours else (partial(_strip_headers, key),))]
    }
    direct = {} if ours else dict.fromkeys(("all://", "http://", "https://"))  # the SDK looks for proxies by itself
    http = anthropic.DefaultHttpxClient(follow_redirects=False, trust_env=ours, event_hooks=hooks, mounts=direct)
    try:
        made = anthropic.Anthropic(
            api_key=key or None, base_url=base, max_retries=retries, timeout=timeout, http_client=http, open_telemetry=False
        )
    except anthropic.AnthropicError as error:
        raise TurnscopeError("there is no API key", hint=hint) from error
    if not (made.api_key or made.auth_token or made.credentials):
        raise TurnscopeError("there is no API key", hint=hint)
    for secret in (made.api_key, made.auth_token):
        register_key(secret or "")
    scrub_logs()
    return AnthropicProvider(made, Destination(kind, url.rstrip("/") if kind == "server" else ""), connections)


def _strip_headers(key: str, request: Any) -> None:
    """A request to an address that somebody typed, with the headers of the Messages API and the conversation's alone."""
    ours = {name.lower() for name in request_headers.list_header_names()}
    for name in [name for name in request.headers if not _ALLOWED_HEADERS.fullmatch(name) and name.lower() not in ours]:
        del request.headers[name]
    request.headers["authorization"] = f"Bearer {key}"


@cache
def _list_sdk_parameters() -> frozenset[str]:
    return frozenset(signature(anthropic.resources.Messages.create).parameters)


def _get_max_tokens(body: Mapping[str, JSON]) -> int:
    most = body.get("max_tokens")
    return most if isinstance(most, int) else 0


def _read_chunks(answer: Any, most: int) -> Iterator[StreamChunk]:
    if any(kind in answer.headers.get("content-type", "") for kind in ("json", "html")):  # whatever else it says is tried
        said = _parse_answer(answer.read().decode("utf-8", "replace"), most)
        yield from (TextDelta(block["text"], n) for n, block in enumerate(said.content) if block.get("type") == "text")
        yield said
        return
    heard, failed, told = StreamAssembler(), None, False
    try:
        for sse in anthropic.Stream.raw_events(answer):
            yield from heard.add_event(_parse_event(sse))
            if heard.raw_usage and not told:
                told = True
                yield AnswerStart(heard.id, heard.usage)
            if heard.is_complete:
                break
    except Exception as error:  # noqa: BLE001 - whatever it is: first what was held back of the text, then the error
        failed = error
    yield from heard.flush()
    if heard.is_complete or heard.stop_reason:
        stands = heard.content
        calls = any(block.get("type") == "tool_use" for block in stands)
        reason = stream_assembler.find_stop_reason(heard, most) or ("tool_use" if calls else "end_turn")
        yield ProviderAnswer(stands, reason, heard.usage, heard.id, heard.applied)
    elif failed:
        raise failed


def _parse_event(sse: Any) -> JSON:
    """The value of an event. ProviderError where it is an error, or none can be read from it."""
    text = sse.data.strip()
    if not text or text == "[DONE]":
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        if sse.event == "error":
            raise provider_errors.explain_refusal(200, text) from None
        raise ProviderError(
            "no answer: an event amid the answer cannot be read", hint="Nothing was lost; send again."
        ) from None
    if sse.event == "error" or (isinstance(event, Mapping) and event.get("type") == "error"):
        raise provider_errors.explain_refusal(200, text)
    return event


def _parse_answer(text: str, most: int) -> ProviderAnswer:
    """An answer that came whole. ProviderError where it is none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise provider_errors.explain_refusal(200, text) from None
    if not isinstance(raw, Mapping) or "content" not in raw or raw.get("type") == "error":
        raise provider_errors.explain_refusal(200, text)
    heard = stream_assembler.assemble_message(raw)
    return ProviderAnswer(
        heard.content, stream_assembler.find_stop_reason(heard, most) or "end_turn", heard.usage, heard.id, heard.applied
    )
