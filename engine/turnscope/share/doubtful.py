"""What looks doubtful in a masked text and was left in it: nobody but a person can say whether it may leave.

Names of people and products, internal hosts, account numbers, and runs that look random, such as a commit's. Pure functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MAX_SHOWN = 40  # of each kind; the most frequent
MIN_MIXED = 20  # characters of a run that looks random


class Doubt(NamedTuple):
    """A text that may be private: its kind, itself, and in how many places it stands."""

    kind: str
    text: str
    places: int


_WORD = r"[A-Z][a-zà-öø-ÿ'’-]+"
_PATTERNS = (
    (
        "internal host",
        re.compile(r"\b[a-z0-9][\w-]*(?:\.[\w-]+)*\.(?:local|internal|intranet|corp|lan|home|private)\b(?![\w.(])"),
    ),
    ("random text", re.compile(rf"(?<![\w/+-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9_-]{{{MIN_MIXED},200}}(?![\w/+-])")),
    ("long number", re.compile(r"(?<![\w.,:/-])\d{8,19}(?![\w/-]|[.,:]\d)")),
    ("name", re.compile(rf"(?<=[a-z,;] ){_WORD}(?: (?:[A-Z]\.|van|von|de|da|di|al|bin))?(?: {_WORD})+")),
    ("name", re.compile(rf"(?:(?<=Mr\. )|(?<=Mrs\. )|(?<=Ms\. )|(?<=Dr\. )|(?<=@)){_WORD}(?: {_WORD})?")),
)
_SPELLED = re.compile(r"[A-Za-z]{2,}(?:[_-](?:[A-Za-z]{2,}|\d{1,4}))+")  # words and years, as names of files are


def find_doubtful(texts: Iterable[str]) -> tuple[Doubt, ...]:
    """Find what looks doubtful in texts that are masked already, the most frequent of each kind first.

    Args:
        texts: The texts.

    >>> [(each.kind, each.text) for each in find_doubtful(["We met Ottilie Brandt at db7.corp about 4711474711 today."])]
    [('internal host', 'db7.corp'), ('long number', '4711474711'), ('name', 'Ottilie Brandt')]
    """
    found: Counter[tuple[str, str]] = Counter()
    for text in texts:
        for kind, pattern in _PATTERNS:
            found.update((kind, match[0]) for match in pattern.finditer(text) if not _SPELLED.fullmatch(match[0]))
    listed: list[Doubt] = []
    for kind in dict.fromkeys(kind for kind, _ in _PATTERNS):
        own = [(text, count) for (other, text), count in found.items() if other == kind]
        own.sort(key=lambda one: (-one[1], one[0]))
        listed += [Doubt(kind, text, count) for text, count in own[:MAX_SHOWN]]
    return tuple(listed)
