"""Selective injection: keep the earlier exchanges that relate most to the turn, then the newest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.conversation import count_static_tokens, find_droppable, find_fitting_start, find_start
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.relevance import find_exchange, get_exchanges, rank_exchanges, rerank_exchanges
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import find_at_or_before
from turnscope.session.model import Edit, Span

LISTED = 12  # scores that one decision names


@dataclass(frozen=True, slots=True)
class Params:
    """How much is kept, and how exchanges are scored."""

    share: Annotated[float, "part of the limit to fill (0 to 1)"] = 1.0
    recent: Annotated[int, "number of newest exchanges before the turn to keep, whatever their score"] = 2
    most: Annotated[int, "maximum exchanges to keep for their score; the rest of the budget goes to the newest"] = 12
    pin_first: Annotated[bool, "keep the first exchange if it fits: the task"] = False
    rerank: Annotated[str, "model that finds by meaning, beside bm25: wordllama, provider:NAME; empty = only bm25"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    limit, size = int(ctx.limit * params.share), ctx.count_envelope(envelope)
    turn = find_at_or_before(ctx.index.turns, ctx.request.cut - 1)
    if size <= limit or turn is None:
        return
    index, room = get_exchanges(ctx), limit - count_static_tokens(envelope, ctx)
    starts, now = index.starts, find_exchange(index.starts, turn)
    last = max(0, now - max(0, params.recent))
    recent = _count_tokens(envelope, ctx, starts[last], ctx.request.cut)
    facts: dict[str, Any] = {"tokens": size, "limit": limit}
    if recent > room:
        because = f"{size:,} tokens exceed the limit of {limit:,}; the newest exchanges alone fill it"
        for span in find_droppable(ctx, envelope, starts[0], find_start(ctx, find_fitting_start(envelope, ctx, room))):
            envelope = yield Edit("drop", because, span, facts=facts)
        return
    found = {n: score for n, score in rank_exchanges(ctx, index, turn) if n < last}
    missing = (yield from rerank_exchanges(ctx, index, turn, found, params.rerank, last)) if params.rerank else ""
    facts |= {"not_reranked": missing} if missing else {}
    kept: dict[int, int] = {}  # exchanges kept for their score, with their tokens
    for number in dict.fromkeys([0, *found] if params.pin_first and last else found):
        if len(kept) < params.most + params.pin_first:
            need = _count_tokens(envelope, ctx, starts[number], starts[number + 1])
            kept |= {number: need} if need <= room - recent - sum(kept.values()) else {}
    oldest = last
    for _ in range(3):  # an exchange that is both relevant and new is counted once
        double = sum(need for number, need in kept.items() if oldest <= number < last)
        oldest = min(oldest, bisect_left(starts, find_fitting_start(envelope, ctx, room - sum(kept.values()) + double)))
    facts |= {
        "scores": _format_scores(starts, found, kept) or "no earlier exchange shares a term with the turn",
        "newest": now - oldest,
    }
    yield Edit("keep", f"{len(kept)} of {last} earlier exchanges are kept because they relate to the turn", facts=facts)
    because = f"{size:,} tokens exceed the limit of {limit:,}; other exchanges relate more to the turn, or are newer"
    at = 0
    for number in [*sorted(n for n in kept if n < oldest), oldest]:
        scored = {
            "exchanges": number - at,
            "scores": _format_scores(starts, found, [n for n in found if at <= n < number]) or "0",
        }
        for span in find_droppable(ctx, envelope, starts[at], starts[number]) if at < number else ():
            envelope = yield Edit("drop", because, span, facts={**facts, **scored})
        at = number + 1


def _count_tokens(envelope: Envelope, ctx: Ctx, start: int, stop: int) -> int:
    """Tokens of the conversation in `[start, stop)` as it is sent, in the policy's own units."""
    return sum(
        sum(
            (
                ctx.own.count_by_bucket(max(p.start, start), min(p.stop, stop))
                if p.body is None
                else ctx.own.count_placeholder(p.body)
            )[2:]
        )
        for p in envelope.iter_pieces(Span(start, stop))
    )


def _format_scores(starts: Sequence[int], found: Mapping[int, float], numbers: Iterable[int]) -> str:
    """Addresses and scores of some exchanges, the best first."""
    return ", ".join(f"#{starts[n]} {found.get(n, 0.0):.2f}" for n in [*numbers][:LISTED])


RULE = Rule(
    "keep_relevant_messages",
    "If not everything fits, keep the earlier exchanges that relate most to the turn, in order, then the newest.",
    edits,
    Params,
    "fresh",
    "multi-turn architecture, strategy 3: selective injection; bm25 over words, embeddings where a model is named",
)
