"""The rules of each provider's prompt cache, as data: what it keeps, from how many tokens on, and for how long.

The module reads `caches.json`. `planning.prompt_cache` walks over requests by these rules. Prices are in `prices`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from turnscope.pricing.prices import ModelFacts

USUAL_MINIMUM = 1_024  # tokens of the shortest cached prefix, for models whose own is not known


class CacheRules(msgspec.Struct, frozen=True):
    """The cache of one provider.

    `how`: marked (cached up to the breakpoints that a request sets), prefix (the longest beginning, without a mark), or
    none. `minimum`: tokens of the shortest cached prefix. `step`: the length of a cached prefix is a multiple of so many
    tokens. `lives`: seconds after the last use, by the name under which a request asks for it, the default first. `lookback`:
    blocks that are searched before a breakpoint.
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
        """Find the tokens of the shortest cached prefix for a model."""
        return self.minimum if self.minimum is not None else model.min_cache_prefix or USUAL_MINIMUM


class _File(msgspec.Struct):
    about: str
    rules: tuple[CacheRules, ...]


@cache
def load_rules() -> tuple[CacheRules, ...]:
    """Load every rule, in the order in which they are tried."""
    return msgspec.json.decode(Path(__file__).with_name("caches.json").read_bytes(), type=_File).rules


def find_rules(model: ModelFacts) -> CacheRules:
    """Find the rules that hold for a model. The last rule holds for any."""
    return next(
        row for row in load_rules() if re.search(row.maker, model.provider.lower()) and re.search(row.model, model.name.lower())
    )
