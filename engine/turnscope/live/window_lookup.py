"""Ask the server that runs a model for its window: Ollama, LM Studio, llama.cpp, Gemini, and servers that list their models.

Local servers load models with windows of their own, which no table knows. Nothing is assumed: an unknown window is 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from msgspec import Struct

from turnscope.session.destination import parse_origin

TIMEOUT = 2.0  # seconds for each request
MAX_BYTES = 4_000_000  # bytes of an answer
_NAMES = ("max_model_len", "context_length", "max_context_length", "context_window", "max_input_tokens", "n_ctx")
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,12})\b", re.MULTILINE)


class Window(Struct, frozen=True):
    """A model's window in tokens, 0 = the server does not say. `source`: where the number comes from, or why there is none."""

    tokens: int = 0
    source: str = ""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Do not follow a redirect: the key would go along."""


def fetch_window(url: str, model: str, key: str = "", timeout: float = TIMEOUT) -> Window:
    """Ask a server for the window of a model. What is loaded counts before what the model supports. Never raises.

    Args:
        url: The server's address.
        model: The model's name on that server.
        key: The API key of that address; "" = none.
        timeout: Seconds for each request. There are at most seven.
    """
    if not parse_origin(url):
        return Window(source="there is no address")

    def fetch(path: str, body: Mapping[str, Any] | None = None) -> Any:
        return _fetch_json(f"{url.rstrip('/').removesuffix('/v1')}{path}", key, timeout, body)

    for query in (_query_ollama, _query_lm_studio, _query_llama_cpp, _query_gemini, _query_model_list):
        try:
            if found := query(fetch, model):
                return found
        except OSError as error:  # no server there, or it is silent
            return Window(source=f"the server does not answer: {getattr(error, 'reason', error) or type(error).__name__}")
    return Window(source="the server does not say")


Fetch = Callable[..., Any]


def _query_ollama(fetch: Fetch, model: str) -> Window | None:
    shown = fetch("/api/show", {"model": model})
    if not isinstance(shown, Mapping):
        return None
    for row in _get_rows(fetch("/api/ps"), "models"):
        if model in (row.get("name"), row.get("model")) and (tokens := _parse_tokens(row.get("context_length"))):
            return Window(tokens, "loaded in Ollama (/api/ps)")
    found = _NUM_CTX.search(str(shown.get("parameters") or ""))
    if found and (tokens := _parse_tokens(int(found[1]))):
        return Window(tokens, "Ollama's num_ctx (/api/show)")
    info = shown.get("model_info")
    sizes = (
        [_parse_tokens(v) for k, v in info.items() if str(k).endswith(".context_length")] if isinstance(info, Mapping) else []
    )
    if not any(sizes):
        return None
    return Window(max(sizes), "the model's maximum (Ollama, /api/show); it may be loaded with less")


def _query_lm_studio(fetch: Fetch, model: str) -> Window | None:
    row = fetch(f"/api/v0/models/{quote(model)}")
    if not isinstance(row, Mapping):
        return None
    if tokens := _parse_tokens(row.get("loaded_context_length")):
        return Window(tokens, "loaded in LM Studio (/api/v0/models)")
    tokens = _parse_tokens(row.get("max_context_length"))
    return Window(tokens, "the model's maximum (LM Studio); it may be loaded with less") if tokens else None


def _query_llama_cpp(fetch: Fetch, _model: str) -> Window | None:
    props = fetch("/props")
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    tokens = _parse_tokens(settings.get("n_ctx")) if isinstance(settings, Mapping) else 0
    return Window(tokens, "loaded in llama.cpp (/props)") if tokens else None


def _query_model_list(fetch: Fetch, model: str) -> Window | None:
    for row in _get_rows(fetch("/v1/models"), "data"):
        meta = row.get("meta")
        for fields in (row, meta if isinstance(meta, Mapping) else {}):
            tokens = next((size for name in _NAMES if (size := _parse_tokens(fields.get(name)))), 0)
            if row.get("id") == model and tokens:
                return Window(tokens, "the server's list of models (/v1/models)")
    return None


def _query_gemini(fetch: Fetch, model: str) -> Window | None:
    about = fetch(f"/v1beta/models/{quote(model)}")
    tokens = _parse_tokens(about.get("inputTokenLimit")) if isinstance(about, Mapping) else 0
    return Window(tokens, "the model's own description (/v1beta/models)") if tokens else None


def _get_rows(value: Any, name: str) -> list[Mapping[str, Any]]:
    rows = value.get(name) if isinstance(value, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _parse_tokens(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else 0


def _fetch_json(url: str, key: str, timeout: float, body: Mapping[str, Any] | None) -> Any:
    """Return the JSON at an address; None if it is no JSON, or the server refuses. Raise OSError if nobody answers."""
    head = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}", "x-goog-api-key": key} if key else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with build_opener(ProxyHandler({}), _NoRedirects()).open(Request(url, data, head), timeout=timeout) as answer:  # noqa: S310 - http(s)
            return json.loads(answer.read(MAX_BYTES))
    except HTTPError:
        return None
    except (HTTPException, ValueError, RecursionError):
        return None
