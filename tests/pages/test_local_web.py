"""The layer around the app's server: its own pages are answered, and those of other sites are not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pages.parts.local_web import LocalWeb

OWN = {"host": "127.0.0.1:8501"}


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread of its own: in this one, tests in a browser may have left a loop that runs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


async def inner(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    headers = [(b"x-frame-options", b"ALLOWALL"), (b"content-security-policy", b"default-src 'self'")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"private"})


def ask(
    headers: dict[str, str], kind: str = "http", *, token: str = "", path: str = "/", query: str = ""
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": f"{kind}.connect"}

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    scope |= {"path": path, "query_string": query.encode()}
    run(LocalWeb(inner, token)(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "localhost:8501"},
        {"host": "localhost"},
        {"host": "LOCALHOST.:8501"},
        {"host": "[::1]:8501"},
        OWN | {"origin": "http://127.0.0.1:8501"},
        OWN | {"sec-fetch-site": "same-origin"},
        OWN | {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        OWN | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_the_app_s_own_pages_are_answered(headers: dict[str, str]) -> None:
    start, body = ask(headers)
    assert (start["status"], body["body"]) == (200, b"private")
    assert start["headers"].count((b"x-frame-options", b"SAMEORIGIN")) == 1
    assert (b"x-frame-options", b"ALLOWALL") not in start["headers"]
    policies = [value for name, value in start["headers"] if name == b"content-security-policy"]
    assert policies == [b"default-src 'self'", b"frame-ancestors 'self'"]
    assert ask(headers, "websocket") == [{"type": "websocket.accept"}]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "evil.test"},
        {"host": "evil.test:8501"},
        {"host": "127.0.0.1.evil.test:8501"},
        {"host": "localhost@evil.test"},
        {"host": "127.0.0.1:8501/x"},
        OWN | {"origin": "http://127.0.0.1:9999"},
        OWN | {"origin": "http://localhost:8501"},
        OWN | {"origin": "null"},
        OWN | {"origin": "https://share.streamlit.io"},
        OWN | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        OWN | {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
def test_other_hosts_and_origins_are_refused_before_streamlit_sees_them(headers: dict[str, str]) -> None:
    start, body = ask(headers)
    assert start["status"] == 403
    assert b"private" not in body["body"]
    assert b"this machine's own pages" in body["body"]
    assert ask(headers, "websocket") == [{"type": "websocket.close", "code": 1008}]


def test_what_is_neither_is_passed_on() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    run(LocalWeb(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


OTHER = {"host": "192.168.1.7:8501"}


def test_another_machine_brings_the_token_once() -> None:
    start, _ = ask(OTHER, token="s3cret", path="/debugger", query="request=5&token=s3cret&q=a%26b")
    head = dict(start["headers"])
    assert start["status"] == 303
    assert head[b"location"] == b"/debugger?request=5&q=a%26b"
    assert head[b"set-cookie"] == b"turnscope_token=s3cret; HttpOnly; SameSite=Strict; Path=/"
    cookie = {"cookie": "other=1; turnscope_token=s3cret"}
    assert ask(OTHER | cookie, token="s3cret")[1]["body"] == b"private"
    assert ask(OTHER | cookie, "websocket", token="s3cret") == [{"type": "websocket.accept"}]


@pytest.mark.parametrize(
    "extra", [{}, {"cookie": "turnscope_token=wrong"}, {"cookie": "turnscope_token"}, {"cookie": ";;=\x01"}]
)
@pytest.mark.parametrize("query", ["", "token=", "token=wrong", "x=s3cret"])
@pytest.mark.parametrize("host", [OTHER, OWN])
def test_without_the_token_nobody_is_answered(host: dict[str, str], query: str, extra: dict[str, str]) -> None:
    start, body = ask(host | extra, token="s3cret", query=query)
    assert start["status"] == 403
    assert b"the link that Turnscope printed" in body["body"]
    assert ask(host | extra, "websocket", token="s3cret", query=query)[-1]["type"] == "websocket.close"


def test_a_page_of_another_site_is_refused_even_with_the_cookie() -> None:
    headers = OTHER | {"cookie": "turnscope_token=s3cret", "origin": "http://evil.test"}
    assert ask(headers, token="s3cret")[0]["status"] == 403


def test_a_link_never_leads_to_another_site() -> None:
    start, _ = ask(OTHER, token="s3cret", path="//evil.test/x", query="token=s3cret")
    assert dict(start["headers"])[b"location"] == b"/evil.test/x"
