"""How large a model's window is, asked of the server that runs it: Ollama, LM Studio, llama.cpp, and those that list models.

Local servers load models with windows of their own, and no table knows them. Nothing is assumed here: what nobody tells is 0.
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

TIMEOUT = 2.0  # seconds for each question
MAX_BYTES = 4_000_000  # bytes of an answer
_NAMES = ("max_model_len", "context_length", "max_context_length", "context_window", "max_input_tokens", "n_ctx")
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,12})\b", re.MULTILINE)


class Window(Struct, frozen=True):
    """A model's window in tokens, 0 = the server does not tell; `how`: in whose words, or why it is not known."""

    tokens: int = 0
    source: str = ""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Redirects are not followed: a key may go along."""


def fetch_window(url: str, model: str, key: str = "", timeout: float = TIMEOUT) -> Window:
    """The window of a model at an address. `key`: the one of that address, "" = none; seconds for each question (at most six).

    What is loaded counts before what the model could have. Never raises.
    """
    if not parse_origin(url):
        return Window(source="there is no address to ask")

    def ask(path: str, body: Mapping[str, Any] | None = None) -> Any:
        return _fetch_json(f"{url.rstrip('/').removesuffix('/v1')}{path}", key, timeout, body)

    for question in (_query_ollama, _query_lm_studio, _query_llama_cpp, _query_model_list):
        try:
            if found := question(ask, model):
                return found
        except OSError as error:  # nobody there, or silent
            return Window(source=f"the server cannot be asked: {getattr(error, 'reason', error) or type(error).__name__}")
    return Window(source="the server does not tell")


Query = Callable[..., Any]


def _query_ollama(ask: Query, model: str) -> Window | None:
    shown = ask("/api/show", {"model": model})
    if not isinstance(shown, Mapping):
        return None
    for row in _get_rows(ask("/api/ps"), "models"):
        if model in (row.get("name"), row.get("model")) and (tokens := _parse_tokens(row.get("context_length"))):
            return Window(tokens, "Ollama has it loaded so (/api/ps)")
    found = _NUM_CTX.search(str(shown.get("parameters") or ""))
    if found and (tokens := _parse_tokens(int(found[1]))):
        return Window(tokens, "Ollama's num_ctx (/api/show)")
    info = shown.get("model_info")
    sizes = (
        [_parse_tokens(v) for k, v in info.items() if str(k).endswith(".context_length")] if isinstance(info, Mapping) else []
    )
    if not any(sizes):
        return None
    return Window(max(sizes), "the most that the model can have (Ollama, /api/show); it may be loaded with less")


def _query_lm_studio(ask: Query, model: str) -> Window | None:
    row = ask(f"/api/v0/models/{quote(model)}")
    if not isinstance(row, Mapping):
        return None
    if tokens := _parse_tokens(row.get("loaded_context_length")):
        return Window(tokens, "LM Studio has it loaded so (/api/v0/models)")
    tokens = _parse_tokens(row.get("max_context_length"))
    return Window(tokens, "the most that the model can have (LM Studio); it may be loaded with less") if tokens else None


def _query_llama_cpp(ask: Query, _model: str) -> Window | None:
    props = ask("/props")
    made = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    tokens = _parse_tokens(made.get("n_ctx")) if isinstance(made, Mapping) else 0
    return Window(tokens, "llama.cpp serves it so (/props)") if tokens else None


def _query_model_list(ask: Query, model: str) -> Window | None:
    for row in _get_rows(ask("/v1/models"), "data"):
        meta = row.get("meta")
        for held in (row, meta if isinstance(meta, Mapping) else {}):
            tokens = next((size for name in _NAMES if (size := _parse_tokens(held.get(name)))), 0)
            if row.get("id") == model and tokens:
                return Window(tokens, "as the server lists it (/v1/models)")
    return None


def _get_rows(value: Any, name: str) -> list[Mapping[str, Any]]:
    rows = value.get(name) if isinstance(value, Mapping) else None
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _parse_tokens(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else 0


def _fetch_json(url: str, key: str, timeout: float, body: Mapping[str, Any] | None) -> Any:
    """What an address answers; None where it is no JSON, or the server says no. OSError: nobody answers."""
    head = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with build_opener(ProxyHandler({}), _NoRedirects()).open(Request(url, data, head), timeout=timeout) as answer:  # noqa: S310 - http(s)
            return json.loads(answer.read(MAX_BYTES))
    except HTTPError:
        return None
    except (HTTPException, ValueError, RecursionError):
        return None
