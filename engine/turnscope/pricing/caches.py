"""What a provider's prompt cache does, as data: what it keeps, from how many tokens on, and for how long.

Reads `caches.json`. Holds no walk over requests (`planning.prompt_cache` does that) and no prices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from turnscope.pricing.prices import ModelFacts

USUAL_MINIMUM = 1_024  # tokens of the shortest prefix that is kept, where the model's own is not known


class CacheRules(msgspec.Struct, frozen=True):
    """The cache of one provider.

    `how`: marked: up to the breakpoints that a request sets; prefix: the longest beginning, by itself; none. `minimum`: tokens
    of the shortest prefix that is kept; `step`: a prefix is found in multiples of it; `lives`: seconds after the last use, by
    the name under which a request asks for it, the usual one first; `lookback`: blocks that are searched before a breakpoint.
    """

    how: Literal["marked", "prefix", "none"]
    minimum: int | None
    step: int
    lives: Mapping[str, float]
    lookback: int
    source: str
    maker: str = ""
    model: str = ""

    def find_shortest_prefix(self, model: ModelFacts) -> int:
        """Tokens of the shortest prefix that is kept of a model's prompts."""
        return self.minimum if self.minimum is not None else model.min_cache_prefix or USUAL_MINIMUM


class _File(msgspec.Struct):
    about: str
    rules: tuple[CacheRules, ...]


@cache
def load_rules() -> tuple[CacheRules, ...]:
    """Every row, in the order in which they are asked."""
    return msgspec.json.decode(Path(__file__).with_name("caches.json").read_bytes(), type=_File).rules


def find_rules(model: ModelFacts) -> CacheRules:
    """The rules that hold for a model; the last row holds for any."""
    return next(
        row for row in load_rules() if re.search(row.maker, model.provider.lower()) and re.search(row.model, model.name.lower())
    )
