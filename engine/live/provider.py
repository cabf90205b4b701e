"""What a chat needs of a provider, and how the Anthropic SDK gives it. No other module of the engine knows that SDK.

A request's body has the shape of the Messages API. SDK facts: anthropic 2.12 (`messages.stream`, error classes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anthropic
from msgspec import Struct

from engine.errors import ProviderError, TurnscopeError
from engine.live.events import Text, Thinking
from engine.session.builder import usage
from engine.session.model import JSON, Usage

ANTHROPIC = "https://api.anthropic.com"
_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens|context limit: (\d+) \+|request \((\d+) tokens\) exceeds")
_COUNTED = ("messages", "system", "tools", "thinking", "model")  # what of a body counts
_HINTS = {
    401: "Check the API key; it is kept in memory only.",
    413: "The request is larger than the provider takes; let the policy cut more.",
    429: "Wait a little, or choose another model.",
    529: "The provider is overloaded; send again in a moment.",
}


class Said(Struct, frozen=True):
    """A whole answer: its content blocks as they are sent back, why it ended, and what was billed."""

    content: tuple[JSON, ...] = ()
    stop_reason: str = ""
    usage: Usage | None = None
    id: str = ""


Piece = Text | Thinking | Said
"""What a stream consists of; the last one is the whole answer."""


class Provider(Protocol):
    """Where requests go. Its methods raise whatever they raise; `explain` says what that means."""

    def stream(self, body: Mapping[str, JSON]) -> AbstractContextManager[Iterator[Piece]]:
        """Send a request. Entered once it was accepted; then the answer as it comes, with the whole of it at the end."""

    def say(self, body: Mapping[str, JSON]) -> Said:
        """Send a request and wait for its whole answer."""

    def count(self, body: Mapping[str, JSON]) -> int | None:
        """Prompt tokens of a request that is not sent; None where this provider does not count."""

    def explain(self, error: Exception) -> ProviderError:
        """What these methods raised, with what to do about it. Never holds a key."""


@contextmanager
def explained(provider: Provider) -> Iterator[None]:
    """Whatever a provider raises inside is a ProviderError outside."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        raise provider.explain(error) from error


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
    """A server of the Messages API, through the SDK."""

    client: anthropic.Anthropic

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[Piece]]:
        """See `Provider`."""
        with self.client.messages.stream(**body) as stream:
            yield _pieces(stream)

    def say(self, body: Mapping[str, JSON]) -> Said:
        """See `Provider`."""
        return _said(self.client.messages.create(**body))

    def count(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        try:
            return self.client.messages.count_tokens(**{key: body[key] for key in _COUNTED if key in body}).input_tokens
        except anthropic.APIStatusError as error:
            if error.status_code in (404, 405, 501):  # a server without that endpoint
                return None
            raise

    def explain(self, error: Exception) -> ProviderError:
        """See `Provider`. The SDK also lets through what its JSON reader and its HTTP client raise amid a stream."""
        status = getattr(error, "status_code", None)
        what = getattr(error, "api_message", "") or str(error) or type(error).__name__
        if status is None:
            return ProviderError(f"no answer: {what}", hint="Nothing was lost; send again.")
        found = _TOO_LONG.search(str(error))
        return ProviderError(
            f"the provider answered {status}: {what}",
            hint=_HINTS.get(status, "Change the request, or send again."),
            too_long=bool(found) or status == 413,
            tokens=next((int(group) for group in found.groups() if group), 0) if found else 0,
        )


def connected(url: str, key: str, *, retries: int = 2, timeout: float = 600.0) -> Anthropic:
    """A server of the Messages API at an address. `key` "" = what the environment holds; seconds. TurnscopeError: no key."""
    hint = "Type one in the settings; it is kept in memory only."
    try:
        made = anthropic.Anthropic(api_key=key or None, base_url=url, max_retries=retries, timeout=timeout)
    except anthropic.AnthropicError as error:
        raise TurnscopeError("there is no API key", hint=hint) from error
    if not (made.api_key or made.auth_token or made.credentials):
        raise TurnscopeError("there is no API key", hint=hint)
    return Anthropic(made)


def _pieces(stream: anthropic.MessageStream[Any]) -> Iterator[Piece]:
    begun = False
    for event in stream:
        match event.type:
            case "message_start":
                begun = True
            case "content_block_start" if event.content_block.type == "text" and event.content_block.text:
                yield Text(event.content_block.text, event.index)
            case "content_block_delta" if event.delta.type == "text_delta":
                yield Text(event.delta.text, event.index)
            case "thinking":
                yield Thinking(event.thinking)
    if begun and stream.current_message_snapshot.stop_reason is not None:  # else it broke off without an error
        yield _said(stream.current_message_snapshot)


def _said(message: anthropic.types.Message) -> Said:
    raw = message.model_dump(exclude_none=True, mode="json")
    return Said(tuple(raw["content"]), raw.get("stop_reason") or "", usage(raw["usage"]), raw["id"])
