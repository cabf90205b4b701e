"""By whose rules a request is judged: of what `lint` finds, what the provider of its model is known to reject.

`lint` speaks of Anthropic's Messages API. Of OpenAI and Google it is known that calls and results must be paired, and that a
request holds a message; who may speak first or last, white space, ids and thinking are no mistakes there. Of other providers
nothing is known here, so nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.planning.lint import Problem
from engine.pricing.prices import Prices

UNKNOWN = ""
_NAMES = {"anthropic": "Anthropic", "turnscope": "Anthropic", "openai": "OpenAI", "google": "Google"}
_PAIRS = re.compile(
    r"^(the call \S+ has no result|no call before this result|at least one message is required|two tools are called)"
)


def judge(model: str, prices: Prices) -> str:
    """By whose rules the requests to a model are judged; "" where none are known."""
    return _NAMES.get(prices.facts(model).provider, UNKNOWN)


def refused(found: Sequence[Problem], rules: str) -> tuple[Problem, ...]:
    """Of all that is found in a request, what is rejected by the `rules` of `judge`."""
    if rules == "Anthropic":
        return tuple(found)
    return tuple(problem for problem in found if rules and _PAIRS.match(problem.what))
