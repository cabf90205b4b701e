"""Strip the thinking of past turns: it served its answer and is rarely needed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before, find_at_or_before, group_runs
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters of Anthropic's clear_thinking_20251015."""

    keep: Annotated[
        int, "number of newest turns with thinking that keep it (at least 1: the tool loop of a turn needs its own)"
    ] = 1


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    thinking = ctx.index.thinking
    stop = _count_old(thinking, ctx.index.turns, ctx.request.cut, params.keep)
    start = _count_old(thinking, ctx.index.turns, get_previous_cut(ctx), params.keep)
    standing = [at for at in thinking[start:stop] if envelope.find_piece(at).body is None]
    if not standing:
        return
    tokens = sum(ctx.ledger.count_tokens(at, at + 1) for at in standing)
    because = f"thinking before the newest {max(1, params.keep)} turns that have any is dropped: {tokens:,} tokens"
    facts = {"blocks": len(standing), "tokens": tokens, "keep": params.keep}
    for span in group_runs(standing):
        yield Edit("strip", because, span, facts=facts)


def _count_old(thinking: Sequence[int], turns: Sequence[int], cut: int, keep: int) -> int:
    """How many thinking blocks of a request that ends at `cut` are before the newest `keep` turns that have any."""
    place = count_before(thinking, cut)
    for _ in range(max(1, keep)):
        if place == 0:
            break
        place = count_before(thinking, find_at_or_before(turns, thinking[place - 1]) or 0)
    return place


RULE = Rule(
    "strip_old_thinking",
    "Strip the thinking of past turns. The newest turns keep theirs.",
    edits,
    Params,
    "remembers",
    "Anthropic Messages API, context management edit clear_thinking_20251015 (keep: thinking_turns)",
)
