"""Identifiers in texts: paths and file names, names of code, ids of calls, numbers of four digits or more, quoted strings.

A year is none, nor is a call of Python's own functions, such as `range`. Pure functions of a text, linear in it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from functools import lru_cache

MAX_IDENTIFIER = 120  # characters of an identifier, at most
# What every program calls says nothing of this one.
_COMMON = frozenset(filter(str.islower, (*dir(builtins), "catch", "switch", "while")))
_WORDS = re.compile(
    r"(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]*\w"  # paths
    r"|\b[\w-]{3,}\.[a-z]{1,4}\b(?!\()"  # file names
    r"|\b[A-Za-z]\w*_\w+\b|\b[A-Za-z]?[a-z]+[A-Z]\w+\b|\b[A-Za-z]\w{4,}(?=\()"  # names of code, ids of calls
    r"|(?<![\w.])\d+\.\d{2,}\b|\b(?!(?:19|20)\d\d\b)\d{4,}\b"  # numbers, but for years
)
RUN = re.compile(r"[\w.@+~/-]{4,}\(?")
"""A run of characters that may hold identifiers: what `split_run` splits."""
_QUOTED = re.compile(
    r"\"([^\"\n]{4,80})\"|`([^`\n]{4,80})`|'(?<!\w')([^'\n]{4,80})'(?!\w)"
)  # each begins with a literal character, which is fast
_ESCAPES = re.compile(r"\\[ntr\"\\/]")  # in the JSON of a call's input


def find_identifiers(text: str) -> set[str]:
    """Find the identifiers in a text.

    >>> sorted(find_identifiers("See src/app.py: parse_args() returns 4096 for `--all`."))
    ['--all', '4096', 'parse_args', 'src/app.py']
    >>> find_identifiers("for n in range(10):  # until 2026-03-10")
    set()
    """
    plain = remove_escapes(text)
    found = set().union(*map(split_run, {*RUN.findall(plain)}))
    if '"' in plain or "`" in plain or "'" in plain:  # most lines of code have none, and the pattern is slow
        found.update(find_quoted(plain))
    return found


def remove_escapes(text: str) -> str:
    """Return a text with a space for each escape of the JSON of a call's input."""
    return _ESCAPES.sub(" ", text) if "\\" in text else text


def find_quoted(plain: str) -> Iterator[str]:
    """Find the strings in quotes, but for single words: these are no identifiers. `plain`: a text without escapes."""
    quoted = (next(filter(None, groups)) for groups in _QUOTED.findall(plain))
    return (text for text in quoted if not text.isalpha())


@lru_cache(maxsize=1 << 17)
def split_run(run: str) -> tuple[str, ...]:
    """Find the identifiers in a run of characters. The same runs occur in many blocks, so the result is cached."""
    return tuple(word for word in _WORDS.findall(run) if len(word) <= MAX_IDENTIFIER and word not in _COMMON)
