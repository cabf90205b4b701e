"""Who answers what rules ask in a live chat: the model writes summaries, the provider counts. One entry per kind of ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from engine.errors import ProviderError
from engine.live.provider import Provider, explained
from engine.planning.answers import Answers
from engine.session.model import JSON, Answer, Ask, AskKind


def answering(provider: Provider, model: str, summaries: str) -> Mapping[AskKind, Answers]:
    """Those who answer. `model` is the chat's; `summaries` names the one that writes summaries, "" = nobody may."""
    return {
        "summary": partial(summarised, provider, summaries) if summaries else _off,
        "count": partial(counted, provider, model),
    }


def _off(_ask: Ask) -> Answer:
    return Answer(failed="condensing is switched off for this chat")


def summarised(provider: Provider, model: str, ask: Ask) -> Answer:
    """The summary that a model gives; a failed answer where it gives none."""
    text = f"{ask.prompt}\n\n<transcript>\n{ask.content}\n</transcript>"
    try:
        with explained(provider):
            said = provider.say(_question(model, text) | {"max_tokens": ask.max_tokens or 1_000})
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    told = "\n".join(block["text"] for block in said.content if block["type"] == "text")
    return Answer(told, model=model, usage=said.usage, source="model")


def counted(provider: Provider, model: str, ask: Ask) -> Answer:
    """The provider's count of a text, as digits; a failed answer where it does not count."""
    try:
        with explained(provider):
            tokens = provider.count(_question(model, ask.content))
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    if tokens is None:
        return Answer(failed="this provider does not count", model=model)
    return Answer(str(tokens), model=model, source="model")


def _question(model: str, text: str) -> dict[str, JSON]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}
