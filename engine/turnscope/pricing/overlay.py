"""The overlay: facts about models that genai-prices does not hold, or that the user knows better.

The module reads `overlay.json` and a user's file of the same form, merged over it row by row and field by field:

    {"models": {"my-model": {"provider": "me", "window": 200000, "max_output": 64000, "min_cache_prefix": 1024,
                             "family": "o200k_base", "source": "contract", "date": "2026-11-01",
                             "prices": {"input": "3", "cache_read": "0.3", "output": "15",
                                        "tiers": [{"over": 200000, "input": "6", "output": "22.5"}]},
                             "batch": {"input": "1.5", "output": "7.5"}},
                "theirs": {"long": {"over": 200000, "input": "2", "output": "1.5"}}},
     "families": [{"match": "^my-", "family": "cl100k_base"}],
     "unpriced": [{"match": "^local-"}]}

Sizes are in tokens, prices in USD per million tokens. `long` is a tier as factors of the rates below it, for providers without
a tier of their own. Until the day `larger_since` a request got `standard_window` unless it requested `window`. Every key may be
left out. `prices` looks names up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from genai_prices.types import ModelPrice, Tier, TieredPrices

from turnscope.errors import BrokenFile, UnreadableFile

# Each rate is looked up under these keys in turn. The order is genai-prices' own: tokens without a rate of their own
# are counted by the next more general unit (a 1 h write as a write, a write or a read as plain input).
RATE_KEYS = {
    "input": ("input_mtok",),
    "cache_read": ("cache_read_mtok", "input_mtok"),
    "cache_write_5m": ("cache_write_5m_mtok", "cache_write_mtok", "input_mtok"),
    "cache_write_1h": ("cache_write_1h_mtok", "cache_write_mtok", "input_mtok"),
    "output": ("output_mtok",),
}
_ROW_INTS = ("window", "standard_window", "max_output", "min_cache_prefix")
TABLES = ("prices", "batch", "fast")
_ROW_KEYS = {"provider", "family", "source", "date", "larger_since", "long", *_ROW_INTS, *TABLES}


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Rows that add to genai-prices or replace it. The other fields are patterns of model names."""

    models: Mapping[str, Mapping[str, Any]]
    families: tuple[tuple[re.Pattern[str], str, str], ...] = ()  # pattern, family, source
    unpriced: tuple[re.Pattern[str], ...] = ()
    strips_thinking: tuple[re.Pattern[str], ...] = ()


def read_overlay(path: Path | None = None) -> Overlay:
    """Read the built-in overlay, with the user's file at `path` merged over it, field by field.

    Raises:
        UnreadableFile: The file cannot be read as text.
        BrokenFile: The file is not an overlay.
    """
    if path is None:
        return BUILT_IN
    user = _parse(path)
    models = dict(BUILT_IN.models)
    for name, row in user.models.items():
        known = models.get(name, {})
        source = "; ".join(filter(None, (known.get("source"), path.name)))
        models[name] = {**known, "source": source, "date": "", **row}
    patterns = (user.unpriced + BUILT_IN.unpriced, user.strips_thinking + BUILT_IN.strips_thinking)
    return Overlay(models, user.families + BUILT_IN.families, *patterns)


def _parse(path: Path) -> Overlay:
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(
            f"{path.name} cannot be read: {error}", hint="Check that the file is there and is UTF-8 text."
        ) from error
    except ValueError as error:
        raise BrokenFile(
            f"{path.name} is not JSON: {error}", hint="Correct the file at the place named, or move it away."
        ) from error
    try:
        rows = {str(name).lower(): _read_row(name, row) for name, row in data.get("models", {}).items()}
        families = tuple(
            (re.compile(f["match"]), str(f["family"]), str(f.get("source", path.name))) for f in data.get("families", ())
        )
        patterns = (tuple(re.compile(f["match"]) for f in data.get(key, ())) for key in ("unpriced", "strips_thinking"))
        return Overlay(rows, families, *patterns)
    except (AttributeError, KeyError, TypeError, ValueError, re.error) as error:
        hint = 'An overlay is {"models": {"name": {"window": 200000, "prices": {"input": "3", "output": "15"}}}}.'
        raise BrokenFile(f"{path.name} is not an overlay: {error}", hint=hint) from error


def _read_row(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a row with its price tables. ValueError or TypeError with the model and the key."""
    if not isinstance(row, dict):
        raise TypeError(f"{name} is not an object")
    if unknown := sorted(row.keys() - _ROW_KEYS):
        raise ValueError(f"{name} has an unknown key: {', '.join(unknown)}")
    for key in _ROW_INTS:
        value = row.get(key)
        if value is not None and (type(value) is not int or value <= 0):
            raise ValueError(f"{name}: {key} must be a whole number of tokens, not {value!r}")
    for key in ("provider", "family", "source", "date", "larger_since"):
        if not isinstance(row.get(key, ""), str):
            raise TypeError(f"{name}: {key} must be text")
    read = {key: _read_table(f"{name}: {key}", value) if key in TABLES else value for key, value in row.items()}
    return read | {"long": _read_long_tier(f"{name}: long", row["long"])} if "long" in row else read


def _read_long_tier(where: str, tier: Any) -> tuple[int, Decimal, Decimal]:
    """Read where a tier begins, in tokens, and the factors for the rates of prompt and answer."""
    if not isinstance(tier, dict) or tier.keys() != {"over", "input", "output"}:
        raise TypeError(f"{where} needs over, input and output")
    return int(tier["over"]), _parse_usd(where, tier["input"]), _parse_usd(where, tier["output"])


def _read_table(where: str, table: Any) -> ModelPrice:
    """Read a price table of an overlay in genai-prices' form, so that both are read the same way."""
    if not isinstance(table, dict):
        raise TypeError(f"{where} is not an object")
    tiers = sorted(table.get("tiers", ()), key=lambda tier: int(tier["over"]))
    if unknown := sorted((table.keys() | {k for t in tiers for k in t}) - RATE_KEYS.keys() - {"tiers", "over"}):
        raise ValueError(f"{where} has an unknown key: {', '.join(unknown)}")
    prices: dict[str, Decimal | TieredPrices] = {}
    for rate, keys in RATE_KEYS.items():
        if rate in table:
            steps = [Tier(int(t["over"]), _parse_usd(where, t[rate])) for t in tiers if rate in t]
            base = _parse_usd(where, table[rate])
            # a 5 min write is stored as "write", so that a table without a 1 h rate bills 1 h writes at that rate
            key = "cache_write_mtok" if rate == "cache_write_5m" else keys[0]
            prices[key] = TieredPrices(base, steps) if steps else base
    if not {"input_mtok", "output_mtok"} <= prices.keys():
        raise ValueError(f"{where} needs input and output")
    return ModelPrice(**prices)


def _parse_usd(where: str, value: Any) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise ValueError(f"{where}: {value!r} is not a price in USD per million tokens")
    return amount


BUILT_IN = _parse(Path(__file__).with_name("overlay.json"))
