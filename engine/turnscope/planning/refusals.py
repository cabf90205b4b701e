"""Which mistakes in a request a model's provider is known to reject, of all that `lint` finds.

`lint` checks against Anthropic's Messages API. For OpenAI and Google only mistakes count that were reported with the API's own
words; each pattern names its report. No report was found for: who may speak first, white space, ids, thinking, one name for two
tools at OpenAI. Google refuses an answer with a call as first message (google-gemini/gemini-cli#11814), but not other answers;
`lint` does not separate these. Other providers are not judged.
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
    r"the result of \S+ does not directly follow",  # a response behind another one (google-gemini/gemini-cli#26956)
    r"at least one message is required",  # "at least one contents field is required" (Calcium-Ion/new-api-horizon#24)
    r"a user's message must not be empty",  # "contents.parts must not be empty" (vercel/ai#3775, QuantumNous/new-api#1260)
    r"two tools are called",  # "Duplicate function declaration found" (googleapis/dotnet-genai#189)
)
_RULES = {"OpenAI": re.compile("|".join(_OPENAI)), "Google": re.compile("|".join(_GOOGLE))}


def find_judge(model: str, prices: Prices) -> str:
    """Return the provider whose rules apply to a model; "" where no rules are known.

    Args:
        model: Name of the model.
        prices: What is known of models.
    """
    return _NAMES.get(prices.find_facts(model).provider, UNKNOWN)


def select_refused(found: Sequence[Problem], rules: str) -> tuple[Problem, ...]:
    """Return the problems that are rejected under the rules of a provider.

    Args:
        found: All problems of a request.
        rules: The provider, as `find_judge` names it.
    """
    if rules == "Anthropic":
        return tuple(found)
    known = _RULES.get(rules)
    return tuple(problem for problem in found if known and known.match(problem.what))
