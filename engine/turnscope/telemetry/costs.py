"""The cost of a request, as each server reads it. Where a server does not, it prices the tokens by a table of its own."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from turnscope.telemetry import names


def list_costs(usd: Decimal | None, answer: Decimal | None) -> dict[str, Any]:
    """The attributes of a request's cost; none where it is not known.

    Args:
        usd: its cost in USD.
        answer: the part of it for the answer.
    """
    if usd is None:
        return {}
    parts = {"total": usd} | ({} if answer is None else {"input": usd - answer, "output": answer})
    dollars = {part: float(cost) for part, cost in parts.items()}
    found: dict[str, Any] = {names.USD: dollars["total"], names.COST: dollars["total"]}
    found |= dict(zip(names.COST_PARTS, dollars.values(), strict=False))
    found[names.COST_LANGFUSE] = json.dumps(dollars)
    if answer is not None:
        found[names.COST_MLFLOW] = json.dumps({f"{part}_cost": cost for part, cost in dollars.items()})
    return found
