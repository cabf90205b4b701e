"""Summarise the older half of the messages at every request, without the summary of the request before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import SummaryOptions, condense, find_boundary
from turnscope.envelope.conversation import count_conversation_tokens
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Span


@dataclass(frozen=True, slots=True)
class Params:
    """When to summarise, and into what."""

    above: Annotated[int, "summarise when the messages have more tokens"] = 40_000
    cap: Annotated[int, "maximum tokens of the summary"] = 512
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = "claude-haiku-4-5"


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    messages = ctx.index.messages
    there = count_before(messages, ctx.request.cut)
    tokens = count_conversation_tokens(envelope, ctx, ctx.request.cut) if there else 0
    stop = find_boundary(envelope, ctx, messages[there // 2], messages[0]) if there > 1 and tokens > params.above else None
    if stop is None:
        return
    how = SummaryOptions(
        "segment",
        params.model,
        cap=params.cap,
        shape="pair",
        frame="[Conversation summary so far: {summary}]",
        reply="Understood, I'll keep that context in mind.",
        recursive=False,
    )
    because = f"the messages have {tokens:,} tokens, more than {params.above:,}; no earlier summary is read"
    yield from condense(envelope, ctx, Span(messages[0], stop), how, because, {"tokens": tokens, "above": params.above})


RULE = Rule(
    "summarise_half_each_time",
    "Summarise the older half above a size, at every request anew: no summary is ever built on the last one.",
    edits,
    Params,
    "fresh",
    "an architecture of multi-turn chat (BEE-30031): build_messages_with_summarization, `existing_summary=None`",
)
