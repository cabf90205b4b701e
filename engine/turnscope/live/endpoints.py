"""Where requests may go: the built-in model, the APIs of vendors, and servers; their models, and the tools of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args
from urllib.parse import urlsplit

import httpx2

from turnscope import settings
from turnscope.errors import TurnscopeError
from turnscope.live import window_lookup
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import WINDOWS
from turnscope.live.provider import ANTHROPIC_URL, Provider, connect
from turnscope.live.secrets import KeyRing
from turnscope.live.tools import Toolbox
from turnscope.live.window_lookup import Window
from turnscope.session.destination import Destination, parse_origin, strip_address
from turnscope.typed_path import parse_path

Kind = Literal["offline", "anthropic", "openai", "openai-chat", "openrouter", "azure", "gemini", "chat", "server"]
OFFLINE_MODELS = tuple(WINDOWS)


class Service(NamedTuple):
    """A kind of destination.

    Args:
        label: What a person chooses.
        url: The vendor's own address; "" = an address has to be typed.
        api: The API: messages, chat, responses or gemini.
        path: What follows an address that names no path.
        models: Models to choose from; a person may type any other name.
        about: What a person has to know of it; "" = nothing.
    """

    label: str
    url: str
    api: Literal["messages", "chat", "responses", "gemini"]
    path: str = ""
    models: tuple[str, ...] = ()
    about: str = ""


OPENAI_URL = "https://api.openai.com/v1"
_CLAUDE = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6", "claude-haiku-4-5")
_GPT = ("gpt-6.1-sol", "gpt-6-luna", "gpt-5.6-terra", "gpt-5.5", "gpt-5.4-mini")
SERVICES: dict[Kind, Service] = {
    "offline": Service("Built-in offline model", "", "messages", models=OFFLINE_MODELS),
    "anthropic": Service("Anthropic API", ANTHROPIC_URL, "messages", models=_CLAUDE),
    "openai": Service("OpenAI: Responses", OPENAI_URL, "responses", "/v1", _GPT, "It counts prompts before they are sent."),
    "openai-chat": Service("OpenAI: Chat Completions", OPENAI_URL, "chat", "/v1", _GPT, "Thinking is billed, and not shown."),
    "openrouter": Service(
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "chat",
        "/api/v1",
        ("anthropic/claude-sonnet-5.5", "openai/gpt-5.5", "google/gemini-2.5-pro", "deepseek/deepseek-chat"),
        "Models of many vendors. Those that want marks for their prompt cache get them.",
    ),
    "azure": Service(
        "Azure OpenAI",
        "",
        "chat",
        "/openai/v1",
        about="The resource's address, such as https://NAME.openai.azure.com. The model is the name of the deployment.",
    ),
    "gemini": Service(
        "Google Gemini",
        "https://generativelanguage.googleapis.com",
        "gemini",
        models=("gemini-3.5-flash", "gemini-2.5-pro", "gemini-2.5-flash"),
        about="It counts prompts before they are sent.",
    ),
    "chat": Service(
        "Server: Chat Completions",
        "",
        "chat",
        "/v1",
        about="Ollama, LM Studio, llama.cpp, vLLM and most other servers have it. llama.cpp and vLLM count prompts too.",
    ),
    "server": Service(
        "Server: Messages API",
        "",
        "messages",
        about="Anthropic's API, at /v1/messages below this address: Ollama, LM Studio, llama.cpp and vLLM have it too. "
        "Images go as that API's image blocks.",
    ),
}
"""Every kind of destination. Of the models the first is chosen; Anthropic's are of `anthropic.types.Model` in SDK 2.12."""
FIXED = ("offline", "anthropic")  # kinds whose address cannot be changed


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and its key.

    `url` "" = the vendor's own. `key` "" = the key of the environment, for a vendor's own address alone. A key is never written
    to a file.
    """

    kind: Kind = "offline"
    url: str = ""
    key: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """The address that requests go to; "" for the built-in model, or where none is known."""
        typed = "" if self.kind in FIXED else strip_address(self.url).rstrip("/")
        if not typed:
            return SERVICES[self.kind].url or (settings.read_azure_address() if self.kind == "azure" else "")
        return typed

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address. A key is typed for one origin and sent to no other."""
        return parse_origin(self.address)

    @property
    def is_own(self) -> bool:
        """Whether the address is the vendor's own, and gets the key of the environment."""
        return not self.url.strip() or self.kind in FIXED or self.origin == parse_origin(SERVICES[self.kind].url)


def make_endpoint(destination: Destination, key: str = "") -> Endpoint:
    """Return the endpoint of a destination; one of an unknown kind is a server of the Messages API.

    Args:
        destination: Where a chat goes.
        key: The key; "" = the one of the environment.
    """
    kind: Kind = next((kind for kind in get_args(Kind) if kind == destination.kind), "server")
    return Endpoint(kind, destination.url, key)


def connect_destination(destination: Destination, keys: KeyRing, offline: OfflineServer) -> Provider:
    """Connect to the destination of a chat.

    Args:
        destination: Where the chat goes.
        keys: The keys that the user typed; the one for the destination's origin is used.
        offline: The built-in model.

    Raises:
        TurnscopeError: There is no key, or no address.
    """
    return connect_endpoint(make_endpoint(destination, keys.get_key(make_endpoint(destination).address)), offline)


def fetch_destination_window(destination: Destination, keys: KeyRing) -> Window:
    """Ask the server of a destination for the window of its model. Takes a few seconds at most.

    Args:
        destination: Where the chat goes.
        keys: The keys that the user typed.
    """
    endpoint = make_endpoint(destination)
    if endpoint.kind in FIXED:
        return Window(source="it is known")
    key = keys.get_key(endpoint.address) or (settings.read_key(endpoint.kind) if endpoint.is_own else "")
    return window_lookup.fetch_window(endpoint.address, destination.model, key)


def connect_endpoint(endpoint: Endpoint, offline: OfflineServer) -> Provider:
    """Connect to an endpoint. The built-in model's errors are shown at once; the SDK retries the others.

    Args:
        endpoint: The address and the key.
        offline: The built-in model.

    Raises:
        TurnscopeError: There is no key, no address, or no package for this API.
    """
    kind, service = endpoint.kind, SERVICES[endpoint.kind]
    if kind == "offline":
        return connect(offline.url, "none", retries=0, timeout=60, kind="offline")
    if kind == "anthropic":
        return connect(ANTHROPIC_URL, endpoint.key, kind="anthropic")
    if not endpoint.origin:
        raise TurnscopeError("the server's address is missing", hint="Type it in the settings, with http:// or https://.")
    try:
        httpx2.URL(endpoint.address)
    except httpx2.InvalidURL as error:
        raise TurnscopeError("the server's address is no web address", hint="Check its letters in the settings.") from error
    if service.api == "messages":
        return connect(endpoint.address, endpoint.key or "none")
    key = endpoint.key or (settings.read_key(kind) if endpoint.is_own else "") or ("" if service.url else "none")
    to, url = Destination(kind, strip_address(endpoint.url).rstrip("/")), _add_path(endpoint.address, service.path)
    try:
        if service.api == "gemini":
            from turnscope.live import gemini_provider

            return gemini_provider.connect(to, url, key, trusted=endpoint.is_own)
        from turnscope.live import openai_provider
    except ImportError as error:
        package, extra = ("google-genai", "gemini") if service.api == "gemini" else ("openai", "openai")
        hint = f"Type `pip install 'turnscope[{extra}]'`, and start Turnscope again."
        raise TurnscopeError(f"this API needs the package {package}, which is not installed", hint=hint) from error
    dialect = None if service.api == "responses" else {"openrouter": "openrouter", "chat": "server"}.get(kind, "openai")
    return openai_provider.connect(to, url, key, trusted=endpoint.is_own, dialect=dialect)  # type: ignore[arg-type]


def _add_path(url: str, path: str) -> str:
    """Return an address with the path of the API, if it has none of its own."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + path


def build_toolbox(folder: str, names: Sequence[str]) -> Toolbox:
    """Return the tools that may run. Without a folder that is the calculator alone.

    Args:
        folder: The folder that the tools read; "" = none.
        names: The tools that the user allowed.
    """
    root = None
    with suppress(TurnscopeError):  # the settings of the chat say what is wrong with it
        root = parse_path(folder.strip()) if folder.strip() else None
    if root is None or not root.is_dir():
        return Toolbox(Path(), tuple(name for name in names if name == "calculate"))
    return Toolbox(root, tuple(names))
