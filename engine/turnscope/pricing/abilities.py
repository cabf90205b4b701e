"""What Claude models accept in a request, by family and version. Their prices and windows are in `prices`."""

from __future__ import annotations

import re
from functools import lru_cache

from turnscope.pricing.prices import PRICES, Prices

_CLAUDE = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d)(?!\d))?")


def binds_thinking(model: str, prices: Prices = PRICES) -> bool:
    """Whether the model accepts thinking blocks only after the exact prefix that they were made with.

    Args:
        model: The model's name, as any log or cloud writes it.
        prices: Resolves the name.
    """
    family, version = _parse_version(model, prices)
    return version >= ((5, 1) if family in ("fable", "mythos") else (5, 5))


def takes_prefill(model: str, prices: Prices = PRICES) -> bool:
    """Whether the model continues an answer that was started for it. No Claude model since 4.6 does.

    Args:
        model: The model's name, as any log or cloud writes it.
        prices: Resolves the name.

    >>> takes_prefill("claude-opus-4-5"), takes_prefill("claude-opus-4-6")
    (True, False)
    """
    family, version = _parse_version(model, prices)
    return not family or version < (4, 6)


def _parse_version(model: str, prices: Prices) -> tuple[str, tuple[int, int]]:
    return _read_version(prices.find_facts(model).name, model)


@lru_cache(maxsize=1024)
def _read_version(name: str, model: str) -> tuple[str, tuple[int, int]]:
    found = _CLAUDE.search(name) or _CLAUDE.search(model)
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else ("", (0, 0))
