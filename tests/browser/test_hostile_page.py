"""A page of another site, on another port of this machine: it reads nothing of the app, and cannot put it into a frame."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.browser
PAGE = """<body><script>
window.seen = {}
const url = "%s"
fetch(url + "/_stcore/host-config").then(r => r.text()).then(text => seen.fetch = text).catch(() => seen.fetch = "")
fetch(url + "/_stcore/host-config", {mode: "no-cors"}).then(() => seen.opaque = "open").catch(() => seen.opaque = "")
const socket = new WebSocket(url.replace("http", "ws") + "/_stcore/stream")
socket.onopen = () => seen.socket = "open"
socket.onerror = () => seen.socket = seen.socket || ""
</script><iframe src="%s/"></iframe></body>"""


@pytest.fixture
def hostile_page(server: str) -> Iterator[str]:
    """The address of a page that tries to read the app."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write((PAGE % (server, server)).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http_server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{http_server.server_address[1]}"
    http_server.shutdown()
    http_server.server_close()


def test_a_hostile_page_gets_nothing(profile: BrowserContext, hostile_page: str) -> None:
    page = profile.new_page()
    try:
        page.goto(hostile_page)
        page.wait_for_function("seen.fetch !== undefined && seen.socket !== undefined && seen.opaque !== undefined")
        seen = page.evaluate("seen")
        assert not seen["fetch"]
        assert not seen["socket"]
        assert all("Turnscope" not in frame.title() for frame in page.frames[1:])
        assert not any(frame.url.startswith("http") for frame in page.frames[1:])
    finally:
        page.close()


def test_another_host_name_reads_neither_shell_nor_metrics(server: str) -> None:
    for path in ("/", "/_stcore/metrics", "/_stcore/host-config"):
        request = urllib.request.Request(server + path, headers={"Host": "evil.test"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == 403
    with urllib.request.urlopen(server + "/_stcore/host-config", timeout=10) as answer:
        assert json.loads(answer.read())["allowedOrigins"] == []
