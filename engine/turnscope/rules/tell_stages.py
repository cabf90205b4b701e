"""Show a middleware as a sequence: what each stage added to the request, in order, with its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.model import BUCKETS, Bucket, Edit

RESULTS = BUCKETS.index(Bucket.TOOL_RESULTS)


@dataclass(frozen=True, slots=True)
class Params:
    """The stages."""

    stages: Annotated[tuple[str, ...], "slots of each stage, as name=slot slot"] = (
        "memory=memory agent_memory",
        "web search=web_results",
        "RAG=documents",
    )


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    slots: dict[str, int] = {}
    for piece in envelope.pieces:
        if piece.slot and piece.start == piece.stop:
            slots[piece.slot] = slots.get(piece.slot, 0) + sum(ctx.own.count_placeholder(piece.body))
    named = (stage.partition("=") for stage in params.stages)
    stages = [(name, sum(slots.get(slot, 0) for slot in of.split())) for name, _, of in named]
    results = sum(ctx.count_chunk(chunk)[RESULTS] for chunk in envelope.chunks)
    rest = ctx.count_envelope(envelope) - results - sum(tokens for _, tokens in stages)
    now = (*stages, ("tool results", results), ("messages", rest))
    for number, (stage, tokens) in enumerate(now if now != ctx.state else (), 1):
        facts = {"stage": stage, "number": number, "tokens": tokens}
        yield Edit("keep", f"stage {number} of {len(now)}, {stage}: {tokens:,} tokens", facts=facts)
    return now


RULE = Rule(
    "tell_stages",
    "Report for each stage of a middleware, in order, how many tokens it added. Changes nothing.",
    edits,
    Params,
    "fresh",
    "a survey of memory patterns, section 1.2: memory, web search, RAG, tool results, then the messages",
    state=tuple[tuple[str, int], ...],
)
