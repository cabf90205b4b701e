"""Where a conversation goes: the kind of provider, its address and the model. A value, without network and without keys."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

DEFAULT_PORTS = {"http": 80, "https": 443}


class Destination(Struct, frozen=True):
    """Where the requests of a thread go.

    `kind`: "offline" (the built-in model), "anthropic" (its API), or "server" (the same API at `url`). `window`: the model's
    window in tokens, as its server or a person reported it; 0 = not reported.
    """

    kind: str
    url: str = ""
    model: str = ""
    window: int = 0

    def __str__(self) -> str:
        at = (
            {"offline": "the built-in model", "anthropic": "the Anthropic API"}.get(self.kind)
            or parse_origin(self.url)
            or "nowhere"
        )
        return f"{self.model} at {at}" if self.model else at

    def is_same_server(self, other: Destination) -> bool:
        """Whether requests to both go to the same server, whatever the model."""
        return (self.kind, self.url.rstrip("/")) == (other.kind, other.url.rstrip("/"))


def parse_origin(url: str) -> str:
    """Get scheme, host and port of an address. API keys are stored under them. "" where `url` is no web address.

    >>> parse_origin("https://api.example.com/v1/messages")
    'https://api.example.com:443'
    """
    try:
        parts = urlsplit(url.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if scheme not in DEFAULT_PORTS or not host:
        return ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORTS[scheme]}"
