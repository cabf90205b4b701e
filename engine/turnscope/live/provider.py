"""The protocol of a provider, and Anthropic's SDK behind it. No other module of the engine imports that SDK.

Request bodies have the form of the Messages API, whatever the provider; `forms` has them in the forms of other APIs.
Checked with anthropic 2.12 (`messages.stream`, error classes).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import anthropic
from msgspec import Struct

from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import bounded_transport, provider_errors, stream_assembler
from turnscope.live.betas import list_betas
from turnscope.live.events import TextDelta, ThinkingDelta
from turnscope.live.forms.shared import strip_foreign
from turnscope.live.http_connections import HttpConnections, list_client_options
from turnscope.live.secrets import register_key, scrub, scrub_logs
from turnscope.live.stream_assembler import StreamAssembler
from turnscope.session.destination import Destination, parse_origin
from turnscope.session.model import JSON, AppliedEdit, Usage

ANTHROPIC_URL = "https://api.anthropic.com"
EVENTS_PER_TOKEN, MORE_EVENTS = 4, 20_000  # an event brings a token at least; some servers send single letters, and pings
MODELS_TIMEOUT = 3.0  # seconds that a list of models may take
_COUNT_FIELDS = ("messages", "system", "tools", "thinking", "model", "context_management")  # what `count_tokens` takes


class ProviderAnswer(Struct, frozen=True):
    """A whole answer: its content blocks as they are sent back, its stop reason, and its usage."""

    content: tuple[JSON, ...] = ()
    stop_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    applied: tuple[AppliedEdit, ...] = ()  # context edits that the provider made in the prompt
    wrong_usage: str = ""  # which number of the reported usage cannot be right; then there is no usage


class AnswerStart(Struct, frozen=True):
    """The start of an answer. The usage reported so far is billed even if the answer breaks off."""

    id: str = ""
    usage: Usage | None = None


StreamChunk = AnswerStart | TextDelta | ThinkingDelta | ProviderAnswer
"""One part of a stream. The last one is the whole answer."""


class Provider(Protocol):
    """Where requests go. The methods raise whatever their client raises; `explain_error` turns that into a `ProviderError`."""

    @property
    def destination(self) -> Destination:
        """Where this provider is; the model in it has no meaning."""

    def stream(self, body: Mapping[str, JSON]) -> AbstractContextManager[Iterator[StreamChunk]]:
        """Send a request and stream its answer.

        The context is entered once the provider accepted the request. The iterator ends with the whole answer.
        """

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """Send a request and return its whole answer."""

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """Return the prompt tokens of a request without sending it; None if this provider does not count."""

    def explain_error(self, error: Exception) -> ProviderError:
        """Return what an exception of these methods means, with a hint. The result never holds a key."""


@runtime_checkable
class SupportsHeaders(Protocol):
    """A provider that can send further headers."""

    def with_headers(self, headers: Mapping[str, str]) -> Provider:
        """Return the same provider, which sends these headers with each request."""


@runtime_checkable
class SupportsConversations(Protocol):
    """A provider whose prompt cache wants to know which requests belong together."""

    def with_conversation(self, key: str) -> Provider:
        """Return the same provider for the requests of one conversation.

        Args:
            key: Names the conversation. It says nothing about its content.
        """


@runtime_checkable
class SupportsEmbeddings(Protocol):
    """A provider that turns texts into vectors, so that they can be compared by meaning."""

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text.

        Args:
            model: The model that makes the vectors.
            texts: The texts.
        """


@runtime_checkable
class SupportsModels(Protocol):
    """A provider that lists its models."""

    def list_models(self) -> list[str]:
        """Return the names of its models. Takes a few seconds at most."""


@contextmanager
def translate_errors(provider: Provider) -> Iterator[None]:
    """Raise a `ProviderError` for whatever the provider raises inside this context."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # noqa: BLE001 - a client may raise anything
        why = provider.explain_error(error)
        error.args = scrub(error.args)
        raise why from None  # the original holds the provider's answer, with whatever keys it repeats


@contextmanager
def stream_answer(provider: Provider, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
    """Send a request and stream its answer, with errors as `ProviderError`.

    Args:
        provider: Where the request goes.
        body: The request body.

    Raises:
        ProviderError: On entering, the request was not accepted; while reading, the answer broke off.
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
    """A server of the Messages API, through Anthropic's SDK. Known keys are removed from everything it sends.

    Args:
        client: The SDK's client.
        destination: Where the client sends requests.
        connections: Its open connections.
        headers: Further headers of each request.
    """

    client: anthropic.Anthropic
    destination: Destination = Destination("anthropic")  # noqa: RUF009 - a frozen value
    connections: HttpConnections = field(default_factory=HttpConnections)
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, headers: Mapping[str, str]) -> AnthropicProvider:
        """See `SupportsHeaders`."""
        return replace(self, headers=headers)

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
        """See `Provider`. `stream_assembler` reads the events, because the SDK stops at the first malformed one."""
        with ExitStack() as stack:
            create = self.client.messages.with_streaming_response.create
            self.connections.start_call()
            try:
                answer = stack.enter_context(create(**self._build_arguments(body), stream=True))
            except ValueError:  # half a surrogate pair or a number that JSON does not have, from an imported session
                answer = stack.enter_context(create(**self._build_arguments(stream_assembler.repair_text(body)), stream=True))
            yield _read_chunks(answer.http_response, get_max_tokens(body))

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        create = self.client.messages.with_streaming_response.create
        self.connections.start_call()
        with ExitStack() as stack:
            try:
                answer = stack.enter_context(create(**self._build_arguments(body)))
            except ValueError:
                answer = stack.enter_context(create(**self._build_arguments(stream_assembler.repair_text(body))))
            return _parse_answer(answer.http_response.read().decode("utf-8", "replace"), get_max_tokens(body))

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        arguments = self._build_arguments(
            stream_assembler.repair_text({key: body[key] for key in _COUNT_FIELDS if key in body})
        )
        self.connections.start_call()
        try:
            with self.client.messages.with_streaming_response.count_tokens(**arguments) as counted:
                answer = json.loads(counted.http_response.read())
        except anthropic.APIStatusError as error:
            if error.status_code in (404, 405, 501):  # the server has no such endpoint
                return None
            raise
        tokens = answer.get("input_tokens") if isinstance(answer, Mapping) else None
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    def list_models(self) -> list[str]:
        """See `SupportsModels`."""
        self.connections.start_call()
        client = self.client.with_options(max_retries=0, timeout=MODELS_TIMEOUT)
        return read_model_names(client.get("/v1/models", cast_to=object))

    def _build_arguments(self, body: Mapping[str, JSON]) -> dict[str, Any]:
        """Return a body as arguments of the SDK.

        Fields that the SDK does not know go into `extra_body`, beta features into a header. What belongs to other providers
        is left out.
        """
        body = strip_foreign(body)
        known = {name: value for name, value in body.items() if name in _list_sdk_parameters()}
        more = {name: value for name, value in body.items() if name not in known}
        head = ",".join(list_betas(body))
        headers = {**self.headers, **({"anthropic-beta": head} if head else {})}
        return known | ({"extra_body": more} if more else {}) | ({"extra_headers": headers} if headers else {})

    def cancel(self) -> None:
        """See `SupportsCancel`."""
        self.connections.cancel()

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`. Errors of the HTTP client come through the SDK unchanged while a stream is read."""
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, anthropic.APIStatusError):
            text = error.body if isinstance(error.body, str) else json.dumps(error.body) if error.body else str(error)
            return provider_errors.explain_refusal(error.status_code, text, error.response.headers.get("location", ""))
        waited = self.client.timeout
        seconds = waited if isinstance(waited, int | float) else getattr(waited, "read", None) or 0.0
        return provider_errors.explain_failure(error, seconds, parse_origin(str(self.client.base_url)) or "the server")


def connect(url: str, key: str, *, retries: int = 2, timeout: float = 600.0, kind: str = "server") -> AnthropicProvider:
    """Connect to a server of the Messages API. Nothing is sent yet.

    An address that a user typed receives the key that was typed for it, and nothing else. Proxies, further headers and other
    credentials of the environment are used for the Anthropic API alone. Redirects are not followed.

    Args:
        url: The server's address, with or without `/v1`.
        key: The API key; "" = the one of the environment.
        retries: How often the SDK repeats a failed request.
        timeout: Seconds without an answer until a request fails.
        kind: The kind of the destination: offline, anthropic or server.

    Raises:
        TurnscopeError: There is no key, or the address is none.
    """
    hint = "Type one in the settings; it stays in memory."
    ours = parse_origin(url) == parse_origin(ANTHROPIC_URL)
    if not key and not ours:
        raise TurnscopeError("there is no API key", hint=hint)
    register_key(key)
    base = url.rstrip("/").removesuffix("/v1")  # the SDK adds /v1; OpenAI's clients do not
    connections = HttpConnections()
    options = list_client_options(connections, None if ours else {"authorization": f"Bearer {key}"})
    http = anthropic.DefaultHttpxClient(**options)
    try:
        client = anthropic.Anthropic(
            api_key=key or None, base_url=base, max_retries=retries, timeout=timeout, http_client=http, open_telemetry=False
        )
    except anthropic.AnthropicError as error:
        raise TurnscopeError("there is no API key", hint=hint) from error
    if not (client.api_key or client.auth_token or client.credentials):
        raise TurnscopeError("there is no API key", hint=hint)
    for secret in (client.api_key, client.auth_token):
        register_key(secret or "")
    scrub_logs()
    return AnthropicProvider(client, Destination(kind, url.rstrip("/") if kind == "server" else ""), connections)


@cache
def _list_sdk_parameters() -> frozenset[str]:
    return frozenset(signature(anthropic.resources.Messages.create).parameters)


def read_model_names(answer: object) -> list[str]:
    """Read the names of a list of models, as OpenAI's and Anthropic's APIs give it; none if it is something else."""
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    names = [row.get("id") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def get_max_tokens(body: Mapping[str, JSON]) -> int:
    """Return the limit of the answer in tokens; 0 where the body has none."""
    most = body.get("max_tokens")
    return most if isinstance(most, int) else 0


def _read_chunks(answer: Any, max_tokens: int) -> Iterator[StreamChunk]:
    if is_whole(answer):
        yield from split_answer(_parse_answer(answer.read().decode("utf-8", "replace"), max_tokens))
        return
    yield from assemble_chunks(map(parse_event, read_events(answer)), max_tokens)


def is_whole(answer: Any) -> bool:
    """Return whether a server sent its answer at once, or a page. Any other type of content is read as a stream."""
    return any(kind in answer.headers.get("content-type", "") for kind in ("json", "html"))


def read_events(answer: Any) -> Iterator[Any]:
    """Yield the server-sent events of an HTTP answer, before any of them is parsed."""
    return anthropic.Stream.raw_events(answer)


def split_answer(whole: ProviderAnswer) -> Iterator[StreamChunk]:
    """Yield an answer that came at once as the parts of a stream."""
    yield from (TextDelta(block["text"], n) for n, block in enumerate(whole.content) if block.get("type") == "text")
    yield whole


def assemble_chunks(events: Iterator[JSON], max_tokens: int) -> Iterator[StreamChunk]:
    """Yield the parts of an answer from the events of a Messages API stream.

    Args:
        events: The events.
        max_tokens: The request's limit of the answer.
    """
    assembler, failed, started = StreamAssembler(), None, False
    try:
        for event in _limit_events(events, EVENTS_PER_TOKEN * max_tokens + MORE_EVENTS):
            is_part = isinstance(event, Mapping) and event.get("type") == "content_block_delta"  # a key may come in many parts
            yield from assembler.add_event(event if is_part else scrub(event))
            if assembler.raw_usage and not started:
                started = True
                yield AnswerStart(assembler.id, assembler.usage)
            if assembler.is_complete:
                break
    except Exception as error:  # noqa: BLE001 - raised below, after the text that was held back
        failed = error
    yield from assembler.flush()
    if assembler.is_complete or assembler.stop_reason:
        yield finish_answer(assembler, max_tokens)
    elif failed:
        raise failed


def _limit_events(events: Iterator[JSON], most: int) -> Iterator[JSON]:
    yield from islice(events, most)
    if next(events, None):
        raise ProviderError(f"the answer has more than {most:,} events and was left", hint=bounded_transport.HINT)


def finish_answer(assembler: StreamAssembler, max_tokens: int) -> ProviderAnswer:
    """Return the whole answer.

    Args:
        assembler: The assembled answer.
        max_tokens: The request's limit of the answer.
    """
    content = assembler.content
    calls = any(block.get("type") == "tool_use" for block in content)
    reason = stream_assembler.find_stop_reason(assembler, max_tokens) or ("tool_use" if calls else "end_turn")
    return ProviderAnswer(content, reason, assembler.usage, assembler.id, assembler.applied, assembler.wrong_usage)


def parse_event(sse: Any) -> JSON:
    """Return the value of a server-sent event. Raise a `ProviderError` if it is an error, or no JSON."""
    text = sse.data.strip()
    if not text or text == "[DONE]":
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        if sse.event == "error":
            raise provider_errors.explain_refusal(200, text) from None
        raise ProviderError("no answer: an event of the stream cannot be read", hint="Nothing was lost; send again.") from None
    if sse.event == "error" or (isinstance(event, Mapping) and event.get("type") == "error"):
        raise provider_errors.explain_refusal(200, text)
    return event


def _parse_answer(text: str, max_tokens: int) -> ProviderAnswer:
    """Return an answer that came as one JSON object. Raise a `ProviderError` if it is none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise provider_errors.explain_refusal(200, text) from None
    if not isinstance(raw, Mapping) or "content" not in raw or raw.get("type") == "error":
        raise provider_errors.explain_refusal(200, text)
    answer = stream_assembler.assemble_message(raw)
    reason = stream_assembler.find_stop_reason(answer, max_tokens) or "end_turn"
    return ProviderAnswer(answer.content, reason, answer.usage, answer.id, answer.applied, answer.wrong_usage)
