"""The errors with which the tap refuses a request: in each provider's own form, with the type and the counters behind them.

Forms as the providers document them (errors of the Messages API, `error` objects of OpenAI, `google.rpc.Status`). Pure
functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import orjson

from turnscope.errors import ContextWindowExceededError
from turnscope.session.model import JSON

NO_RETRY = ("x-should-retry", "false")  # the SDKs of Anthropic and OpenAI heed it
DETAILS = "turnscope"  # key of the details in an error
_GOOGLE_TYPE = "type.googleapis.com/google.rpc.ErrorInfo"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in the provider's place. `kind`: what was exceeded; `what`: the sentence; `facts`: counters."""

    status: int
    kind: str
    what: str
    body: Mapping[str, JSON]

    def encode(self) -> bytes:
        """Encode the body."""
        return orjson.dumps(self.body)


def refuse_size(api: str, error: ContextWindowExceededError) -> Refusal:
    """Refuse a request because it does not fit its window, or its policy refuses it.

    Clients know these errors: they compact, or begin anew.

    Args:
        api: The API of the request.
        error: The error.
    """
    kind, facts = "context_window_exceeded", _list_facts(error)
    tokens, window = max(error.projected, error.window + 1), error.window
    why = f"{error.what}. turnscope tap: {error.hint}"
    match api:
        case "anthropic-messages":
            what = f"prompt is too long: {tokens} tokens > {window} maximum ({why})"
            return Refusal(400, kind, error.what, _write_anthropic("invalid_request_error", what, kind, facts))
        case "gemini":
            what = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}). {why}"
            return Refusal(400, kind, error.what, _write_google(400, "INVALID_ARGUMENT", what, kind, facts))
    what = f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. {why}"
    param = "messages" if api == "openai-chat" else "input"
    error_body = {"message": what, "type": "invalid_request_error", "param": param, "code": "context_length_exceeded"}
    return Refusal(400, kind, error.what, {"error": error_body | {DETAILS: {"kind": kind, **facts}}})


def refuse_spending(api: str, spent: Decimal, limit: Decimal, what_for: str, next_cost: Decimal = Decimal(0)) -> Refusal:
    """Refuse a request because a budget is used up, or would be by it.

    Args:
        api: The API of the request.
        spent: What was spent, in USD.
        limit: The budget, in USD.
        what_for: What the budget is for: session or day.
        next_cost: What the request is expected to cost, in USD; 0 = nothing is left anyway.
    """
    kind = f"{what_for}_budget_exceeded"
    more = f", and this request is expected to cost ${next_cost:.4f}" if spent < limit else ""
    what = f"turnscope tap: this {what_for} has cost ${spent:.4f} of its budget of ${limit}{more}; the request was not sent"
    facts = {"spent_usd": str(spent), "limit_usd": str(limit)} | ({"expected_usd": str(next_cost)} if more else {})
    match api:
        case "anthropic-messages":
            return Refusal(402, kind, what, _write_anthropic("billing_error", what, kind, facts))
        case "gemini":
            return Refusal(429, kind, what, _write_google(429, "RESOURCE_EXHAUSTED", what, kind, facts))
    error = {"message": what, "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
    return Refusal(429, kind, what, {"error": error | {DETAILS: {"kind": kind, **facts}}})


def _list_facts(error: ContextWindowExceededError) -> dict[str, JSON]:
    names = ("conversation_id", "turn", "request", "projected", "window", "limit")
    return {name: getattr(error, name) for name in names} | {"counters": dict(error.counters)}


def _write_anthropic(type: str, what: str, kind: str, facts: Mapping[str, JSON]) -> dict[str, JSON]:
    return {"type": "error", "error": {"type": type, "message": what, DETAILS: {"kind": kind, **facts}}, "request_id": None}


def _write_google(code: int, status: str, what: str, kind: str, facts: Mapping[str, JSON]) -> dict[str, JSON]:
    texts = {name: str(value) for name, value in facts.items() if name != "counters"} | facts.get("counters", {})
    about = {key: str(value) for key, value in texts.items()}
    details = {"@type": _GOOGLE_TYPE, "reason": kind.upper(), "domain": DETAILS, "metadata": about}
    return {"error": {"code": code, "message": what, "status": status, "details": [details]}}
