"""Where a conversation goes: the kind of provider, its address and the model. A value, without network and without keys."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

DEFAULT_PORTS = {"http": 80, "https": 443}
NAMES = {
    "offline": "the built-in model",
    "anthropic": "the Anthropic API",
    "openai": "the OpenAI API",
    "openai-chat": "OpenAI's Chat Completions",
    "openrouter": "OpenRouter",
    "gemini": "the Gemini API",
}
"""What a destination without an address is called, by its kind."""


class Destination(Struct, frozen=True):
    """Where the requests of a thread go.

    `kind`: "offline" (the built-in model), "anthropic" (its API), "server" (the same API at `url`), or another API:
    "openai" (Responses), "openai-chat", "openrouter", "azure" and "chat" (Chat Completions), "gemini". `url`: the address; "" =
    the vendor's own. `window`: the model's window in tokens, as its server or a person reported it; 0 = not reported.
    """

    kind: str
    url: str = ""
    model: str = ""
    window: int = 0

    def __str__(self) -> str:
        at = parse_origin(self.url) or NAMES.get(self.kind, "nowhere")
        return f"{self.model} at {at}" if self.model else at

    @property
    def is_anthropic(self) -> bool:
        """Whether all of Anthropic's API is there: its checks of a request, and context editing on the server."""
        return self.kind in ("offline", "anthropic")

    def is_same_server(self, other: Destination) -> bool:
        """Whether requests to both go to the same server, whatever the model."""
        return (self.kind, self.url.rstrip("/")) == (other.kind, other.url.rstrip("/"))


def parse_origin(url: str) -> str:
    """Get scheme, host and port of an address. API keys are kept under them. "" where `url` is no web address.

    >>> parse_origin("https://api.example.com/v1/messages")
    'https://api.example.com:443'
    """
    try:
        parts = urlsplit(url.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if scheme not in DEFAULT_PORTS or not host or not url.strip().isprintable():
        return ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORTS[scheme]}"


def strip_address(url: str) -> str:
    """Return an address without what may hold a key: the user and password before the host, the query and the fragment.

    Anything else than a web address is returned as it is, but for spaces around it.

    >>> strip_address("https://me:secret@api.example.com/v1?api_key=secret")
    'https://api.example.com/v1'
    """
    url = url.strip()
    if not parse_origin(url):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
