"""Tables as CSV for spreadsheets: the one writer of every export, and the numbers behind the figures.

A cell of text that a spreadsheet would run as a formula gets an apostrophe in front, which spreadsheets show as text; numbers
stay numbers. Rows end as RFC 4180 says.
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

# What begins a formula, in ASCII and full width, behind anything that a spreadsheet may take off first: white space, control
# and invisible characters, quotes. A tab or carriage return at the front is enough by itself.
_FORMULA = re.compile(
    r"[\t\r\n]|[\s\x00-\x20\x7f-\xa0\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff\"'`‘’“”＂＇]*[=+\-@＝＋－﹣−＠﹫]"
)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def format_csv(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV with a header. None is an empty cell; mappings and lists are JSON."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\r\n")
    table.writerow([_escape_cell(name) for name in head])
    table.writerows([_escape_cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace").decode()  # lone surrogates, which no file can hold


def format_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain text for a terminal: the first column to the left, the others to the right."""
    cells = [head, *([str(value) for value in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{'<' if not n else '>'}{wide[n]}}" for n, cell in enumerate(line)).rstrip() for line in cells
    )


def _escape_cell(value: Any) -> Any:
    if isinstance(value, (Mapping, list, tuple)):
        value = json.dumps(value, default=str) if value else ""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return "'" + value
    return value


def overview_to_csv(view: Overview, by: Unit = "requests") -> str:
    """The numbers behind the figures, one line per request or turn: tokens per cell, USD per cell, the answer."""
    head = ["request", "turn", "model", "prompt", *CELLS, *(f"usd_{name}" for name in CELLS), "answer", "usd_answer"]
    return format_csv(head, (_build_row(view, facts) for facts in columns.build_grid(view, by, "tokens", len(view) + 1).facts))


def _build_row(view: Overview, facts: Any) -> list[Any]:
    """One column of the figure: its prompt is that of its request, USD and answer are sums over the turn where it is one."""
    n = int(facts[0, 0])
    money = [f"{value:.6f}" for value in facts[:, 4]] + [int(facts[0, 8]), f"{facts[0, 9]:.6f}"]
    return [n, int(facts[0, 1]), view.models[n], view.get_prompt(n), *map(int, view.cells[n]), *money]


def cost_to_csv(view: Overview) -> str:
    """The whole bill, one line per part and one for all of it: USD as shown, counted beyond the record, recorded, logged."""
    head = ["part", "sessions", "requests", "unpriced", "usd", "counted_answers", "usd_counted", "usd_recorded", "usd_in_log"]
    rows = [
        [name, of.sessions, of.requests, of.unpriced, of.usd, of.counted, of.counted_usd, of.recorded_usd, of.logged_usd]
        for name, of in (*view.bill.parts, ("whole", view.bill.whole))
    ]
    return format_csv(head, rows)
