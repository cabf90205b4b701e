"""Answers for rules in a live chat: a model writes summaries, the provider counts tokens. One entry per kind of query."""

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
    """Return who answers each kind of rule query.

    Args:
        provider: Where the requests go.
        model: The chat's model.
        summary_model: The model that writes summaries; "" switches summaries off.
        settings: Request settings of the chat that a compaction on demand shares, such as `thinking`.
        chosen_by_user: True if a person chose `summary_model`. Otherwise the model that a policy names comes first.
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
    return Answer(failed="summaries are switched off for this chat")


def request_summary(provider: Provider, model: str, ask: Ask) -> Answer:
    """Ask a model for a summary.

    Args:
        provider: Where the request goes.
        model: The model that writes the summary.
        ask: The prompt, the text to summarise and the most tokens of the summary (0 = 1,000).

    Returns:
        The summary, or an answer with `failed` set. A provider's error is never raised.
    """
    text = f"{ask.prompt}\n\n<transcript>\n{ask.content}\n</transcript>"
    try:
        with translate_errors(provider):
            answer = provider.complete(_build_body(model, text) | {"max_tokens": ask.max_tokens or 1_000})
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    summary = "\n".join(block["text"] for block in answer.content if block["type"] == "text")
    return Answer(summary, model=model, usage=answer.usage, source="model")


def request_policy_summary(provider: Provider, model: str, ask: Ask) -> Answer:
    """Ask the model that the policy names for a summary, then `model`.

    Args:
        provider: Where the request goes.
        model: The model to ask if the policy names none, or if the named one fails.
        ask: The query; `ask.model` is the model that the policy names.
    """
    answer = request_summary(provider, ask.model or model, ask)
    return request_summary(provider, model, ask) if answer.failed and ask.model not in ("", model) else answer


def request_compaction(provider: Provider, model: str, settings: Mapping[str, JSON], ask: Ask) -> Answer:
    """Ask the provider for a compaction on demand (the API's `compaction` parameter).

    Args:
        provider: Where the request goes.
        model: The chat's model. The API accepts no other.
        settings: Request settings of the chat.
        ask: The instructions, and the conversation as a request body.

    Returns:
        The summary, with its signed block in `items`: the next requests have to send that block back. `failed` if none came.
    """
    wish = {"type": "summarize"} | ({"instructions": ask.prompt} if ask.prompt.strip() else {})
    body = {**settings, "model": model, **ask.body, "max_tokens": ask.max_tokens, "compaction": wish}
    try:
        with translate_errors(provider):
            answer = provider.complete(body)
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    block = next((block for block in answer.content if block.get("type") == "compaction" and block.get("content")), None)
    if block is None:
        return Answer(failed=f"the provider sent no summary ({answer.stop_reason})", model=model, usage=answer.usage)
    return Answer(block["content"], (dumps(block),), model=model, usage=answer.usage, source="model")


def request_count(provider: Provider, model: str, ask: Ask) -> Answer:
    """Ask the provider how many tokens a text has.

    Args:
        provider: Where the request goes.
        model: Whose tokens are counted.
        ask: The text.

    Returns:
        The count as digits, or an answer with `failed` set.
    """
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
