"""Web results of a search that the user sets up: an endpoint that answers in JSON, or one tool of an MCP server.

An endpoint's address has `{query}` where the question goes. Nothing is asked of anybody unless the user set it up. What comes
back is data: keys are scrubbed, and a result cannot close the tag that it is put in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from turnscope.envelope.context_items import ContextItem, Kind
from turnscope.errors import ProviderError
from turnscope.live.mcp_server import McpServer
from turnscope.live.secrets import scrub
from turnscope.live.web_client import build_key_headers, clean_text, open_client
from turnscope.session.destination import parse_origin

QUERY = "{query}"
MAX_QUERY, MAX_RESULTS, MAX_TEXT = 400, 10, 6_000  # characters of a query; results; characters of a result
NAMES = ("title", "name")
ADDRESSES = ("url", "link", "href")
TEXTS = ("content", "snippet", "description", "text", "body")
LISTS = ("results", "items", "data", "web", "organic", "hits", "webPages", "value")  # where lists of results are found
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

    @property
    def server(self) -> McpServer | None:
        """The MCP server whose tool is the search; None where the address is an endpoint."""
        return McpServer(self.url, self.key, self.header) if self.tool else None

    def __call__(self, kind: Kind, question: str) -> Sequence[ContextItem]:
        """Return web results, or the instructions of the MCP server; where this failed, one item that says why.

        Args:
            kind: The kind of items; others than these two are not found here.
            question: The question.
        """
        try:
            if kind == "mcp" and self.server:
                text = self.server.read_instructions()
                return (ContextItem("mcp", self.server.name, text),) if text else ()
            return self.search(question) if kind == "web" and question.strip() else ()
        except ProviderError as error:
            about, failed = ("web search", "searched") if kind == "web" else (parse_origin(self.url), "read")
            return (ContextItem(kind, about, f"[not {failed}: {error.what}]"),)

    def search(self, question: str) -> Sequence[ContextItem]:
        """Return the results for a question, at most `MAX_RESULTS`.

        Args:
            question: The question; its first `MAX_QUERY` characters are the query.

        Raises:
            ProviderError: The address is wrong, nobody answers in time, or the answer holds no results.
        """
        self._check()
        query = " ".join(question.split())[:MAX_QUERY]
        if self.server:
            found = _read_tool_result(self.server.call_tool(self.tool, {self.argument: query}), self.path)
        else:
            headers = {"accept": "application/json"} | build_key_headers(self.key, self.header)
            with open_client(self.url, "the search", headers, self.key) as client:
                text, _ = client.read("GET", self.url.strip().replace(QUERY, quote(query, safe="")))
            found = find_results(_parse(text), self.path)
        return [*_list_items(scrub(found))][:MAX_RESULTS]

    def _check(self) -> None:
        parts = urlsplit(self.url.strip()) if parse_origin(self.url) else None
        if parts is None or "{" in parts.netloc:
            raise ProviderError("the search has no web address", hint="Type one that begins with http:// or https://.")
        if not self.tool and QUERY not in self.url:
            raise ProviderError(f"the address has no {QUERY}", hint="Put it where the words of the search go.")


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
        title, address, text = (clean_text(_get_first(row, names)) for names in (NAMES, ADDRESSES, TEXTS))
        if text.strip():
            name = " ".join(f"{title} {address}".split())[:300] or f"result {number}"
            yield ContextItem("web", name, _TAGS.sub("&lt;", text)[:MAX_TEXT])


def _get_first(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(row[name]) for name in names if isinstance(row.get(name), str) and row[name].strip()), "")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ProviderError("the answer is no JSON", hint="Many searches want format=json in their address.") from None


def _read_tool_result(result: Mapping[str, Any], path: str) -> Any:
    """Return the results of a tool: its structured content, a list as JSON in its text, or its texts."""
    content = result.get("content")
    rows = content if isinstance(content, list) else []
    texts = [row["text"] for row in rows if isinstance(row, Mapping) and isinstance(row.get("text"), str)]
    if result.get("isError"):
        raise ProviderError(f"the tool failed: {clean_text(scrub(' '.join(texts)))[:200]}")
    if "structuredContent" in result:
        return find_results(result["structuredContent"], path)
    if len(texts) == 1 and texts[0].lstrip()[:1] in ("{", "["):
        return find_results(_parse(texts[0]), path)
    return texts
