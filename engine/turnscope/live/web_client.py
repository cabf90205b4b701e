"""Reads what servers that the user named send back: within limits of time and size, without redirects or proxies."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from turnscope.errors import ProviderError
from turnscope.live.bounded_transport import BoundedTransport
from turnscope.live.secrets import register_key, scrub
from turnscope.session.destination import parse_origin

TIMEOUT = 10.0  # seconds of all that is asked for one question
MAX_BYTES = 2_000_000  # of an answer
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")


@dataclass(frozen=True, slots=True)
class WebClient:
    """A client for one server. All that it reads has to come before the deadline.

    Args:
        client: The HTTP client.
        who: What is asked, for errors: "the search".
        deadline: When it has to be over, by `time.monotonic()`, in seconds.
    """

    client: httpx2.Client
    who: str
    deadline: float

    def read(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        is_last: Callable[[bytes], bool] | None = None,
    ) -> tuple[str, Mapping[str, str]]:
        """Return text and headers of an answer.

        Args:
            method: GET or POST.
            url: The address.
            headers: Headers beside those of the client.
            json: The body; None = none.
            is_last: Whether a line is the last that is needed: then the rest is not waited for.

        Raises:
            ProviderError: The answer is late, too large, or no success.
        """
        if (left := self.deadline - time.monotonic()) <= 0:
            raise _make_late_error(self.who)
        request = self.client.build_request(method, url, headers=headers, json=json)
        request.extensions = {**request.extensions, "timeout": dict.fromkeys(("connect", "read", "write", "pool"), left)}
        response = self.client.send(request, stream=True)
        try:
            if response.is_redirect:
                to = scrub(_CONTROLS.sub("", response.headers.get("location", "")))[:200]
                raise ProviderError(f"{self.who} answers with status {response.status_code}: it moved to {to or 'nowhere'}")
            if not 200 <= response.status_code < 300:
                raise ProviderError(f"{self.who} answers with status {response.status_code}")
            data = b"".join(self._iter_chunks(response, is_last))
        finally:
            response.close()
        return _decode(data, response.headers.get("content-type", "")), response.headers

    def _iter_chunks(self, response: httpx2.Response, is_last: Callable[[bytes], bool] | None) -> Iterator[bytes]:
        size, line = 0, b""
        for chunk in response.iter_bytes():
            if (size := size + len(chunk)) > MAX_BYTES:
                raise ProviderError(f"the answer is larger than {MAX_BYTES:,} bytes")
            if time.monotonic() > self.deadline:
                raise _make_late_error(self.who)
            yield chunk
            if is_last:
                *lines, line = (line + chunk).split(b"\n")
                if any(map(is_last, lines)):
                    return


@contextmanager
def open_client(url: str, who: str, headers: Mapping[str, str], key: str = "") -> Iterator[WebClient]:
    """Open a client for one server.

    Args:
        url: Its address.
        who: What is asked, for errors: "the search".
        headers: Headers of each request.
        key: The key that the headers carry; "" = none.

    Raises:
        ProviderError: Nobody answers, or not in time.
    """
    register_key(key)
    options: dict[str, Any] = {"trust_env": False, "follow_redirects": False, "timeout": TIMEOUT}
    transport = BoundedTransport(httpx2.HTTPTransport(trust_env=False))
    try:
        with httpx2.Client(transport=transport, headers=headers, **options) as client:
            yield WebClient(client, who, time.monotonic() + TIMEOUT)
    except httpx2.TimeoutException:  # every one that is given ends with the deadline
        raise _make_late_error(who) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ProviderError(f"{parse_origin(url)} does not answer: {scrub(str(error))[:200]}") from None


def build_key_headers(key: str, header: str = "Authorization") -> dict[str, str]:
    """Return the header that carries a key; none where there is no key.

    Args:
        key: The key.
        header: The header's name. In `Authorization` the key stands as `Bearer`.

    Raises:
        ProviderError: The key or the name holds what a header cannot.
    """
    if key and not (key.isascii() and key.isprintable() and re.fullmatch(r"[\w-]+", header, re.ASCII)):
        raise ProviderError("the key or its header holds what a header cannot", hint="Check both for spaces and accents.")
    return {header: ("Bearer " if header.lower() == "authorization" else "") + key} if key else {}


def clean_text(text: str) -> str:
    """Return a text without control characters, marks that turn its direction, invisible tags and lone surrogates."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _make_late_error(who: str) -> ProviderError:
    return ProviderError(f"{who} takes longer than {TIMEOUT:.0f} seconds")


def _decode(data: bytes, kind: str) -> str:
    named = re.search(r"charset=\"?([\w.:-]+)", kind)
    try:
        return data.decode(named[1] if named else "utf-8", "replace")
    except (LookupError, ValueError):  # an unknown charset, or one that is no charset of texts
        return data.decode("utf-8", "replace")
