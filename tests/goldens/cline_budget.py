"""Limits of Cline's classic context manager, and when its automatic condensing sets in."""

from __future__ import annotations

from typing import Any

from turnscope.ports.cline import ranges

SYSTEM = "cline-budget"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the functions that the rule `hide_oldest_pairs` calls give for one case."""
    given = case["input"]
    window, limit = ranges.compute_allowance(given["window"], given.get("handler", ""), given.get("model", ""))
    if case["kind"] == "budget":
        return {"window": window, "limit": limit}
    return {"compact": ranges.is_over(given["total"], window, limit, given["threshold_share"] or 0.0)}
