"""What the form of the live chat holds, what it begins with, and the provider that it names. Loads no provider by itself.

A typed key stays in this tab's memory (`st.session_state`) and in the provider made from it; it is never in the address, a
log or the store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live.threads import Destination
from turnscope.live.tools import DEFINITIONS

if TYPE_CHECKING:
    from turnscope.live.offline import OfflineServer
    from turnscope.live.provider import Provider

POLICY = "balanced"
TOOLS = tuple(str(tool["name"]) for tool in DEFINITIONS)
DELAY = 0.03  # seconds between the pieces of the built-in model's answers: quick, but slow enough to be watched and stopped
DEFAULTS: dict[str, Any] = {
    "provider": "offline",
    "url": "",
    "model": "offline-16k",
    "window": 0,  # tokens of the model's, from its server or from the user
    "policy": POLICY,
    "repeat": False,  # rules of the user's are said again once they have left
    "thinking": False,
    "max": 1_024,
    "temperature": None,
    "cache": "5m",
    "system": "You are a helpful assistant. Be brief.",
    "folder": "",
    "tools": list(TOOLS),
    "spend": 0.0,
    "growth": 0,
    "condense": True,  # the built-in model costs nothing; choosing another provider switches it off until somebody asks for it
    "summary": "",
    "fault": "none",
}


def get_value(name: str) -> Any:
    """A setting as the form has it."""
    return st.session_state.get(f"chat.{name}", DEFAULTS.get(name))


def list_settings() -> dict[str, Any]:
    """What a new chat remembers of its settings. No key."""
    return {name: get_value(name) for name in ("provider", "model", "policy", "folder")} | {"url": get_address()}


def get_address() -> str:
    """The typed address of a server, without a password or a key that was typed into it."""
    from turnscope.live import endpoints  # loads a provider's SDK, which most pages do without

    return endpoints.Endpoint("server", get_value("url")).address


def get_destination() -> Destination:
    """Where the form says that a chat goes."""
    kind = get_value("provider")
    url = "" if kind in ("offline", "anthropic") else get_address()
    return Destination(kind, url, get_value("model") or "", int(get_value("window") or 0))


def get_key_name() -> str:
    """Under which name this tab's memory has the key of the form's address: each origin has one of its own."""

    from turnscope.live import endpoints  # loads a provider's SDK, which most pages do without

    return f"key.{endpoints.Endpoint(get_value('provider'), get_value('url')).origin}"


def connect_provider(to: Destination | None = None) -> Provider:
    """The provider where a chat goes, else where the form says. TurnscopeError where a key or an address is missing."""

    from turnscope.live import endpoints

    to = to or get_destination()
    if not to.model:
        raise TurnscopeError("no model is chosen", hint="Type its name in the settings.")
    endpoint = endpoints.make_endpoint(to)
    typed = (st.session_state.get(f"chat.key.{endpoint.origin}") or "").strip()
    return endpoints.connect_endpoint(replace(endpoint, key=typed), get_offline_server())


@st.cache_resource(show_spinner=False)
def get_offline_server() -> OfflineServer:
    """The built-in model, one for this process."""
    from turnscope.live.offline import OfflineServer

    return OfflineServer(delay=DELAY)
