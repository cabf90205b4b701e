"""Where a conversation goes: which kind of provider, at which address, to which model. A value: no network, no key."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

DEFAULT_PORTS = {"http": 80, "https": 443}


class Destination(Struct, frozen=True):
    """Where the requests of a thread go. `window`: the model's in tokens, as its server or a person told it; 0 = nobody did.

    `kind`: "offline" (the built-in model), "anthropic" (its API), or "server" (one of the same API at `url`).
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
        """Whether requests of both go to the same server, whatever the model."""
        return (self.kind, self.url.rstrip("/")) == (other.kind, other.url.rstrip("/"))


def parse_origin(url: str) -> str:
    """Scheme, host and port of an address, as keys are kept by; "" where it is no address of the web."""
    try:
        parts = urlsplit(url.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if scheme not in DEFAULT_PORTS or not host:
        return ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORTS[scheme]}"
