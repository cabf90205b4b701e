"""Links into the app: `/debugger?request=5`, and nested ones such as `/debugger/request/5`.

Streamlit serves its page below every path, but the scripts of the page are found next to it: below a nested path it stays
blank. So a nested path leads to its page, with what it names as the query. Streamlit's script looks for the server below the
page's own path first, which is not there; the page says where it is. Two scripts of ours run from the first address on: one
keeps the history of the browser clean (history.js), the other keeps quick clicks on charts (clicks.js).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import file_util

PAGES = {path.stem for path in Path(__file__).resolve().parents[1].glob("*.py")} - {"__init__"}
NAMES = ("session", "part", "request", "step", "policy", "block", "pane", "range", "zoom", "q", "text", "turn", "thread")


SERVER = "window.__streamlit = {BACKEND_BASE_URL: location.origin + '/'}"
SCRIPTS = ("history.js", "clicks.js")


class DeepLinks:
    """ASGI middleware: answers what a browser opens as a page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or connection."""
        if scope["type"] == "http" and Headers(scope=scope).get("sec-fetch-dest") == "document":
            address = find_address(scope["path"], scope.get("query_string", b"").decode("latin-1"))
            answer: Response | None = RedirectResponse(address, status_code=307) if address else None
            if scope["path"][1:] in {"", *PAGES}:
                answer = HTMLResponse(_read_page(), headers={"cache-control": "no-cache"})
            if answer:
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


@cache
def _read_page() -> str:
    """Streamlit's page with the change above."""
    page = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    own = Path(__file__).parent / "browser"
    scripts = (SERVER, *((own / name).read_text(encoding="utf-8") for name in SCRIPTS))
    return page.replace("<head>", "<head>" + "".join(f"<script>{script}</script>" for script in scripts), 1)


def find_address(path: str, query: str) -> str:
    """Find the address of a page that a nested path means; "" = the path is none, or not one of a page.

    Args:
        path: the path, decoded.
        query: the query, which wins over what the path names.
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) < 2 or parts[0].startswith("_") or parts[0] in ("static", "media", "component", "app"):
        return ""
    page = parts.pop(0) if parts[0] in PAGES else ""
    if len(parts) % 2 and parts[-1].isdecimal():
        parts.insert(-1, "request")
    named = {name: value for name, value in zip(parts[::2], parts[1::2], strict=False) if name in NAMES}
    query_string = urlencode(named | dict(parse_qsl(query, keep_blank_values=True)))
    return f"/{page}{f'?{query_string}' if query_string else ''}"
