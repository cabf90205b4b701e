"""Asks a client's own provider what rules ask, such as a summary: at the same address, with the same credentials.

A `Provider` for one request. How the bytes get there is passed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from turnscope.errors import ProviderError
from turnscope.live import provider_errors
from turnscope.live.betas import list_betas
from turnscope.live.forms import chat_completions, responses
from turnscope.live.provider import ProviderAnswer, StreamChunk
from turnscope.reading import anthropic_calls, google_calls, openai_calls
from turnscope.reading.calls import Exchange
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.conversations import Call
from turnscope.reading.responses_calls import ResponseChains, find_response
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Usage

Ask = Callable[[bytes, Sequence[str]], tuple[int, str]]
"""Sends a body, with beta features that it needs, and gives status and text of what comes back."""


class UpstreamProvider:
    """A client's provider.

    Args:
        api: The API that the client speaks.
        destination: What the planner knows the provider as.
        ask: Sends a body to it; None = it cannot be asked.
        bill: Is told the model and the usage of each answer.
        limits_completion: The client limits answers of Chat Completions by `max_completion_tokens`, as OpenAI wants it.
    """

    def __init__(
        self,
        api: str,
        destination: Destination,
        ask: Ask | None = None,
        bill: Callable[[str, Usage], None] | None = None,
        *,
        limits_completion: bool = False,
    ) -> None:
        self.api, self.ask, self.bill, self.limits_completion = api, ask, bill, limits_completion
        self._destination = destination

    @property
    def destination(self) -> Destination:
        """See `Provider`."""
        return self._destination

    def stream(self, body: Mapping[str, JSON]) -> AbstractContextManager[Iterator[StreamChunk]]:
        """Nobody streams here: the answers are read by rules."""
        del body
        raise ProviderError("the tap streams no answers of its own", hint="")

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        if self.ask is None:
            raise ProviderError("no model can be asked for this request", hint="")
        status, text = self.ask(json.dumps(self._write(body)).encode(), list_betas(body))
        if status != 200:
            raise provider_errors.explain_refusal(status, text)
        call = read_answer(self.api, body, text)
        if call is None or call.answer is None:
            raise ProviderError(f"the provider's answer holds nothing: {call.error if call else ''}", hint="")
        usage: Usage | None = call.about.get("usage")
        if self.bill and usage:
            self.bill(str(call.about.get("model") or body.get("model") or ""), usage)
        return ProviderAnswer(tuple(call.answer["content"]), call.about.get("stop_reason") or "", usage)

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """Nothing is counted there: a count takes as long as an answer begins."""
        del body
        return None

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        return error if isinstance(error, ProviderError) else ProviderError(f"the provider gave no answer: {error}", hint="")

    def _write(self, body: Mapping[str, JSON]) -> Mapping[str, JSON]:
        match self.api:
            case "anthropic-messages":
                return body
            case "openai-chat":
                return chat_completions.build_arguments(body, "openai" if self.limits_completion else "server")
            case "openai-responses":
                return responses.build_arguments(body)
        contents = [_write_content(message) for message in body["messages"]]
        return {"contents": contents, "generationConfig": {"maxOutputTokens": body.get("max_tokens", 1_000)}}


def _write_content(message: Mapping[str, Any]) -> dict[str, JSON]:
    return {"role": "user" if message["role"] == "user" else "model", "parts": [{"text": message["content"]}]}


def read_answer(api: str, body: Mapping[str, JSON], text: str, model: str = "") -> Call | None:
    """Read what came back for a body; None where that has an unknown shape.

    Args:
        api: The API.
        body: The body.
        text: The answer: an object or a stream.
        model: The model, where neither names it.
    """
    try:
        response: Any = json.loads(text) if text.lstrip()[:1] in ("{", "[") else text
        match api:
            case "anthropic-messages":
                return anthropic_calls.convert_call(Exchange(dict(body), response, 0))
            case "openai-chat":
                return openai_calls.convert_call(Exchange({"messages": [], **as_mapping(body)}, response, 0))
            case "openai-responses":
                found = ResponseChains().convert({}, find_response(response), {}, 0)
                return next((one for one in found if isinstance(one, Call)), None)
        return google_calls.convert_call({}, google_calls.join_answer(response), 0, model)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        return None
