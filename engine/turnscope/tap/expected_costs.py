"""What a request may cost before it is answered: its prompt, and the longest answer that it allows. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from turnscope.live.chat_state import DEFAULT_ANSWER
from turnscope.pricing.prices import Prices
from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.session.model import Usage
from turnscope.tap.answer_usage import count_prompt

MARGIN = 1.1  # counts are estimates
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_ANSWERS = ("n", "candidateCount")
_HOUR = '"1h"'  # how long a cache mark wants to live


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """USD. `prompt`: if nothing of it is in the cache; `most`: with the longest answer as well."""

    prompt: Decimal = Decimal(0)
    most: Decimal = Decimal(0)


def expect_cost(body: str, model: str, prices: Prices, at: float, prompt_tokens: int = 0) -> ExpectedCost | None:
    """Compute what a request may cost; None where its model has no known price.

    Args:
        body: Its body.
        model: Its model, where the body names none.
        prices: Facts and prices.
        at: When it is sent, in seconds since the Unix epoch.
        prompt_tokens: Tokens of its prompt; 0 = they are counted by the body.
    """
    whole = as_mapping(parse_if_json(body))
    inner = as_mapping(whole.get("request")) or whole  # Code Assist wraps the body of Google's API
    settings: Mapping[str, Any] = {**inner, **as_mapping(inner.get("generationConfig"))}
    model = str(settings.get("model") or whole.get("model") or model)
    facts = prices.find_facts(model)
    tokens = int(MARGIN * (prompt_tokens or count_prompt(body, facts.family)))
    rates = prices.find_rates(model, tokens, at)
    if rates is None:
        return None
    hour = tokens if _HOUR in body else 0
    written = max(rates.cache_write_5m, rates.cache_write_1h if hour else rates.input) > rates.input
    use = Usage(0 if written else tokens, tokens if written else 0, cache_creation_1h_input_tokens=hour if written else 0)
    longest = _find_count(settings, _LIMITS) or facts.max_output or DEFAULT_ANSWER
    answers = max(1, _find_count(settings, _ANSWERS))
    full = Usage(use.input_tokens, use.cache_creation_input_tokens, 0, longest * answers, use.cache_creation_1h_input_tokens)
    costs = [prices.compute_cost(usage, model, at) for usage in (use, full)]
    return ExpectedCost(*(cost.total if cost else Decimal(0) for cost in costs))


def _find_count(settings: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return max((settings[name] for name in names if isinstance(settings.get(name), int)), default=0)
