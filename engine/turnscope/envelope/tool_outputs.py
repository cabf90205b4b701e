"""Output of tools without noise: colours, progress, timestamps, repeated lines. And the lines of it that matter most.

Pure functions, linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from operator import eq

STAMPED = 3  # a text with so many lines that begin with a time is a log; a single time may be the message
LONGEST = 160  # characters of a finding

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_DAY = rf"\d{{4}}[-/]\d\d[-/]\d\d[T ]{_TIME}(?:Z|[ ]?[+-]\d\d:?\d\d)?"
_STAMP = re.compile(rf"^[ \t]*\[?(?:{_DAY}|{_TIME}|[A-Z][a-z]{{2}} [ \d]\d {_TIME})\]?[ \t]+", re.MULTILINE)
_CLOCK = re.compile(r":\d\d:\d\d")
_REPEATED = re.compile(r"^([^\n]*\S[^\n]*\n)\1{2,}", re.MULTILINE)
_BLANK = re.compile(r"\n(?:[ \t]*\n){2,}")
_TELLS = re.compile(
    r"\b(?:\w*error|\w*exception|fail(?:ed|ure|ures|s)?|fatal|panic|traceback|denied|refused|warning|timed out|not found|"
    r"\d+ (?:passed|failed|errors?|warnings?))\b",
    re.IGNORECASE,
)


def tidy_output(text: str) -> str:
    """Return the text without escape codes, overwritten progress and a log's timestamps, and with repeated lines once."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    if _CLOCK.search(text) and (stamps := len(_STAMP.findall(text))) >= STAMPED:
        text = f"[{stamps:,} timestamps left out]\n" + _STAMP.sub("", text)
    lines = text.split("\n")
    if any(map(eq, lines, lines[1:])):  # most texts repeat no line; this check is faster than the pattern
        text = _REPEATED.sub(_collapse_repeats, text)
    return _BLANK.sub("\n\n", text)


def _collapse_repeats(found: re.Match[str]) -> str:
    return f"{found[1]}[the line above {len(found[0]) // len(found[1]) - 1:,} more times]\n"


def make_address(text: str) -> str:
    """Return the address of a text: a hash of its content."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def find_telling_lines(text: str, most: int) -> Iterator[str]:
    """Yield the most important lines of an output, each with its number: errors and failures, else the first lines.

    The last line comes at the end, because many tools summarise there.

    Args:
        text: The output.
        most: The most lines.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    telling = dict.fromkeys(line for _, line in lines if _TELLS.search(line[: 4 * LONGEST]))
    first = {line: number for number, line in reversed(lines)}
    chosen = [*telling][: max(0, most - 1)] or [line for _, line in lines[: max(0, most - 1)]]
    for line in dict.fromkeys([*chosen, *(line for _, line in lines[-1:])] if most else []):
        yield f"line {first[line]:,}: {line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'}"
