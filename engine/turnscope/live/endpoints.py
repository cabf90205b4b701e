"""Where requests may go: the built-in model, the Anthropic API or another server; their models, and the tools of a chat."""

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

# The current models of `anthropic.types.Model` in SDK 2.12. The user may type any other name.
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6", "claude-haiku-4-5")
OFFLINE_MODELS = tuple(WINDOWS)


Kind = Literal["offline", "anthropic", "server"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and its key.

    `key` "" = the key of the environment, for the Anthropic API alone. A key is never written to a file.
    """

    kind: Kind = "offline"
    url: str = ""
    key: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """The address that requests go to; "" for the built-in model."""
        return {"offline": "", "anthropic": ANTHROPIC_URL}.get(self.kind, self.url.strip())

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address. A key is typed for one origin and sent to no other."""
        return parse_origin(self.address)


def connect_destination(destination: Destination, keys: KeyRing, offline: OfflineServer) -> Provider:
    """Connect to the destination of a chat.

    Args:
        destination: Where the chat goes.
        keys: The keys that the user typed; the one for the destination's origin is used.
        offline: The built-in model.

    Raises:
        TurnscopeError: There is no key, or no address.
    """
    kind: Kind = "offline" if destination.kind == "offline" else "anthropic" if destination.kind == "anthropic" else "server"
    return connect_endpoint(Endpoint(kind, destination.url, keys.get_key(Endpoint(kind, destination.url).address)), offline)


def fetch_destination_window(destination: Destination, keys: KeyRing) -> Window:
    """Ask the server of a destination for the window of its model. Takes a few seconds at most.

    Args:
        destination: Where the chat goes.
        keys: The keys that the user typed.
    """
    return (
        window_lookup.fetch_window(destination.url, destination.model, keys.get_key(destination.url))
        if destination.kind == "server"
        else Window(source="it is known")
    )


def connect_endpoint(endpoint: Endpoint, offline: OfflineServer) -> Provider:
    """Connect to an endpoint. The built-in model's errors are shown at once; the SDK retries the others.

    Args:
        endpoint: The address and the key.
        offline: The built-in model.

    Raises:
        TurnscopeError: There is no key, or no address.
    """
    if endpoint.kind == "offline":
        return connect(offline.url, "none", retries=0, timeout=60, kind="offline")
    if endpoint.kind == "anthropic":
        return connect(ANTHROPIC_URL, endpoint.key, kind="anthropic")
    if not parse_origin(endpoint.url):
        raise TurnscopeError("the server's address is missing", hint="Type it in the settings, with http:// or https://.")
    return connect(endpoint.url, endpoint.key or "none")


def build_toolbox(folder: str, names: Sequence[str]) -> Toolbox:
    """Return the tools that may run. Without a folder that is the calculator alone.

    Args:
        folder: The folder that the tools read; "" = none.
        names: The tools that the user allowed.
    """
    root = Path(folder).expanduser() if folder.strip() else None
    if root is None or not root.is_dir():
        return Toolbox(Path(), tuple(name for name in names if name == "calculate"))
    return Toolbox(root, tuple(names))
