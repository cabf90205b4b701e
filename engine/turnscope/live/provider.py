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
from turnscope.live import carried, saying_why, wire
from turnscope.live.betas import betas
from turnscope.live.events import Text, Thinking
from turnscope.live.lines import Lines
from turnscope.live.secrets import hush, know, scrubbed
from turnscope.live.wire import Heard
from turnscope.session.destination import Destination, parse_origin
from turnscope.session.model import JSON, AppliedEdit, Usage

ANTHROPIC = "https://api.anthropic.com"
_COUNTED = ("messages", "system", "tools", "thinking", "model", "context_management")  # what of a body counts
_HEADERS = re.compile(
    "host|accept|accept-encoding|connection|content-type|content-length|transfer-encoding|user-agent|authorization"
    "|anthropic-(?:version|beta)|x-stainless-.*|idempotency-key",
    re.IGNORECASE,
)


class Said(Struct, frozen=True):
    """A whole answer: its content blocks as they are sent back, why it ended, and what was billed."""

    content: tuple[JSON, ...] = ()
    stop_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    applied: tuple[AppliedEdit, ...] = ()  # context edits that the provider made in the prompt


class Begun(Struct, frozen=True):
    """An answer has begun: the usage told so far is billed whether or not it comes to an end."""

    id: str = ""
    usage: Usage | None = None


Piece = Begun | Text | Thinking | Said
"""What a stream consists of; the last one is the whole answer."""


class Provider(Protocol):
    """Where requests go. Its methods raise whatever they raise; `explain` says what that means."""

    @property
    def place(self) -> Destination:
        """Where that is; its model counts for nothing. Asked only for a chat that says where it goes."""

    def stream(self, body: Mapping[str, JSON]) -> AbstractContextManager[Iterator[Piece]]:
        """Send a request. Entered once it was accepted; then the answer as it comes, with the whole of it at the end."""

    def say(self, body: Mapping[str, JSON]) -> Said:
        """Send a request and wait for its whole answer."""

    def count(self, body: Mapping[str, JSON]) -> int | None:
        """Prompt tokens of a request that is not sent; None where this provider does not count."""

    def explain(self, error: Exception) -> ProviderError:
        """What these methods raised, with what to do about it. Never holds a key."""


@runtime_checkable
class Carries(Protocol):
    """A provider whose requests can carry further headers."""

    def under(self, headers: Mapping[str, str]) -> Provider:
        """The same provider, each of whose requests carries them."""


@contextmanager
def explained(provider: Provider) -> Iterator[None]:
    """Whatever a provider raises inside is a ProviderError outside."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        why = provider.explain(error)
        error.args = scrubbed(error.args)
        raise why from None  # the error itself holds the provider's answer as it came


@contextmanager
def sent(provider: Provider, body: Mapping[str, JSON]) -> Iterator[Iterator[Piece]]:
    """A request that is sent: its answer as it comes, to the whole of it. ProviderError on entering: it was not accepted;
    from the iterator: the answer broke off.
    """
    with ExitStack() as stack:
        with explained(provider):
            pieces = stack.enter_context(provider.stream(body))
        yield _whole(provider, pieces)


def _whole(provider: Provider, pieces: Iterator[Piece]) -> Iterator[Piece]:
    with explained(provider):
        for piece in pieces:
            yield piece
            if isinstance(piece, Said):
                return
    raise ProviderError("no answer: the stream ended before the answer did", hint="Nothing was lost; send again.")


@dataclass(frozen=True, slots=True)
class Anthropic:
    """A server of the Messages API, through the SDK, at `place`. Whatever it says is scrubbed of every key that is known."""

    client: anthropic.Anthropic
    place: Destination = Destination("anthropic")  # noqa: RUF009 - a frozen value
    lines: Lines = field(default_factory=Lines)
    headers: Mapping[str, str] = field(default_factory=dict)  # further ones of each request

    def under(self, headers: Mapping[str, str]) -> Anthropic:
        """See `Carries`."""
        return replace(self, headers=headers)

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[Piece]]:
        """See `Provider`. Events are read as they come, whatever is wrong with them (`wire`): the SDK stops at the first."""
        with ExitStack() as stack:
            create = self.client.messages.with_streaming_response.create
            self.lines.begin()
            try:
                answer = stack.enter_context(create(**self._arguments(body), stream=True))
            except UnicodeEncodeError:  # half a character, from a session that was imported
                answer = stack.enter_context(create(**self._arguments(wire.whole(body)), stream=True))
            yield _pieces(answer.http_response, _most(body))

    def say(self, body: Mapping[str, JSON]) -> Said:
        """See `Provider`."""
        create = self.client.messages.with_raw_response.create
        self.lines.begin()
        try:
            answer = create(**self._arguments(body))
        except UnicodeEncodeError:
            answer = create(**self._arguments(wire.whole(body)))
        return _in_one_piece(answer.http_response.text, _most(body))

    def count(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        asked = self._arguments(wire.whole({key: body[key] for key in _COUNTED if key in body}))
        self.lines.begin()
        try:
            told = json.loads(self.client.messages.with_raw_response.count_tokens(**asked).http_response.text)
        except anthropic.APIStatusError as error:
            if error.status_code in (404, 405, 501):  # a server without that endpoint
                return None
            raise
        tokens = told.get("input_tokens") if isinstance(told, Mapping) else None
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    def _arguments(self, body: Mapping[str, JSON]) -> dict[str, Any]:
        """A body as the SDK takes it: what it does not know by name goes along as it is, under the headers that it needs."""
        given = {name: value for name, value in body.items() if name in _known()}
        more = {name: value for name, value in body.items() if name not in given}
        head = ",".join(betas(body))
        headers = {**self.headers, **({"anthropic-beta": head} if head else {})}
        return given | ({"extra_body": more} if more else {}) | ({"extra_headers": headers} if headers else {})

    def leave(self) -> None:
        """See `Leaves`."""
        self.lines.leave()

    def explain(self, error: Exception) -> ProviderError:
        """See `Provider`. The SDK also lets through what its HTTP client raises amid a stream."""
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, anthropic.APIStatusError):
            text = error.body if isinstance(error.body, str) else json.dumps(error.body) if error.body else str(error)
            return saying_why.refused(error.status_code, text, error.response.headers.get("location", ""))
        waited = self.client.timeout
        seconds = waited if isinstance(waited, int | float) else getattr(waited, "read", None) or 0.0
        return saying_why.unreachable(error, seconds, parse_origin(str(self.client.base_url)) or "the server")


def connected(url: str, key: str, *, retries: int = 2, timeout: float = 600.0, kind: str = "server") -> Anthropic:
    """A server of the Messages API at an address. `key` "" = what the environment holds; seconds. TurnscopeError: no key.

    Redirects are not followed. What the environment says (proxies, further headers, other credentials) goes to the Anthropic
    API alone: an address that somebody typed receives the key that was typed for it, and nothing else.
    """
    hint = "Type one in the settings; it is kept in memory only."
    ours = parse_origin(url) == parse_origin(ANTHROPIC)
    if not key and not ours:
        raise TurnscopeError("there is no API key", hint=hint)
    know(key)
    base = url.rstrip("/").removesuffix("/v1")  # as OpenAI's clients write it: the SDK adds that itself
    lines = Lines()
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [lines.request, *(() if ours else (partial(_bare, key),))]}
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
        know(secret or "")
    hush()
    return Anthropic(made, Destination(kind, url.rstrip("/") if kind == "server" else ""), lines)


def _bare(key: str, request: Any) -> None:
    """A request to an address that somebody typed, with the headers of the Messages API and the conversation's alone."""
    ours = {name.lower() for name in carried.names()}
    for name in [name for name in request.headers if not _HEADERS.fullmatch(name) and name.lower() not in ours]:
        del request.headers[name]
    request.headers["authorization"] = f"Bearer {key}"


@cache
def _known() -> frozenset[str]:
    return frozenset(signature(anthropic.resources.Messages.create).parameters)


def _most(body: Mapping[str, JSON]) -> int:
    most = body.get("max_tokens")
    return most if isinstance(most, int) else 0


def _pieces(answer: Any, most: int) -> Iterator[Piece]:
    if any(kind in answer.headers.get("content-type", "") for kind in ("json", "html")):  # whatever else it says is tried
        said = _in_one_piece(answer.read().decode("utf-8", "replace"), most)
        yield from (Text(block["text"], n) for n, block in enumerate(said.content) if block.get("type") == "text")
        yield said
        return
    heard, failed, told = Heard(), None, False
    try:
        for sse in anthropic.Stream.raw_events(answer):
            yield from heard.take(_event(sse))
            if heard.usage and not told:
                told = True
                yield Begun(heard.id, heard.billed)
            if heard.over:
                break
    except Exception as error:  # noqa: BLE001 - whatever it is: first what was held back of the text, then the error
        failed = error
    yield from heard.rest()
    if heard.over or heard.reason:
        stands = heard.content
        calls = any(block.get("type") == "tool_use" for block in stands)
        reason = wire.ended(heard, most) or ("tool_use" if calls else "end_turn")
        yield Said(stands, reason, heard.billed, heard.id, heard.applied)
    elif failed:
        raise failed


def _event(sse: Any) -> JSON:
    """The value of an event. ProviderError where it is an error, or none can be read from it."""
    text = sse.data.strip()
    if not text or text == "[DONE]":
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        if sse.event == "error":
            raise saying_why.refused(200, text) from None
        raise ProviderError(
            "no answer: an event amid the answer cannot be read", hint="Nothing was lost; send again."
        ) from None
    if sse.event == "error" or (isinstance(event, Mapping) and event.get("type") == "error"):
        raise saying_why.refused(200, text)
    return event


def _in_one_piece(text: str, most: int) -> Said:
    """An answer that came whole. ProviderError where it is none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise saying_why.refused(200, text) from None
    if not isinstance(raw, Mapping) or "content" not in raw or raw.get("type") == "error":
        raise saying_why.refused(200, text)
    heard = wire.message(raw)
    return Said(heard.content, wire.ended(heard, most) or "end_turn", heard.billed, heard.id, heard.applied)
