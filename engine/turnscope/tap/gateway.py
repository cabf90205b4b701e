"""Passes requests on to their provider and answers back, byte by byte and at once, and tells the recorder of both.

An ASGI application. Headers stay as they are, but for those that belong to one connection; bodies are never decoded here. A
client that goes away ends its request; a provider whose answer breaks off breaks it off for the client as well.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies

import httpcore2
import httpx2
from starlette.types import Receive, Scope, Send

from turnscope.tap.apis import Upstreams, detect_api, find_model
from turnscope.tap.connections import AsyncioNetwork
from turnscope.tap.recorder import Headers, Recorder

if TYPE_CHECKING:
    from turnscope.tap.enforcement import Ruling
    from turnscope.tap.ruled_requests import RuledRequests

CONNECT_SECONDS = 30.0
KEPT_SECONDS = 60.0  # how long idle connections to providers stay open
REQUESTS_OF_CLIENT = 32  # requests at once that one HTTP client carries
TOO_LONG = (400, 413)  # statuses with which providers say that a prompt is too long
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade "
    b"expect".split()
)
SECRET_HEADERS = frozenset(b"authorization x-api-key api-key x-goog-api-key cookie proxy-authorization".split())


class _ClientGone(Exception):
    """The client closed its connection before it had sent its request whole."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use the tap.

    Attributes:
        port: The port that it listens on.
        token: What an address has to begin with, as `/token/TOKEN`; "" = nothing, because this machine alone reaches it.
    """

    port: int
    token: str = ""

    def refuse(self, headers: Headers) -> str:
        """Say why a request is refused; "" where it is not. A page of a browser names another origin, or another host."""
        origins, hosts, sites = (_find_values(headers, name) for name in (b"origin", b"host", b"sec-fetch-site"))
        for origin in origins:
            if not self._is_own(origin.partition("://")[2]):
                return f"requests from the origin {origin} are not passed on"
        if not {*sites} <= {"none", "same-origin"}:  # a browser names no origin where a page asks for a picture
            return "requests of a page in a browser are not passed on"
        if not self.token and not (hosts and all(map(self._is_own, hosts))):
            return f"requests for the host {', '.join(hosts)} are not passed on"
        return ""

    def strip_token(self, path: str) -> str | None:
        """Strip the token from a path; None where it has another one, or none."""
        if not self.token:
            return path
        _, first, given, rest = [*path.split("/", 3), "", "", ""][:4]
        is_right = first == "token" and hmac.compare_digest(given.encode(), self.token.encode())
        return f"/{rest}" if is_right else None

    def _is_own(self, place: str) -> bool:
        try:
            parts = urlsplit(f"//{place}")
            name, port = parts.hostname or "", parts.port
            return (
                parts.netloc == place
                and "@" not in place
                and port == self.port
                and (name == "localhost" or ip_address(name).is_loopback)
            )
        except ValueError:
            return False


@dataclass(slots=True)
class _Passing:
    """One request on its way. `number`: that of its call in the log, 0 = not recorded (yet)."""

    api: str
    url: str
    headers: Headers
    secrets: list[str]
    sent_at: float
    body: list[bytes] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0
    ruling: Ruling | None = None
    came: tuple[Headers, bytes] = ((), b"")  # headers and body of a request that was ruled on
    answer: list[bytes] = field(default_factory=list)  # of a request that was ruled on


@dataclass(slots=True)
class _Client:
    """An HTTP client, and how many requests it carries. For each request it looks at all of its connections."""

    http: httpx2.AsyncClient
    running: int = 0


class Gateway:
    """The application.

    Args:
        upstreams: Where requests go.
        recorder: Records them.
        access: Who may use it.
        rules: Rules on requests; None = all pass unchanged.
    """

    def __init__(self, upstreams: Upstreams, recorder: Recorder, access: Access, rules: RuledRequests | None = None) -> None:
        self.upstreams, self.recorder, self.access, self.rules = upstreams, recorder, access, rules
        self._clients: list[_Client] = []
        self._trust = httpx2.create_ssl_context()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            return
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        path = self.access.strip_token(scope["raw_path"].decode("latin-1"))
        if why := self.access.refuse(headers) or ("the address lacks the tap's token" if path is None else ""):
            await _answer(send, 403, why)
            return
        if any(name.lower() == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
            await _answer(send, 426, "WebSockets do not pass here; ask over HTTP")  # at which Codex does so at once
            return
        target = self.upstreams.find_address(path or "")
        if not target:
            known = "`/anthropic`, `/openai/v1` or `/gemini`, or start it with --upstream"
            await _answer(send, 404, f"no provider is known for {path}: use an address that begins with {known}")
            return
        query = scope["query_string"].decode("latin-1")
        is_post = scope["method"] == "POST"
        api = detect_api(urlsplit(target).path) if is_post else ""
        secrets = [*_find_secrets(headers, query), self.access.token]
        passing = _Passing(api, target, headers, secrets, self.recorder.clock())
        await self._serve(passing, scope["method"], f"{target}?{query}" if query else target, receive, send)

    def _find_client(self) -> _Client:
        """Find a client with room for a request: the first one, so that idle connections are used again."""
        found = next((each for each in self._clients if each.running < REQUESTS_OF_CLIENT), None)
        if found is None:
            found = _Client(_make_client(self._trust))
            self._clients.append(found)
        return found

    async def _serve(self, passing: _Passing, method: str, url: str, receive: Receive, send: Send) -> None:
        """Pass a request on until it is answered, or its client has gone."""
        client = self._find_client()
        client.running += 1
        forward = asyncio.ensure_future(self._forward(client.http, passing, method, url, receive, send))
        gone = asyncio.ensure_future(_wait_until_gone(passing, receive))
        try:
            await asyncio.wait({forward, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not forward.done():
                forward.cancel()
                with suppress(asyncio.CancelledError):
                    await forward
            client.running -= 1
            if self.rules is not None and passing.ruling:
                self.rules.release(passing.ruling)
        if forward.cancelled():
            self._end(passing, "client gone", "the client closed the connection")
        elif (error := forward.exception()) is not None:
            raise error

    async def _forward(
        self, client: httpx2.AsyncClient, passing: _Passing, method: str, url: str, receive: Receive, send: Send
    ) -> None:
        try:
            body = self._read_body(passing, receive)
            if self.rules is not None and self.rules.wants(passing.api) and _has_body(passing.headers):
                body, url = await self._rule(self.rules, client, passing, method, url, body)
                if passing.ruling and passing.ruling.is_refused:
                    await self._refuse(passing, passing.ruling, send)
                    return
            request = _build_request(passing, method, url, body)
            if not _has_body(passing.headers):
                self._begin(passing)
            response = await client.send(request, stream=True)
            if self.rules is not None and passing.ruling and response.status_code in TOO_LONG:
                response = await self._send_smaller(self.rules, client, passing, request, response)
        except _ClientGone:
            self._end(passing, "client gone", "the client closed the connection before its request was whole")
            return
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            why = f"the provider gave no answer: {_describe(error)}"
            await _drain(passing, receive)
            self._end(passing, "provider failed", why)
            await _answer(send, 502, why)
            return
        self._begin(passing)
        await self._pass_answer(passing, response, send)

    async def _pass_answer(self, passing: _Passing, response: httpx2.Response, send: Send) -> None:
        """Pass an answer on as it comes."""
        self.recorder.answer(passing.number, response.status_code, response.headers.raw)
        try:
            head = {"type": "http.response.start", "status": response.status_code}
            await send(head | {"headers": _pass_headers(response.headers.raw)})
            async for part in response.aiter_raw():
                self.recorder.add(passing.number, part)
                if passing.ruling:
                    passing.answer.append(part)
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except httpx2.HTTPError as error:
            self._end(passing, "provider failed", f"the answer broke off: {_describe(error)}")
            raise ConnectionAbortedError from error  # the server closes the connection, as the provider did
        finally:
            if self.rules is not None and passing.ruling:
                encoding = response.headers.get("content-encoding", "")
                self.rules.learn(passing.ruling, response.status_code, encoding, passing.answer)
            await response.aclose()
        self._end(passing, "complete")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _rule(
        self,
        rules: RuledRequests,
        client: httpx2.AsyncClient,
        passing: _Passing,
        method: str,
        url: str,
        body: AsyncIterator[bytes],
    ) -> tuple[AsyncIterator[bytes], str]:
        """Have a request ruled on that has come whole. Gives its body and its address as they are to leave."""
        from turnscope.tap.ruled_requests import Passing, rename_model, rewrite_headers

        headers, came = passing.came = (passing.headers, b"".join([part async for part in body]))
        model = find_model(passing.url)
        known = Passing(passing.api, method, url, headers, passing.secrets, model, passing.number)
        ruling = passing.ruling = await rules.rule(known, came, client)
        if not ruling.is_changed:
            return _give(came), url
        data = ruling.text.encode()
        passing.headers = rewrite_headers(headers, len(data), ruling.betas)
        return _give(data), rename_model(url, ruling.model) if ruling.model else url

    async def _send_smaller(
        self,
        rules: RuledRequests,
        client: httpx2.AsyncClient,
        passing: _Passing,
        request: httpx2.Request,
        response: httpx2.Response,
    ) -> httpx2.Response:
        """Send a request that its provider calls too long once more, as the policy cuts it by what that says of its size."""
        parts = [part async for part in response.aiter_raw()]
        again = httpx2.Response(response.status_code, headers=response.headers.raw, stream=_Parts(parts))
        ruling, url = passing.ruling, str(request.url)
        encoding = response.headers.get("content-encoding", "")
        if ruling is None or not await rules.is_too_long(ruling, response.status_code, encoding, parts):
            return again
        headers, came = passing.came
        first, passing.headers, passing.number = passing.number, headers, 0
        body, url = await self._rule(rules, client, passing, request.method, url, _give(came))
        smaller = passing.ruling
        if smaller is None or not smaller.is_changed or smaller.text == ruling.text:
            passing.number = first
            return again
        facts = (passing.api, passing.url, headers, [came], passing.secrets, self.recorder.clock())
        passing.number = self.recorder.begin(*facts)
        rules.record(passing.number, smaller)
        self.recorder.answer(first, response.status_code, response.headers.raw)
        for part in parts:
            self.recorder.add(first, part)
        self.recorder.end(first, "complete")
        return await client.send(_build_request(passing, request.method, url, body), stream=True)

    async def _refuse(self, passing: _Passing, ruling: Ruling, send: Send) -> None:
        """Answer a request in the provider's place."""
        from turnscope.tap.ruled_requests import list_refusal_headers

        assert ruling.refusal is not None
        data = ruling.refusal.encode()
        headers = list_refusal_headers(len(data))
        self.recorder.answer(passing.number, ruling.refusal.status, headers)
        self.recorder.add(passing.number, data)
        self._end(passing, "refused", f"the tap refused it: {ruling.refusal.what}")
        await send({"type": "http.response.start", "status": ruling.refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _read_body(self, passing: _Passing, receive: Receive) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            more = message.get("more_body", False)
            if part := message.get("body", b""):
                if passing.api:
                    passing.body.append(part)
                yield part
        self._begin(passing)

    def _begin(self, passing: _Passing) -> None:
        """Record a request, once: when it was sent whole, or its answer begins."""
        if not passing.received.is_set():
            passing.received.set()
            if passing.api:
                facts = (passing.api, passing.url, passing.headers, passing.body, passing.secrets, passing.sent_at)
                passing.number = self.recorder.begin(*facts)
                passing.body = []

    def _end(self, passing: _Passing, outcome: str, why: str = "") -> None:
        """Record how a request ended, also one that never was whole."""
        self._begin(passing)
        self.recorder.end(passing.number, outcome, why)
        passing.number = 0


def _make_client(trust: ssl.SSLContext) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=REQUESTS_OF_CLIENT, keepalive_expiry=KEPT_SECONDS)
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    uses_proxy = getproxies().keys() - {"no"}  # of the environment: none is used by a client that is given a transport
    transport = None if uses_proxy else _Direct(trust, limits)
    return httpx2.AsyncClient(timeout=timeout, limits=limits, verify=trust, transport=transport)


class _Direct(httpx2.AsyncHTTPTransport):
    """Sends requests over connections of our own, which take less time."""

    def __init__(self, trust: ssl.SSLContext, limits: httpx2.Limits) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=AsyncioNetwork(),
        )


class _Parts(httpx2.AsyncByteStream):
    """What of an answer was read already."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part


async def _give(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _drain(passing: _Passing, receive: Receive) -> None:
    """Read what is left of a request that nobody takes, for the log, and because clients listen when they have sent all."""
    more = not passing.received.is_set() and _has_body(passing.headers)
    while more:
        message = await receive()
        more = message.get("more_body", False)
        if passing.api:
            passing.body.append(message.get("body", b""))


async def _wait_until_gone(passing: _Passing, receive: Receive) -> None:
    await passing.received.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


def _build_request(passing: _Passing, method: str, url: str, body: AsyncIterator[bytes]) -> httpx2.Request:
    """Build a request with the headers as they came. Nothing is added but the provider's host."""
    chunked = any(name.lower() == b"transfer-encoding" for name, _ in passing.headers)
    headers = _pass_headers(passing.headers, b"host", *([b"content-length"] if chunked else []))  # with both, servers differ
    host = urlsplit(url).netloc.rpartition("@")[2].encode("latin-1")
    headers = [(b"host", host), *headers, *([(b"transfer-encoding", b"chunked")] if chunked else [])]
    content = body if _has_body(passing.headers) else None
    return httpx2.Request(method, url, headers=headers, content=content)


def _find_values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name.lower() == wanted]


def _has_body(headers: Headers) -> bool:
    return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in headers)


def _pass_headers(headers: Headers, *others: bytes) -> list[tuple[bytes, bytes]]:
    """Leave out the headers that belong to one connection, those that it names itself, and others."""
    found = list(headers)
    named = {part.strip().lower() for name, value in found if name.lower() == b"connection" for part in value.split(b",")}
    return [(name, value) for name, value in found if name.lower() not in HOP_BY_HOP | named | {*others}]


def _find_secrets(headers: Headers, query: str) -> Iterable[str]:
    """Find the credentials of a request: they are never stored."""
    for name, value in headers:
        if name.lower() in SECRET_HEADERS:
            text = value.decode("latin-1")
            yield from (text, *text.split())
    yield from parse_qs(query).get("key", ())


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _answer(send: Send, status: int, why: str) -> None:
    """Answer in the tap's own name, in the form of an error that every SDK reads."""
    data = json.dumps({"type": "error", "error": {"type": "turnscope_tap", "message": f"turnscope tap: {why}"}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
