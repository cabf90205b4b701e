"""What Claude models accept in a request, by their family and version. What they cost and hold is in `prices`."""

from __future__ import annotations

import re

from turnscope.pricing.prices import PRICES, Prices

_CLAUDE = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d)(?!\d))?")


def binds_thinking(model: str, prices: Prices = PRICES) -> bool:
    """True for models whose thinking blocks are accepted only behind the exact prefix that they were made with.

    `prices` knows the model under whatever name a log or a cloud gives it.
    """
    family, version = _parse_version(model, prices)
    return version >= ((5, 1) if family in ("fable", "mythos") else (5, 5))


def takes_prefill(model: str, prices: Prices = PRICES) -> bool:
    """True for models that go on from an answer that was begun for them; none since Claude 4.6 does."""
    family, version = _parse_version(model, prices)
    return not family or version < (4, 6)


def _parse_version(model: str, prices: Prices) -> tuple[str, tuple[int, int]]:
    found = _CLAUDE.search(prices.find_facts(model).name) or _CLAUDE.search(model)
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else ("", (0, 0))
