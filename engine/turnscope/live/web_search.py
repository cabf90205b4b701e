"""Web results of a search that the user sets up: an endpoint that answers in JSON, or one tool of an MCP server.

An endpoint's address has `{query}` where the question goes. An MCP server is reached by its Streamable HTTP transport.
Nothing is asked of anybody unless the user set it up. What comes back is data: keys are scrubbed, and a result cannot
close the tag that it is put in.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from turnscope.envelope.context_items import ContextItem, Kind
from turnscope.errors import ProviderError
from turnscope.live.bounded_transport import BoundedTransport
from turnscope.live.secrets import register_key, scrub
from turnscope.session.destination import parse_origin

QUERY = "{query}"
TIMEOUT = 10.0  # seconds of a whole search
MAX_BYTES = 2_000_000  # of an answer
MAX_QUERY, MAX_RESULTS, MAX_TEXT = 400, 10, 6_000  # characters of a query; results; characters of a result
NAMES = ("title", "name")
ADDRESSES = ("url", "link", "href")
TEXTS = ("content", "snippet", "description", "text", "body")
LISTS = ("results", "items", "data", "web", "organic", "hits", "webPages", "value")  # where lists of results are found
MCP_VERSION = "2025-06-18"
_TAGS = re.compile(r"<(?=\s*/?\s*(?:source|web|context|memory_context|user_query)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WebSearch:
    """A search that the user set up. Called with a kind and a question, it returns the web results for it.

    Args:
        url: Address of the endpoint, with `{query}`; or of the MCP server.
        tool: Name of the MCP server's tool; "" = the address is an endpoint.
        argument: Name of the tool's argument for the query.
        path: Keys down to the list of results, with dots between them; "" = the first list of results that is found.
        key: The key, sent to this address alone; "" = none.
        header: The header that carries the key. In `Authorization` it stands as `Bearer`.
    """

    url: str
    tool: str = ""
    argument: str = "query"
    path: str = ""
    key: str = field(default="", repr=False)
    header: str = "Authorization"

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address; a key is typed for one origin."""
        return parse_origin(self.url)

    def __call__(self, kind: Kind, question: str) -> Sequence[ContextItem]:
        """Return the results; where the search failed, one item that says why.

        Args:
            kind: The kind of items; others than web results are not found here.
            question: The question.
        """
        if kind != "web" or not question.strip():
            return ()
        try:
            return self.search(question)
        except ProviderError as error:
            return (ContextItem("web", "web search", f"[not searched: {error.what}]"),)

    def search(self, question: str) -> Sequence[ContextItem]:
        """Return the results for a question, at most `MAX_RESULTS`.

        Args:
            question: The question; its first `MAX_QUERY` characters are the query.

        Raises:
            ProviderError: The address is wrong, nobody answers in time, or the answer holds no results.
        """
        self._check()
        query = " ".join(question.split())[:MAX_QUERY]
        register_key(self.key)
        deadline = time.monotonic() + TIMEOUT
        options: dict[str, Any] = {"trust_env": False, "follow_redirects": False, "timeout": TIMEOUT}
        transport = BoundedTransport(httpx2.HTTPTransport(trust_env=False))
        try:
            with httpx2.Client(transport=transport, headers=self._build_headers(), **options) as client:
                found = self._call_tool(client, query, deadline) if self.tool else self._fetch(client, query, deadline)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ProviderError(f"{parse_origin(self.url)} does not answer: {scrub(str(error))[:200]}") from None
        return [*_list_items(scrub(found))][:MAX_RESULTS]

    def _check(self) -> None:
        parts = urlsplit(self.url.strip()) if parse_origin(self.url) else None
        if parts is None or "{" in parts.netloc:
            raise ProviderError("the search has no web address", hint="Type one that begins with http:// or https://.")
        if not self.tool and QUERY not in self.url:
            raise ProviderError(f"the address has no {QUERY}", hint="Put it where the words of the search go.")
        if self.key and not (self.key.isascii() and self.key.isprintable() and re.fullmatch(r"[\w-]+", self.header, re.ASCII)):
            raise ProviderError("the key or its header holds what a header cannot", hint="Check both for spaces and accents.")

    def _build_headers(self) -> dict[str, str]:
        bearer = "Bearer " if self.header.lower() == "authorization" else ""
        return {"accept": "application/json"} | ({self.header: bearer + self.key} if self.key else {})

    def _fetch(self, client: httpx2.Client, query: str, deadline: float) -> Any:
        url = self.url.strip().replace(QUERY, quote(query, safe=""))
        text, _ = _read(client.build_request("GET", url), client, deadline)
        return find_results(_parse(text), self.path)

    def _call_tool(self, client: httpx2.Client, query: str, deadline: float) -> Any:
        """Begin a session with the MCP server and call the tool. The server forgets the session by itself."""
        url, head = self.url.strip(), {"accept": "application/json, text/event-stream", "mcp-protocol-version": MCP_VERSION}

        def post(number: int, method: str, params: Mapping[str, Any]) -> Any:
            message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
            text, got = _read(client.build_request("POST", url, json=message, headers=head), client, deadline)
            if session := got.get("mcp-session-id"):
                head["mcp-session-id"] = session
            return _read_reply(text, number, events="event-stream" in got.get("content-type", "")) if number else None

        about = {"name": "turnscope", "version": "1"}
        begun = post(1, "initialize", {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": about})
        if isinstance(begun, Mapping) and isinstance(begun.get("protocolVersion"), str):
            head["mcp-protocol-version"] = begun["protocolVersion"]
        post(0, "notifications/initialized", {})
        result = post(2, "tools/call", {"name": self.tool, "arguments": {self.argument: query}})
        return _read_tool_result(result, self.path)


def find_results(value: Any, path: str) -> Any:
    """Return the list of results in an answer.

    Args:
        value: The answer, as JSON.
        path: Keys down to the list, with dots between them; a number is a place of a list. "" = a list below a usual key.

    Raises:
        ProviderError: There is no list.
    """
    for name in path.split(".") if path.strip() else ():
        if isinstance(value, list) and name.strip().isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name.strip()) if isinstance(value, Mapping) else None
    found = value if path.strip() or isinstance(value, list) else _find_list(value)
    if not isinstance(found, list):
        where = f"at {path!r}" if path.strip() else "that it knows"
        raise ProviderError(f"the answer has no list of results {where}", hint="Name the keys that lead to it.")
    return found


def _find_list(value: Any, depth: int = 3) -> Any:
    inner = [value[name] for name in LISTS if name in value] if isinstance(value, Mapping) else []
    for one in inner:
        found = one if isinstance(one, list) else _find_list(one, depth - 1) if depth > 1 else None
        if found is not None:
            return found
    return None


def _list_items(found: Sequence[Any]) -> Iterator[ContextItem]:
    """Yield results as items: objects with a title, an address and a text, or bare texts."""
    for number, one in enumerate(found, 1):
        row = one if isinstance(one, Mapping) else {"text": one}
        title, address, text = (_get_first(row, names) for names in (NAMES, ADDRESSES, TEXTS))
        if text.strip():
            name = " ".join(f"{title} {address}".split())[:300] or f"result {number}"
            yield ContextItem("web", name, _TAGS.sub("&lt;", text)[:MAX_TEXT])


def _get_first(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(row[name]) for name in names if isinstance(row.get(name), str) and row[name].strip()), "")


def _read(request: httpx2.Request, client: httpx2.Client, deadline: float) -> tuple[str, Mapping[str, str]]:
    """Return text and headers of an answer that is neither late nor too large."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ProviderError(f"the search takes longer than {TIMEOUT:.0f} seconds")
    request.extensions = {**request.extensions, "timeout": dict.fromkeys(("connect", "read", "write", "pool"), left)}
    response = client.send(request, stream=True)
    try:
        if not 200 <= response.status_code < 300:
            raise ProviderError(f"the search answers with status {response.status_code}")
        data = bytearray()
        for chunk in response.iter_bytes():
            data += chunk
            if len(data) > MAX_BYTES:
                raise ProviderError(f"the answer is larger than {MAX_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise ProviderError(f"the search takes longer than {TIMEOUT:.0f} seconds")
    finally:
        response.close()
    return data.decode("utf-8", "replace"), response.headers


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ProviderError("the answer is no JSON", hint="Many searches want format=json in their address.") from None


def _read_reply(text: str, number: int, *, events: bool) -> Any:
    """Return the result of the JSON-RPC reply with this number; an answer in events may hold other messages before it."""
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")] if events else [text]
    for reply in map(_parse, lines):
        if isinstance(reply, Mapping) and reply.get("id") == number:
            if "error" in reply:
                error = reply["error"]
                reason = error.get("message") if isinstance(error, Mapping) else error
                raise ProviderError(f"the MCP server refuses: {scrub(str(reason))[:200]}")
            return reply.get("result")
    raise ProviderError("the MCP server does not answer the call")


def _read_tool_result(result: Any, path: str) -> Any:
    """Return the results of a tool: its structured content, a list as JSON in its text, or its texts."""
    result = result if isinstance(result, Mapping) else {}
    content = result.get("content")
    rows = content if isinstance(content, list) else []
    texts = [row["text"] for row in rows if isinstance(row, Mapping) and isinstance(row.get("text"), str)]
    if result.get("isError"):
        raise ProviderError(f"the tool failed: {scrub(' '.join(texts))[:200]}")
    if "structuredContent" in result:
        return find_results(result["structuredContent"], path)
    if len(texts) == 1 and texts[0].lstrip()[:1] in ("{", "["):
        return find_results(_parse(texts[0]), path)
    return texts
