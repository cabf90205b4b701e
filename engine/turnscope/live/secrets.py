"""The keys that this process knows, so that nothing a provider echoes of them goes further; and a ring of keys by origin.

In memory only. What comes from a provider is scrubbed where it comes in (`provider`), before it is stored, logged or shown.
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
MIN_KEY_CHARS = 8  # characters; scrubbing shorter ones would tear words out of answers
LOGGERS = ("anthropic", "httpx2", "httpcore2", "httpx", "httpcore")

_known: set[str] = set()
_lock = Lock()


def register_key(key: str) -> None:
    """From now on this key, and what it looks like inside an address or a header, is scrubbed wherever it is met."""
    if len(key) < MIN_KEY_CHARS:
        return
    coded = base64.b64encode(key.encode("utf-8", "replace")).decode().rstrip("=")
    with _lock:
        _known.update({key, quote(key, safe=""), coded, key[::-1]})


def scrub(value: Any) -> Any:
    """A value of JSON with every known key replaced, in the keys of its objects, too."""
    if isinstance(value, str):
        for secret in sorted(_known, key=len, reverse=True):
            if secret in value:
                value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {scrub(name): scrub(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(scrub, value))
    return value


class StreamScrubber:
    """Scrubs a text that comes in pieces: what may be the beginning of a key is held back until it is known not to be one."""

    def __init__(self) -> None:
        self._held = ""

    def __call__(self, piece: str) -> str:
        """What of the text so far can go on."""
        text = scrub(self._held + piece)
        keep = max((_find_overlap(text, secret) for secret in list(_known)), default=0)
        self._held = text[len(text) - keep :]
        return str(text[: len(text) - keep])

    def flush(self) -> str:
        """What was held back, at the end; not what is most of a key."""
        text, self._held = self._held, ""
        return text if len(text) < MIN_KEY_CHARS else MASK


def _find_overlap(text: str, secret: str) -> int:
    """The longest end of `text` that a key begins with."""
    most = min(len(text), len(secret) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(secret[:size])), 0)


class _ScrubFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = scrub(record.getMessage()), ()
        if record.exc_info:  # its text, and that of what it came from, would be written as it is
            record.exc_info, record.exc_text = None, None
        return True


_quiet = _ScrubFilter()


def scrub_logs() -> None:
    """Scrub what the SDK and its HTTP client log: at their lowest level they write the headers of every answer."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LOGGERS:
            logging.getLogger(name).addFilter(_quiet)


@dataclass(slots=True)
class KeyRing:
    """Keys that somebody typed, each for one origin (scheme, host and port). A key never goes to another one."""

    _by: dict[str, str] = field(default_factory=dict, repr=False)

    def set_key(self, url: str, key: str) -> None:
        """Keep a key for the origin of an address; "" forgets it."""
        at = parse_origin(url)
        if at and key:
            register_key(key)
            self._by[at] = key
        else:
            self._by.pop(at, None)

    def get_key(self, url: str) -> str:
        """The key that was typed for the origin of an address; "" where none was."""
        return self._by.get(parse_origin(url), "")
