"""By whose rules a request is judged: of what `lint` finds, what the provider of its model is known to reject.

`lint` speaks of Anthropic's Messages API. Of OpenAI and Google only what was reported with the API's own words is a mistake:
each rule names a report. Who may speak first, white space, ids, thinking, one name for two tools of OpenAI's: no report was
found, so none of it is one. Google refuses an answer with a call as first message (google-gemini/gemini-cli#11814), and does
not refuse other answers there: `lint` does not tell them apart. Of other providers nothing is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnscope.planning.lint import Problem
from turnscope.pricing.prices import Prices

UNKNOWN = ""
_NAMES = {"anthropic": "Anthropic", "turnscope": "Anthropic", "openai": "OpenAI", "google": "Google"}
_OPENAI = (
    # "must be followed by tool messages" (agno-agi/agno#3105), "No tool output found" (bytedance/trae-agent#245)
    r"the call \S+ has no result",
    # "must be a response to" (run-llama/llama_index#10493), "No tool call found" (continuedev/continue#10092)
    r"no call before this result",
    r"at least one message is required",  # "Invalid 'messages': empty array" (danny-avila/LibreChat#10408)
)
_GOOGLE = (
    r"the call \S+ has no result",  # "number of function response parts is equal" (google-gemini/gemini-cli#3814)
    r"no call before this result",  # "comes immediately after a function call turn" (langchain-ai/langchain#27799)
    r"the result of \S+ does not stand right behind",  # a response behind another one (google-gemini/gemini-cli#26956)
    r"at least one message is required",  # "at least one contents field is required" (Calcium-Ion/new-api-horizon#24)
    r"a user's message must not be empty",  # "contents.parts must not be empty" (vercel/ai#3775, QuantumNous/new-api#1260)
    r"two tools are called",  # "Duplicate function declaration found" (googleapis/dotnet-genai#189)
)
_RULES = {"OpenAI": re.compile("|".join(_OPENAI)), "Google": re.compile("|".join(_GOOGLE))}


def find_judge(model: str, prices: Prices) -> str:
    """By whose rules the requests to a model are judged; "" where none are known."""
    return _NAMES.get(prices.find_facts(model).provider, UNKNOWN)


def select_refused(found: Sequence[Problem], rules: str) -> tuple[Problem, ...]:
    """Of all that is found in a request, what is rejected by the `rules` of `judge`."""
    if rules == "Anthropic":
        return tuple(found)
    known = _RULES.get(rules)
    return tuple(problem for problem in found if known and known.match(problem.what))
