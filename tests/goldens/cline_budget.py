"""Limits of Cline's classic context manager, and when its automatic condensing sets in."""

from __future__ import annotations

from typing import Any

from engine.ports import cline

SYSTEM = "cline-budget"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the functions that the rule `hide_oldest_pairs` calls give for one case."""
    given = case["input"]
    window, limit = cline.allowance(given["window"], given.get("handler", ""), given.get("model", ""))
    if case["kind"] == "budget":
        return {"window": window, "limit": limit}
    return {"compact": cline.is_over(given["total"], window, limit, given["threshold_share"] or 0.0)}
