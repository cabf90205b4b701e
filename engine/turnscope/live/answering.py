"""Who answers what rules ask in a live chat: the model writes summaries, the provider counts. One entry per kind of ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, explained
from turnscope.planning.answers import Answers, extracted
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Answer, Ask, AskKind


def answering(
    provider: Provider, model: str, summaries: str, more: Mapping[str, JSON] | None = None, *, chosen: bool = True
) -> Mapping[AskKind, Answers]:
    """Those who answer. `model` is the chat's; `summaries` names the one that writes summaries, "" = nobody may.

    `chosen`: a person named that one; else the model that a policy names writes its summaries, if it is there.

    `more`: settings of the chat's requests that one for a summary on demand shares.
    """
    return {
        "summary": partial(summarised if chosen else by_policy, provider, summaries) if summaries else _off,
        "compact": partial(compacted, provider, model, more or {}) if summaries else _off,
        "expect": extracted,
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


def by_policy(provider: Provider, model: str, ask: Ask) -> Answer:
    """The summary of the model that the policy names; of `model` where it names none, or that one gives none."""
    answer = summarised(provider, ask.model or model, ask)
    return summarised(provider, model, ask) if answer.failed and ask.model not in ("", model) else answer


def compacted(provider: Provider, model: str, more: Mapping[str, JSON], ask: Ask) -> Answer:
    """The summary that the provider makes of a conversation on demand, with its block as it has to be sent back; failed where
    none came. The model is the chat's own: the API takes no other.
    """
    wish = {"type": "summarize"} | ({"instructions": ask.prompt} if ask.prompt.strip() else {})
    body = {**more, "model": model, **ask.body, "max_tokens": ask.max_tokens, "compaction": wish}
    try:
        with explained(provider):
            said = provider.say(body)
    except ProviderError as error:
        return Answer(failed=error.what, model=model)
    block = next((block for block in said.content if block.get("type") == "compaction" and block.get("content")), None)
    if block is None:
        return Answer(failed=f"no summary came ({said.stop_reason})", model=model, usage=said.usage)
    return Answer(block["content"], (dumps(block),), model=model, usage=said.usage, source="model")


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
