"""Private data in a text: secrets, by the patterns of detect-secrets and newer ones, and personal data with a recognisable
form.

Names of people, places and companies have no such form and are not found. Pure functions; no model, no network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString

from turnscope.encodings import iter_decoded

FILE = Path(__file__).with_name("private.txt")
# The first finds only the first line of a key; IP addresses have a pattern of our own; the others match any assignment.
LEFT_OUT = (
    "Private Key",
    "Public IP (ipv4)",
    "Cloudant Credentials",
    "SoftLayer Credentials",
    "IBM Cloud IAM Key",
    "IBM COS HMAC Credentials",
)
SECRET_KINDS = ("private key", "API key", "token", "password", "secret")  # of these, other forms are searched too
ENTROPY = 4.5  # bits per character: detect-secrets' own limit for base64


class PrivateSpan(NamedTuple):
    """The part `[start, stop)` of a text that is private, and its kind."""

    start: int
    stop: int
    kind: str


def find_private(text: str) -> list[PrivateSpan]:
    """Find the private parts of a text, in order, without overlaps. Of two that overlap, the first and then the longer one
    counts.
    """
    found = sorted((*_iter_matches(text), *_iter_encoded(text)), key=lambda one: (one.start, -one.stop))
    spans: list[PrivateSpan] = []
    for one in found:
        if one.start >= one.stop:
            continue
        if spans and one.start < spans[-1].stop:
            if one.stop > spans[-1].stop:
                spans[-1] = spans[-1]._replace(stop=one.stop)
            continue
        spans.append(one)
    return spans


def list_values(text: str) -> dict[str, str]:
    """List every private value of a text with its kind: also those that overlap others, and the parts of a header."""
    found: dict[str, str] = {}
    for one in _iter_matches(text):
        value = text[one.start : one.stop]
        found.setdefault(value, one.kind)
        if one.kind in SECRET_KINDS and "\n" not in value:
            for part in _PARTS.split(value):
                bare = part.rstrip("=")
                bare = bare.partition("=")[2] or bare
                if len(bare) >= MIN_LONG and any(map(str.isdigit, bare)):
                    found.setdefault(bare, one.kind)
    return found


def mask_text(text: str) -> tuple[str, list[str]]:
    """Replace the private parts of a text by their kinds. Returns the text and the kind of each part.

    >>> mask_text("Mail ada@example.com, card 4111 1111 1111 1111")
    ('Mail [email address], card [card number]', ['email address', 'card number'])
    """
    found = find_private(text)
    if not found:
        return text, []
    parts, at = [], 0
    for one in found:
        parts += [text[at : one.start], f"[{one.kind}]"]
        at = one.stop
    return "".join([*parts, text[at:]]), [one.kind for one in found]


def _iter_matches(text: str) -> Iterator[PrivateSpan]:
    for kind, pattern, check in _load_patterns():
        for match in pattern.finditer(text):
            value = "value" if "value" in pattern.groupindex and match["value"] else 0
            if check(match[value]):
                yield PrivateSpan(*match.span(value), kind)


def _iter_encoded(text: str) -> Iterator[PrivateSpan]:
    """Runs that carry something private in another form, each as a whole."""
    for start, stop, plain in iter_decoded(text):
        kind = next((one.kind for one in _iter_matches(plain) if one.kind in SECRET_KINDS), "")
        if kind:
            yield PrivateSpan(start, stop, kind)


def _passes_luhn(digits: str) -> bool:
    """Whether the check digit of ISO/IEC 7812 is right, over 13 to 19 digits."""
    numbers = [int(char) for char in digits if char.isdigit()][::-1]
    doubled = [sum(divmod(2 * number, 10)) if at % 2 else number for at, number in enumerate(numbers)]
    first = numbers[-1:]  # no card begins with 0, 1, 7 or 8; those of 13 digits are Visa's: times in milliseconds are no cards
    if first not in ([2], [3], [4], [5], [6], [9]) or (len(numbers) == 13 and first != [4]):
        return False
    return len(numbers) <= 19 and len(set(numbers)) > 1 and sum(doubled) % 10 == 0


def _is_iban(text: str) -> bool:
    """Whether the check digits of ISO 13616 are right."""
    compact = "".join(text.split())
    return 15 <= len(compact) <= 34 and int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def _is_address(text: str) -> bool:
    """Whether a text is the address of a network that others can reach or know. A version number is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_unspecified or found.is_multicast)


def _is_phone(text: str) -> bool:
    digits = sum(char.isdigit() for char in text)
    return 9 <= digits <= 15 and not re.fullmatch(r"\d{4}-\d\d-\d\d.*|[\d.]+|\d+", text)


def _is_random(text: str) -> bool:
    mixed = all(any(is_so(char) for char in text) for is_so in (str.isdigit, str.isupper, str.islower))
    return mixed and Base64HighEntropyString(limit=ENTROPY).calculate_shannon_entropy(text) > ENTROPY


def _accept_any(_: str) -> bool:
    return True


_EMPTY = re.compile(  # values that nobody chose
    r"none|null|true|false|str|string|undefined|required|optional|x+|\*+|\.+|<.*>|\$?\{.*|\$\w+|%\(?\w+.*|\[.*"
    r"|(?:your|optional)[-_ ].*|, .*|(?:\\n|n)?[a-z]+(?:/[a-z_-]+)+\.[a-z]{1,4}(?::\d+)*:?"  # examples, code, paths
    r"|[a-z_]\w*(?:::[a-z_]\w*)+"  # a name of Rust
    r"|(?:(?:in)?correct(?:ly)?|wrong|invalid|missing|empty|packed|hashed|encrypted|stored|expired)[.!]?"  # "is wrong"
    r"|os\.environ.*|process\.env.*|[a-z_]\w*(?:\.[a-z_]\w*|\[\w*|\(\w*)+",
    re.IGNORECASE,
)


def _is_secret(text: str) -> bool:
    """Whether a text is a chosen value, not its name, a type or a placeholder."""
    return not _EMPTY.fullmatch(text)


def _is_random_or_long(text: str) -> bool:
    """Whether a text is a chosen value and, if it is short, no name in a program and no number alone."""
    return _is_secret(text) and (len(text) >= MIN_LONG or not _NAME.fullmatch(text))


def _is_key(text: str) -> bool:
    """Whether a text is no row of plain words and years, as names of files are: `key-trends-for-2025`."""
    return not all(re.fullmatch(r"[a-z]{0,14}|\d{1,4}", word) for word in re.split(r"[-_]", text))


def _is_token(text: str) -> bool:
    """Whether the value of a header is one: a name in a program holds no digit."""
    return _is_secret(text) and not _VARIABLE.match(text) and (any(map(str.isdigit, text)) or len(text) >= MIN_WORDLESS)


_VARIABLE = re.compile(r"(?i)(?:bearer|basic|token)\s+[$<{%]")
MIN_WORDLESS = 24  # characters from which on letters alone are taken for a token
_NAME = re.compile(r"[A-Za-z_.-]+|[\d.:-]+")
MIN_LONG = 12  # characters from which on a name in a program is taken for a secret, where it stands for one

_PARTS = re.compile(r"[;,&\s]+")  # between the parts of a header

_CHECKS: dict[str, Callable[[str], bool]] = {
    "API key": _is_key,
    "card number": _passes_luhn,
    "IBAN": _is_iban,
    "IP address": _is_address,
    "phone number": _is_phone,
    "secret": _is_random_or_long,
    "token": _is_token,
    "password": _is_secret,
}


def _load_detectors() -> Mapping[str, type[Any]]:
    return get_mapping_from_secret_type_to_class()


@cache
def _load_patterns() -> tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...]:
    """What is searched: its kind, its pattern (`value` = the private part), and the test that a match has to pass."""
    found: list[tuple[str, re.Pattern[str], Callable[[str], bool]]] = []
    for line in (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")):
        kind, _, pattern = line.partition("|")
        check = _is_random if pattern.startswith('["') else _CHECKS.get(kind, _accept_any)
        found.append((kind, re.compile(pattern), check))
    for name, detector in _load_detectors().items():
        if issubclass(detector, RegexBasedDetector) and name not in LEFT_OUT:
            found += [("secret", pattern, _accept_any) for pattern in detector().denylist]
    return tuple(found)
