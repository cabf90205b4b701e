"""The API keys that this process knows.

They are removed from everything that a provider sends, and each goes to its origin alone.

Keys stay in memory. Text from a provider is scrubbed where it arrives (`provider`), before it is stored, logged or shown.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from turnscope.encodings import iter_decoded, list_forms
from turnscope.session.destination import parse_origin

MASK = "[a key was here]"
MIN_KEY_CHARS = 8  # scrubbing shorter keys would remove ordinary words from answers
MAX_FORM = 3  # characters that a form which is no known one has for each of a known one: three more escapes
LOGGERS = ("anthropic", "openai", "google_genai", "httpx2", "httpcore2", "httpx", "httpcore")

_lock = Lock()
_INVISIBLE = dict.fromkeys(
    map(ord, " \t\r\n\u00ad\u200b\u200c\u200d\u2060\ufeff-_.,:|'\"[]\\")
)  # what may stand between a key's letters
# What an encoded key may begin with: letters or numbers with spaces between them, a line of base64, a word.
_TAIL = re.compile(
    r"(?:(?<!\S)(?:(?:[\"'\[]{0,2}\S[\"',\]]{0,2}|(?:0x)?[0-9A-Fa-f]{2,3}[,;:]?)[ \t])+\S*|(?:[A-Za-z0-9+/_-]{40,}\r?\n)?\S*)\Z"
)


class _Secret(NamedTuple):
    """A text that no string may hold, also in part: half of it is found.

    `least`: characters of the shortest part. Any part of that length holds one of the `chunks` whole.
    """

    text: str
    least: int
    chunks: tuple[str, ...]


_known: tuple[_Secret, ...] = ()


def register_key(key: str) -> None:
    """Scrub this key from now on, also half of it, and in the forms in which a header, an address or a text may carry it.

    Args:
        key: The key. One with fewer than 8 characters is not scrubbed, because ordinary words would be.
    """
    global _known
    if len(key) < MIN_KEY_CHARS:
        return
    forms = {form for form in (key, key.translate(_INVISIBLE), *list_forms(key)) if len(form) >= MIN_KEY_CHARS}
    with _lock:
        _known = tuple({*_known, *map(_build_secret, forms)})


def _build_secret(text: str) -> _Secret:
    text = text.lower()
    least = min(len(text), max(MIN_KEY_CHARS, len(text) // 2))
    size = max(1, (least + 1) // 2)
    return _Secret(text, least, tuple({text[at : at + size] for at in range(0, len(text) - size + 1, size)}))


def scrub(value: Any) -> Any:
    """Replace every known key in a JSON value, also in the names of its objects, and in any form that `encodings` reads."""
    if not _known:
        return value
    if isinstance(value, str):
        return _scrub_text(value)
    if isinstance(value, Mapping):
        return {scrub(name): scrub(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(scrub, value))
    return value


def _scrub_text(text: str) -> str:
    if len(text) < MIN_KEY_CHARS:
        return text
    parts, at = [], 0
    for start, stop in _find_spans(text):
        if stop > at:
            parts += [text[at:start], MASK] if start >= at else []
            at = stop
    return "".join([*parts, text[at:]])


def _find_spans(text: str) -> list[tuple[int, int]]:
    return sorted({*_find_keys(text), *_find_spaced(text), *_find_encoded(text)})


def _find_keys(text: str) -> Iterator[tuple[int, int]]:
    """Where keys stand, or at least half of them, in upper or lower case."""
    low = text.lower()
    if len(low) != len(text):  # a letter whose lower case has two characters
        low = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    for secret in _known:
        for chunk in secret.chunks:
            at = low.find(chunk)
            while at >= 0:
                start, stop = max(
                    (_extend(low, at, at + len(chunk), secret, place) for place in _places(chunk, secret)), key=_get_length
                )
                if stop - start >= secret.least:
                    yield start, stop
                at = low.find(chunk, max(at + 1, stop))


def _places(chunk: str, secret: _Secret) -> Iterator[int]:
    at = secret.text.find(chunk)
    while at >= 0:
        yield at
        at = secret.text.find(chunk, at + 1)


def _get_length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _extend(low: str, start: int, stop: int, secret: _Secret, place: int) -> tuple[int, int]:
    """Extend a match of a chunk, which begins at `place` in the secret, to both sides."""
    before, after = place, place + stop - start
    while start and before and low[start - 1] == secret.text[before - 1]:
        start, before = start - 1, before - 1
    while stop < len(low) and after < len(secret.text) and low[stop] == secret.text[after]:
        stop, after = stop + 1, after + 1
    return start, stop


def _find_spaced(text: str) -> Iterator[tuple[int, int]]:
    """Where keys stand whose letters are wide, or have spaces, hyphens or invisible characters between them."""
    narrow = text if text.isascii() else "".join(map(_narrow, text))
    bare = narrow.translate(_INVISIBLE)
    found = [] if bare == text else [*_find_keys(bare)]
    if found:
        places = [at for at, char in enumerate(narrow) if ord(char) not in _INVISIBLE]
        yield from ((places[start], places[stop - 1] + 1) for start, stop in found)


def _narrow(char: str) -> str:
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char


def _find_encoded(text: str, depth: int = 2) -> Iterator[tuple[int, int]]:
    for start, stop, plain in iter_decoded(text):
        if any(_find_keys(plain)) or any(_find_spaced(plain)) or (depth > 1 and any(_find_encoded(plain, depth - 1))):
            yield start, stop


class StreamScrubber:
    """Scrubs a text that arrives in parts. Its last word is held back, because a key in some form may begin with it."""

    def __init__(self) -> None:
        self._held = ""

    def __call__(self, piece: str) -> str:
        """Add a part and return the text that can be shown."""
        if not _known:
            return piece
        text = self._held + piece
        most = MAX_FORM * max(len(secret.text) for secret in _known)
        tail = _TAIL.search(text, max(0, len(text) - most))
        cut = tail.start() if tail else len(text)
        cut = max([cut, *(stop for start, stop in _find_spans(text) if start < cut < stop)])
        self._held = text[cut:]
        return _scrub_text(text[:cut])

    def flush(self) -> str:
        """Return the text that was held back, at the end. A mask replaces what may be the first part of a key."""
        text, self._held = str(scrub(self._held)), ""
        keep = max((_find_overlap(text.lower(), secret.text) for secret in _known), default=0)
        return text if keep < MIN_KEY_CHARS else text[: len(text) - keep] + MASK


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
