"""Which provider a request goes to, and which of its APIs it calls. Pure functions over paths and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PORT = 8602  # of a tap whose address a person sets down
_APIS = (
    ("anthropic-messages", re.compile(r"/messages$")),
    ("anthropic-count", re.compile(r"/messages/count_tokens$")),
    ("openai-count", re.compile(r"/responses/input_tokens$")),
    ("gemini-count", re.compile(r":countTokens$")),
    ("openai-chat", re.compile(r"/chat/completions$")),
    ("openai-responses", re.compile(r"/responses(?:/compact)?$")),
    ("gemini", re.compile(r":(?:generateContent|streamGenerateContent)$")),
)
_MODEL = re.compile(r"/models/([^/:]+):")


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider whose tools can be pointed elsewhere.

    Attributes:
        name: Its name, and the first segment of the tap's addresses for it.
        address: Its own address, without the version.
        version: What tools expect behind the address that they are given.
    """

    name: str
    address: str
    version: str = ""


PROVIDERS = {
    one.name: one
    for one in (
        Provider("anthropic", "https://api.anthropic.com"),
        Provider("openai", "https://api.openai.com", "/v1"),
        Provider("gemini", "https://generativelanguage.googleapis.com"),
    )
}


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Where requests go.

    Attributes:
        only: The one address that all requests go to; "" = each provider has its own.
        addresses: Address by name of a provider, where it is not the provider's own.
    """

    only: str
    addresses: Mapping[str, str]

    def find_address(self, path: str) -> str:
        """Find the address that a path of the tap stands for, without its query; "" where it stands for none."""
        if not path.startswith("/"):  # as `@other.example/`, which behind an address would be part of the host's name
            return ""
        if self.only:
            return strip_version(self.only) + path
        name, mark, rest = path.removeprefix("/").partition("/")
        if name not in PROVIDERS or not mark:
            return ""
        return f"{strip_version(self.addresses.get(name) or PROVIDERS[name].address)}/{rest}"

    def make_base(self, tap: str, name: str) -> str:
        """Make the address that a provider's tool is given.

        Args:
            tap: The tap's own address.
            name: Name of the provider.
        """
        return tap + ("" if self.only else f"/{name}") + PROVIDERS[name].version


def strip_version(address: str) -> str:
    """Strip the version from an address: tools are given it with the version, or without.

    >>> strip_version("http://localhost:11434/v1/")
    'http://localhost:11434'
    """
    return address.rstrip("/").removesuffix("/v1")


def detect_api(path: str) -> str:
    """Detect the API that a path belongs to; "" where its calls are not recorded.

    >>> detect_api("/anthropic/v1/messages"), detect_api("/v1/models")
    ('anthropic-messages', '')
    """
    return next((api for api, ends in _APIS if ends.search(path)), "")


def find_model(path: str) -> str:
    """Find the model that an address of Google's API names; "" = none.

    >>> find_model("/v1beta/models/gemini-2.5-pro:generateContent")
    'gemini-2.5-pro'
    """
    found = _MODEL.search(path)
    return found[1] if found else ""
