"""Answers for rules in a live chat: a model writes summaries, the provider counts tokens. One entry per kind of query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import structs

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, SupportsEmbeddings, translate_errors
from turnscope.planning.answers import Answers, summarise_offline
from turnscope.planning.reranking import AT_PROVIDER, compare_texts, rerank_texts
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Answer, Ask, AskKind, Usage

OVERHEAD = 200  # tokens of a request for a summary around its text
_SPEAKER = re.compile(r"^(?:user|assistant|tool|summary|system): ", re.MULTILINE)


def build_answers(
    provider: Provider,
    model: str,
    summary_model: str,
    settings: Mapping[str, JSON] | None = None,
    *,
    chosen_by_user: bool = True,
    in_parts: Callable[[Answers, Ask], Answer] | None = None,
) -> Mapping[AskKind, Answers]:
    """Return who answers each kind of rule query.

    Args:
        provider: Where the requests go.
        model: The chat's model.
        summary_model: The model that writes summaries; "" switches summaries off.
        settings: Request settings of the chat that a compaction on demand shares, such as `thinking`.
        in_parts: Asks for a summary in several requests if its text is larger than the window; None = always in one.
        chosen_by_user: True if a person chose `summary_model`. Otherwise the model that a policy names comes first.
    """
    ask_one = partial(request_summary if chosen_by_user else request_policy_summary, provider, summary_model)
    return {
        "summary": (partial(in_parts, ask_one) if in_parts else ask_one) if summary_model else _refuse_summary,
        "compact": partial(request_compaction, provider, model, settings or {}) if summary_model else _refuse_summary,
        "expect": summarise_offline,
        "count": partial(request_count, provider, model),
        "rank": partial(request_ranking, provider),
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


def request_in_parts(ask_one: Answers, room: int, count: Callable[[str], int], ask: Ask) -> Answer:
    """Ask for a summary of a text that is larger than the window, part by part: each request reads the summary so far.

    Args:
        ask_one: Asks for one summary.
        room: Tokens that the prompt of one request may have.
        count: Counts the tokens of a text.
        ask: The query.

    Returns:
        The last summary, billed for all requests; the first answer that failed.
    """
    room -= count(ask.prompt) + OVERHEAD
    whole = ask.content
    if room <= 0 or (size := count(whole)) <= room:
        return ask_one(ask)
    most = max(1, room - (ask.max_tokens or 1_000))
    parts = _split_text(whole, max(1, len(whole) * most // size))
    answer, usages, speaker = Answer(), list[Usage](), ""
    for part in parts:
        going_on = "" if _SPEAKER.match(part) else speaker
        content = f"summary: {answer.text}\n\n{going_on}{part}" if answer.text else part
        speaker = next(reversed(_SPEAKER.findall(part)), speaker)
        answer = ask_one(structs.replace(ask, source=content))
        usages += answer.usage.passes if answer.usage else []
        if answer.failed:
            break
    billed = structs.replace(usages[0], iterations=tuple(usages[1:])) if usages else None
    return structs.replace(answer, usage=billed)


def _split_text(text: str, size: int) -> list[str]:
    """Split a text into parts of at most so many characters, between lines where that is possible."""
    parts, start = [], 0
    while start < len(text):
        stop = min(len(text), start + size)
        line = text.rfind("\n", start, stop) if stop < len(text) else -1
        stop = line + 1 if line > start + size // 2 else stop
        parts.append(text[start:stop])
        start = stop
    return parts


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


def request_ranking(provider: Provider, ask: Ask) -> Answer:
    """Compare texts by meaning: with a model of the provider where the name says so, else with one on this machine.

    Args:
        provider: Where the request goes.
        ask: The model, and the question and the texts (`planning.reranking`).
    """
    if not ask.prompt.startswith(AT_PROVIDER):
        return rerank_texts(ask)
    if not isinstance(provider, SupportsEmbeddings):
        return Answer(failed="this provider has no endpoint for embeddings", model=ask.prompt)
    try:
        with translate_errors(provider):
            return compare_texts(ask, partial(provider.embed, ask.prompt.removeprefix(AT_PROVIDER)))
    except ProviderError as error:
        return Answer(failed=error.what, model=ask.prompt)


def _build_body(model: str, text: str) -> dict[str, JSON]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}
