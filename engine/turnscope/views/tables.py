"""Tables as CSV for spreadsheets, which every export uses, and the numbers behind the figures.

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

from turnscope.views import columns
from turnscope.views.columns import Unit
from turnscope.views.overview import CELLS, Overview

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
    cells = [head, *([str(value) for value in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(format_line(line, wide) for line in cells)


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


def overview_to_csv(view: Overview, by: Unit = "requests") -> str:
    """Write the numbers behind the figures, a line per request or turn: tokens per cell, USD per cell, the answer.

    Args:
        view: the session.
        by: requests or turns.
    """
    head = ["request", "turn", "model", "prompt", *CELLS, *(f"usd_{name}" for name in CELLS), "answer", "usd_answer"]
    return format_csv(head, (_build_row(view, facts) for facts in columns.build_grid(view, by, "tokens", len(view) + 1).facts))


def _build_row(view: Overview, facts: Any) -> list[Any]:
    """One column of the figure as a row. A turn has the prompt of its last request, and the sums of USD and answers."""
    n = int(facts[0, 0])
    money = [f"{value:.6f}" for value in facts[:, 4]] + [int(facts[0, 8]), f"{facts[0, 9]:.6f}"]
    return [n, int(facts[0, 1]), view.models[n], view.get_prompt(n), *map(int, view.cells[n]), *money]


def cost_to_csv(view: Overview) -> str:
    """Write the total cost, a line per part and one for all: USD as shown, counted beyond the record, recorded, logged."""
    head = ["part", "sessions", "requests", "unpriced", "usd", "counted_answers", "usd_counted", "usd_recorded", "usd_in_log"]
    rows = [
        [name, of.sessions, of.requests, of.unpriced, of.usd, of.counted, of.counted_usd, of.recorded_usd, of.logged_usd]
        for name, of in (*view.bill.parts, ("whole", view.bill.whole))
    ]
    return format_csv(head, rows)
