"""The API keys that this process knows.

They are removed from everything that a provider sends, and each goes to its origin alone.

Keys stay in memory. Text from a provider is scrubbed where it arrives (`provider`), before it is stored, logged or shown.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import quote

from turnscope.session.destination import parse_origin

MASK = "[a key was here]"
MIN_KEY_CHARS = 8  # scrubbing shorter keys would remove ordinary words from answers
LOGGERS = ("anthropic", "httpx2", "httpcore2", "httpx", "httpcore")

_known: set[str] = set()
_lock = Lock()


def register_key(key: str) -> None:
    """Scrub this key from now on, also as it looks in an address or a header."""
    if len(key) < MIN_KEY_CHARS:
        return
    coded = base64.b64encode(key.encode("utf-8", "replace")).decode().rstrip("=")
    with _lock:
        _known.update({key, quote(key, safe=""), coded, key[::-1]})


def scrub(value: Any) -> Any:
    """Replace every known key in a JSON value, also in the names of its objects."""
    if isinstance(value, str):
        for secret in sorted(_known, key=len, reverse=True):
            if secret in value:
                value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {scrub(name): scrub(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(scrub, value))
    return value


class StreamScrubber:
    """Scrubs a text that arrives in parts. The start of a possible key is held back until it is clear that it is none."""

    def __init__(self) -> None:
        self._held = ""

    def __call__(self, piece: str) -> str:
        """Add a part and return the text that can be shown."""
        text = scrub(self._held + piece)
        keep = max((_find_overlap(text, secret) for secret in list(_known)), default=0)
        self._held = text[len(text) - keep :]
        return str(text[: len(text) - keep])

    def flush(self) -> str:
        """Return the text that was held back, at the end. A mask replaces what may be most of a key."""
        text, self._held = self._held, ""
        return text if len(text) < MIN_KEY_CHARS else MASK


def _find_overlap(text: str, secret: str) -> int:
    """Return the length of the longest end of `text` with which the key begins."""
    most = min(len(text), len(secret) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(secret[:size])), 0)


class _ScrubFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = scrub(record.getMessage()), ()
        if record.exc_info:  # a traceback would be written without scrubbing
            record.exc_info, record.exc_text = None, None
        return True


_quiet = _ScrubFilter()


def scrub_logs() -> None:
    """Scrub the logs of the SDK and its HTTP client. At their lowest level they write the headers of every answer."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LOGGERS:
            logging.getLogger(name).addFilter(_quiet)


@dataclass(slots=True)
class KeyRing:
    """The keys that the user typed, each for one origin (scheme, host and port)."""

    _by: dict[str, str] = field(default_factory=dict, repr=False)

    def set_key(self, url: str, key: str) -> None:
        """Store the key for the origin of an address.

        Args:
            url: The address.
            key: The key; "" forgets it.
        """
        at = parse_origin(url)
        if at and key:
            register_key(key)
            self._by[at] = key
        else:
            self._by.pop(at, None)

    def get_key(self, url: str) -> str:
        """Return the key for the origin of an address; "" if there is none."""
        return self._by.get(parse_origin(url), "")
