"""The forms in which a text carries another one: base64, hex, addresses, escapes. Pure functions.

A secret that was found once is searched in all of them, and what stands in a text in such a form is read as well.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import json
import quopri
import re
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote, quote_plus, unquote, unquote_plus

MIN_RUN = 12  # characters of an encoded run that is decoded
MAX_RUN = 200_000  # characters; longer runs are pictures and archives
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}(?:\r?\n[A-Za-z0-9+/_-]{12,})*={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:(?:0x)?[0-9A-Fa-f]{2}[ ,;:]{0,2}){8,}")
_DECIMAL = re.compile(r"(?<!\d)(?:(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])[ ,;]{1,2}){8,}(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])(?!\d)")
# Runs between spaces, quotes and the like, and what one of them has to hold: a pattern for both at once takes quadratic time.
_RUN, _VALUE, _WORD = (re.compile(f"[^\\s\"'{others}]+") for others in ("", "<>&", "<>"))
_PRINTABLE = re.compile(r"(?:=[0-9A-F]{2}.*?){4}")
_QUOTED = re.compile(r"%[0-9A-Fa-f]{2}")
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9A-Fa-f]+|amp|lt|gt|quot|apos);")
_CODE = re.compile(r"[\\%]u([0-9A-Fa-f]{4})|\\u\{([0-9A-Fa-f]{1,5})\}|\\x([0-9A-Fa-f]{2})|\\([0-3][0-7]{2})|\\(/)")
_READABLE = re.compile(r"[\t\n\r -~\u00a0-\uffef]*")


def iter_decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the encoded runs of a text: where each begins and ends, and what it says."""
    if len(text) < MIN_RUN:
        return
    for match in _BASE64.finditer(text):
        if len(match[0]) <= MAX_RUN:
            yield from ((*match.span(), plain) for plain in _decode_base64(match[0]))
    for match in _HEX.finditer(text):
        plain = _read(bytes.fromhex(re.sub(r"0x|[ ,;:]", "", match[0])))
        if plain:
            yield (*match.span(), plain)
    for match in _DECIMAL.finditer(text):
        yield (*match.span(), "".join(chr(int(code)) for code in re.findall(r"\d+", match[0])))
    for mark, runs, form, decode in _ESCAPES:
        if mark in text:
            yield from ((*run.span(), decode(run[0])) for run in runs.finditer(text) if form.search(run[0]))


def list_forms(value: str) -> set[str]:
    """Return the other forms in which a value may stand in a text."""
    raw = value.encode("utf-8", "surrogatepass")
    coded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), base64.b32encode(raw).decode()}
    coded |= {form.rstrip("=") for form in coded}
    coded |= {base64.b85encode(raw).decode(), base64.a85encode(raw).decode(), codecs.encode(value, "rot13")}
    forms = coded | {raw.hex(), raw.hex().upper(), value.upper(), value.lower(), value[::-1]}
    forms |= {quote(value, safe="", errors="replace"), quote(value, errors="replace"), quote_plus(value, errors="replace")}
    forms |= {json.dumps(value)[1:-1], json.dumps(value)[1:-1].replace("/", "\\/"), html.escape(value)}
    return {form for form in forms if form != value}


def _decode_base64(run: str) -> Iterator[str]:
    """What a run says, read from each of the four places at which it may begin: something else may stand before it."""
    bare = re.sub(r"\s", "", run).rstrip("=").translate(str.maketrans("-_", "+/"))
    for start in range(4):
        part = bare[start:]
        part = part[: len(part) - 1] if len(part) % 4 == 1 else part
        try:
            plain = _read(base64.b64decode(part + "=" * (-len(part) % 4)))
        except (binascii.Error, ValueError):
            continue
        if plain:
            yield plain
            return


def _read(raw: bytes) -> str:
    """Bytes as text; "" where they are none."""
    for name in ("utf-8", "utf-16-le"):
        try:
            text = raw.decode(name)
        except UnicodeDecodeError:
            continue
        if text and _READABLE.fullmatch(text) and sum(char.isascii() for char in text) >= 0.7 * len(text):
            return text
    return ""


def _read_escape(match: re.Match[str]) -> str:
    if match[5]:
        return "/"
    return chr(int(match[4], 8) if match[4] else int(match[1] or match[2] or match[3], 16))


def _read_printable(run: str) -> str:
    return quopri.decodestring(run.encode("utf-8", "replace")).decode("latin-1")


# A character that the form needs, the runs that may be in it, what such a run holds, and what reads it.
_ESCAPES: tuple[tuple[str, re.Pattern[str], re.Pattern[str], Callable[[str], str]], ...] = (
    ("=", _RUN, _PRINTABLE, _read_printable),
    ("%", _VALUE, _QUOTED, unquote_plus),
    ("%", _VALUE, _QUOTED, unquote),
    ("\\", _RUN, _CODE, partial(_CODE.sub, _read_escape)),
    ("%u", _RUN, _CODE, partial(_CODE.sub, _read_escape)),
    ("&", _WORD, _ENTITY, html.unescape),
)
