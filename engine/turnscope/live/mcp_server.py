"""An MCP server that the user set up, reached by its Streamable HTTP transport: its instructions, and calls of its tools.

What a server sends is data. Of its replies the one to the call is read; it may send others before, and its stream need not end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from turnscope.errors import ProviderError
from turnscope.live.secrets import scrub
from turnscope.live.web_client import WebClient, build_key_headers, clean_text, open_client
from turnscope.session.destination import parse_origin

VERSION = "2025-06-18"
MAX_INSTRUCTIONS = 6_000  # characters


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server by its address.

    Args:
        url: The address.
        key: The key, sent to this address alone; "" = none.
        header: The header that carries the key. In `Authorization` it stands as `Bearer`.
    """

    url: str
    key: str = field(default="", repr=False)
    header: str = "Authorization"

    @property
    def name(self) -> str:
        """Host and port of the address. What a server calls itself is not used: two may call themselves the same."""
        return parse_origin(self.url).partition("://")[2]

    def read_instructions(self) -> str:
        """Return what the server says on how to use its tools; "" where it says nothing.

        Raises:
            ProviderError: The server does not answer as a server of MCP does.
        """
        with self._connect() as session:
            text = session.begun.get("instructions")
        return clean_text(scrub(text)).strip()[:MAX_INSTRUCTIONS] if isinstance(text, str) else ""

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a call, as the protocol has it: `content`, `structuredContent`, `isError`.

        Args:
            name: The tool's name.
            arguments: Its arguments.

        Raises:
            ProviderError: The server does not answer, or refuses.
        """
        with self._connect() as session:
            result = session.post(2, "tools/call", {"name": name, "arguments": arguments})
        return result if isinstance(result, Mapping) else {}

    @contextmanager
    def _connect(self) -> Iterator[_Session]:
        """Begin a session. The server forgets it by itself."""
        headers = build_key_headers(self.key, self.header) | {"accept": "application/json, text/event-stream"}
        with open_client(self.url, "the MCP server", headers, self.key) as client:
            session = _Session(client, self.url.strip())
            session.begin()
            yield session


@dataclass(slots=True)
class _Session:
    client: WebClient
    url: str
    headers: dict[str, str] = field(default_factory=lambda: {"mcp-protocol-version": VERSION})
    begun: Mapping[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        about = {"name": "turnscope", "version": "1"}
        begun = self.post(1, "initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about})
        self.begun = begun if isinstance(begun, Mapping) else {}
        if isinstance(version := self.begun.get("protocolVersion"), str) and version.isascii() and version.isprintable():
            self.headers["mcp-protocol-version"] = version[:40]
        self.post(0, "notifications/initialized", {})

    def post(self, number: int, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result; a notification, whose number is 0, has none."""
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
        found: list[Mapping[str, Any]] = []

        def is_reply(line: bytes) -> bool:
            reply = _parse_event(line)
            if reply.get("id") == number and ("result" in reply or "error" in reply):
                found.append(reply)
            return bool(found)

        text, got = self.client.read("POST", self.url, self.headers, message, is_reply if number else None)
        if session := got.get("mcp-session-id"):
            self.headers["mcp-session-id"] = session
        if not number:
            return None
        reply = found[0] if found else _parse_event(b"data:" + text.encode("utf-8", "replace"))
        if reply.get("id") != number:
            raise ProviderError("the MCP server does not answer the call")
        if "error" in reply:
            error = reply["error"]
            reason = error.get("message") if isinstance(error, Mapping) else error
            raise ProviderError(f"the MCP server refuses: {clean_text(scrub(str(reason)))[:200]}")
        return reply.get("result")


def _parse_event(line: bytes) -> Mapping[str, Any]:
    if not line.startswith(b"data:"):
        return {}
    try:
        value = json.loads(line[5:])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}
