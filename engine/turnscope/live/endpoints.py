"""Where requests may go: the built-in model, the Anthropic API, another server; their models, and the tools that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from turnscope.errors import TurnscopeError
from turnscope.live import window_lookup
from turnscope.live.offline import OfflineServer
from turnscope.live.offline.model import WINDOWS
from turnscope.live.provider import ANTHROPIC_URL, Provider, connect
from turnscope.live.secrets import KeyRing
from turnscope.live.tools import Toolbox
from turnscope.live.window_lookup import Window
from turnscope.session.destination import Destination, parse_origin

# `anthropic.types.Model` of SDK 2.12, the current ones; any other name may be typed.
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6", "claude-haiku-4-5")
OFFLINE_MODELS = tuple(WINDOWS)


Kind = Literal["offline", "anthropic", "server"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `key` "" = the environment's, for the Anthropic API alone; it is never written anywhere."""

    kind: Kind = "offline"
    url: str = ""
    key: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """The address that requests go to, and that a key is typed for; "" for the built-in model."""
        return {"offline": "", "anthropic": ANTHROPIC_URL}.get(self.kind, self.url.strip())

    @property
    def origin(self) -> str:
        """Scheme, host and port of that address: a key is typed for those, and goes nowhere else."""
        return parse_origin(self.address)


def connect_destination(destination: Destination, keys: KeyRing, offline: OfflineServer) -> Provider:
    """The provider where a conversation goes, with the key that was typed for its origin. TurnscopeError as `provider`."""
    kind: Kind = "offline" if destination.kind == "offline" else "anthropic" if destination.kind == "anthropic" else "server"
    return connect_endpoint(Endpoint(kind, destination.url, keys.get_key(Endpoint(kind, destination.url).address)), offline)


def fetch_destination_window(destination: Destination, keys: KeyRing) -> Window:
    """The window of the model where a conversation goes, as its server tells it: asked over the network, for a few seconds."""
    return (
        window_lookup.fetch_window(destination.url, destination.model, keys.get_key(destination.url))
        if destination.kind == "server"
        else Window(source="it is known")
    )


def connect_endpoint(endpoint: Endpoint, offline: OfflineServer) -> Provider:
    """The provider at an endpoint. TurnscopeError where there is no key or no address.

    A key from the environment goes to the Anthropic API alone: an address that somebody typed never receives it. The built-in
    model's faults are shown at once; elsewhere the SDK tries again by itself.
    """
    if endpoint.kind == "offline":
        return connect(offline.url, "none", retries=0, timeout=60, kind="offline")
    if endpoint.kind == "anthropic":
        return connect(ANTHROPIC_URL, endpoint.key, kind="anthropic")
    if not parse_origin(endpoint.url):
        raise TurnscopeError("the server's address is missing", hint="Type it with http:// or https:// in the settings.")
    return connect(endpoint.url, endpoint.key or "none")


def build_toolbox(folder: str, names: Sequence[str]) -> Toolbox:
    """The tools that may run. Without a folder that exists, only the calculator."""
    root = Path(folder).expanduser() if folder.strip() else None
    if root is None or not root.is_dir():
        return Toolbox(Path(), tuple(name for name in names if name == "calculate"))
    return Toolbox(root, tuple(names))
