"""Tables as text: CSV for spreadsheets, which every export uses, and columns for a terminal.

Text that a spreadsheet would run as a formula gets an apostrophe in front, so that it is shown as text. Numbers stay numbers.
Rows end as in RFC 4180.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What begins a formula, in ASCII and full width, after what a spreadsheet may strip first: white space, control and
# invisible characters, quotes. A tab or carriage return at the start is enough by itself.
_FORMULA = re.compile(
    r"[\t\r\n]|[\s\x00-\x20\x7f-\xa0\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff\"'`‘’“”＂＇]*[=+\-@＝＋－﹣−＠﹫]"
)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def format_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table as CSV. None is an empty cell; mappings and lists are JSON.

    Args:
        head: names of the columns.
        rows: the values.

    >>> format_csv(("rule", "tokens"), [("=drop", -120), (None, 4)]).splitlines()
    ['rule,tokens', "'=drop,-120", ',4']
    """
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\r\n")
    table.writerow([_escape_cell(name) for name in head])
    table.writerows([_escape_cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace").decode()  # lone surrogates cannot be written to a file


def format_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format a table for a terminal: the first column to the left, the others to the right.

    Args:
        head: names of the columns.
        rows: the cells.
    """
    cells = [head, *([clean_line(str(value)) for value in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(format_line(line, wide) for line in cells)


def clean_line(text: str) -> str:
    """Make a text one line without control characters, which a terminal would obey.

    >>> clean_line("two\\nlines \\x1b[31mred")
    'two lines [31mred'
    """
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def format_line(cells: Sequence[str], wide: Sequence[int]) -> str:
    """Format one line of `format_text`.

    Args:
        cells: the cells.
        wide: characters of each column.
    """
    return "  ".join(f"{cell:{'<' if not n else '>'}{wide[n]}}" for n, cell in enumerate(cells)).rstrip()


def _escape_cell(value: Any) -> Any:
    if isinstance(value, (Mapping, list, tuple)):
        value = json.dumps(value, default=str) if value else ""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value
