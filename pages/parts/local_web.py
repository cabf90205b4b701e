"""What a browser's other pages may not do to an app on this machine: a layer around Streamlit's server.

A page of another site can send requests to 127.0.0.1, under a name of its own that it points there (DNS rebinding), and it can
put the app into a frame. Streamlit checks the name of its host for websockets alone, takes an origin on another port of this
machine for its own, and looks up the machine's address on the internet when it sees a foreign one. So requests for another host
or from another origin end here, before Streamlit sees them. Where other machines can reach the app, a browser has to bring the
token of the printed link once; a cookie keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from streamlit import cli_util, config
from streamlit.starlette import App
from streamlit.web.server import server_util
from turnscope.settings import read_token

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Message, Receive, Send], Awaitable[None]]

REFUSED = b"Turnscope answers this machine's own pages alone. Open it under the address that it printed when it started.\n"
NO_TOKEN = b"Open the link that Turnscope printed when it started: it holds the token that this page wants.\n"
COOKIE = "turnscope_token"
POLICY_VIOLATION = 1008  # code of a websocket that is closed; before it was accepted the answer is 403
HEADERS = (
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
SAME_SITE = (b"", b"same-origin", b"none")  # of Sec-Fetch-Site: the app's own pages, and what a person typed
NAVIGATION = b"navigate"  # of Sec-Fetch-Mode: a link from another site may open the app


class LocalWeb:
    """The layer, an ASGI application around another.

    Args:
        app: The application.
        token: What a browser has to bring; "" = nothing, None = as the environment says.
    """

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self.app = app
        self.token = read_token() if token is None else token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Refuse a request of another host or origin; else answer it, with headers that keep other pages out."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        is_welcome = has_token(headers, self.token) if self.token else is_own_host(headers.get(b"host", b""))
        if not is_welcome and self.token and scope["type"] == "http" and brings_token(scope, self.token):
            await _welcome(scope, send, self.token)
            return
        if not is_welcome or not is_own_origin(headers):
            await (_refuse(send, NO_TOKEN if self.token else REFUSED) if scope["type"] == "http" else _close(receive, send))
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _add_headers(message.get("headers") or ())
            await send(message)

        await self.app(scope, receive, send_guarded)


@asynccontextmanager
async def open_browser(_app: App) -> AsyncIterator[None]:
    """Open the app in the browser once its server has started, unless that is switched off. The lifespan of the server.

    Args:
        _app: The application, which the lifespan of every server gets.
    """
    if not config.get_option("server.headless"):
        url = server_util.get_url(server_util.get_display_address(config.get_option("server.address") or "localhost"))
        token = read_token()
        asyncio.get_running_loop().call_soon(cli_util.open_browser, f"{url}/?token={token}" if token else url)
    yield


def is_own_host(host: bytes) -> bool:
    """Return whether a Host header names this machine, or the address that the app listens on.

    Args:
        host: The header's value, with or without a port.
    """
    name, _, port = host.decode("latin-1").rpartition(":")
    if not name or (port and not port.isdigit()):
        name, port = host.decode("latin-1"), ""
    return name.lower().strip("[]").rstrip(".") in {"::1", *config.get_option("server.allowedHosts")}


def is_own_origin(headers: MutableMapping[bytes, bytes]) -> bool:
    """Return whether a request comes from the app's own pages, from a person, or from a program that is no browser.

    Args:
        headers: The request's headers, their names in lower case.
    """
    origin, host = headers.get(b"origin", b""), headers.get(b"host", b"")
    if origin and origin not in (b"http://" + host, b"https://" + host):
        return False
    site, mode = headers.get(b"sec-fetch-site", b""), headers.get(b"sec-fetch-mode", b"")
    return site in SAME_SITE or mode == NAVIGATION


def _add_headers(known: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    ours = {name for name, _ in HEADERS if name != b"content-security-policy"}  # of several such policies all hold
    return [*((name, value) for name, value in known if name.lower() not in ours), *HEADERS]


def has_token(headers: MutableMapping[bytes, bytes], token: str) -> bool:
    """Return whether a request's cookie holds the token.

    Args:
        headers: The request's headers, their names in lower case.
        token: The token.
    """
    cookie = SimpleCookie()
    with suppress(CookieError):
        cookie.load(headers.get(b"cookie", b"").decode("latin-1"))
    return COOKIE in cookie and compare_digest(cookie[COOKIE].value.encode(), token.encode())


def brings_token(scope: Message, token: str) -> bool:
    """Return whether the address of a request holds the token.

    Args:
        scope: The ASGI scope of the request.
        token: The token.
    """
    brought = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"))).get("token", "")
    return compare_digest(brought.encode(), token.encode())


async def _welcome(scope: Message, send: Send, token: str) -> None:
    """Keep the token in a cookie, and lead to the same address without it."""
    query = [pair for pair in parse_qsl(scope.get("query_string", b"").decode("latin-1")) if pair[0] != "token"]
    to = "/" + scope["path"].lstrip("/") + (f"?{urlencode(query)}" if query else "")
    cookie = f"{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/".encode()
    head = [(b"location", quote(to, safe="/?=&%").encode()), (b"set-cookie", cookie), (b"content-length", b"0"), *HEADERS]
    await send({"type": "http.response.start", "status": 303, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, sentence: bytes) -> None:
    head = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(sentence)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": head})
    await send({"type": "http.response.body", "body": sentence})


async def _close(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": POLICY_VIOLATION})
