"""The numbers behind the figures, as CSV."""

from __future__ import annotations

from typing import Any

from turnscope.views import columns
from turnscope.views.columns import Unit
from turnscope.views.overview import CELLS, Overview
from turnscope.views.text_tables import format_csv


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
