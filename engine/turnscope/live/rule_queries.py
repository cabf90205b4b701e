"""Who answers what rules ask in a live chat: the model writes summaries, the provider counts. One entry per kind of ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, translate_errors
from turnscope.planning.answers import Answers, summarise_offline
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Answer, Ask, AskKind


def build_answers(
    provider: Provider,
    model: str,
    summary_model: str,
    settings: Mapping[str, JSON] | None = None,
    *,
    chosen_by_user: bool = True,
) -> Mapping[AskKind, Answers]:
    """Those who answer. `model` is the chat's; `summaries` names the one that writes summaries, "" = nobody may.

    `chosen`: a person named that one; else the model that a policy names writes its summaries, if it is there.

    `more`: settings of the chat's requests that one for a summary on demand shares.
    """
    return {
        "summary": partial(request_summary if chosen_by_user else request_policy_summary, provider, summary_model)
        if summary_model
        else _refuse_summary,
        "compact": partial(request_compaction, provider, model, settings or {}) if summary_model else _refuse_summary,
        "expect": summarise_offline,
        "count": partial(request_count, provider, model),
    }


def _refuse_summary(_ask: Ask) -> Answer:
    return Answer(failed="condensing is switched off for this chat")


def request_summary(provider: Provider, model: str, ask: Ask) -> Answer:
    """The summary that a model gives; a failed answer where it gives none."""
    text = f"{ask.prompt}\n\n<transcript>\n{ask.content}\n</transcript>"
    try:
        with translate_errors(provider):
            said = provider.complete(_build_body(model, text) | {"max_tokens": ask.max_tokens or 1_000})
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    told = "\n".join(block["text"] for block in said.content if block["type"] == "text")
    return Answer(told, model=model, usage=said.usage, source="model")


def request_policy_summary(provider: Provider, model: str, ask: Ask) -> Answer:
    """The summary of the model that the policy names; of `model` where it names none, or that one gives none."""
    answer = request_summary(provider, ask.model or model, ask)
    return request_summary(provider, model, ask) if answer.failed and ask.model not in ("", model) else answer


def request_compaction(provider: Provider, model: str, settings: Mapping[str, JSON], ask: Ask) -> Answer:
    """The summary that the provider makes of a conversation on demand, with its block as it has to be sent back; failed where
    none came. The model is the chat's own: the API takes no other.
    """
    wish = {"type": "summarize"} | ({"instructions": ask.prompt} if ask.prompt.strip() else {})
    body = {**settings, "model": model, **ask.body, "max_tokens": ask.max_tokens, "compaction": wish}
    try:
        with translate_errors(provider):
            said = provider.complete(body)
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    block = next((block for block in said.content if block.get("type") == "compaction" and block.get("content")), None)
    if block is None:
        return Answer(failed=f"no summary came ({said.stop_reason})", model=model, usage=said.usage)
    return Answer(block["content"], (dumps(block),), model=model, usage=said.usage, source="model")


def request_count(provider: Provider, model: str, ask: Ask) -> Answer:
    """The provider's count of a text, as digits; a failed answer where it does not count."""
    try:
        with translate_errors(provider):
            tokens = provider.count_tokens(_build_body(model, ask.content))
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    if tokens is None:
        return Answer(failed="this provider does not count", model=model)
    return Answer(str(tokens), model=model, source="model")


def _build_body(model: str, text: str) -> dict[str, JSON]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}
