"""OpenHands' condensers: once there are too many events, those between the first few and the newest are forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import SummaryOptions, condense, find_summary
from turnscope.envelope.conversation import find_droppable, memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.openhands import sdk
from turnscope.ports.openhands.events import Piece, read_pieces
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the originals."""

    max_size: Annotated[int, "number of events above which it condenses"] = 240
    keep_first: Annotated[int, "number of first events that always stay; the system prompt is one"] = 2
    tokens: Annotated[bool, "also condense a request over its budget, down to half of it"] = True
    aligned: Annotated[bool, "never split a pair, a batch of calls or a thinking loop (the SDK)"] = True
    summarise: Annotated[bool, "a summary replaces what is forgotten; else nothing does"] = True
    minimum_progress: Annotated[float, "aligned: forget at least this share of the events, or none"] = 0.1
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. State: the number of the first event after the forgotten ones; 0 = none was forgotten."""
    pieces, starts = _read_pieces(ctx)
    there, head, gone = count_before(starts, ctx.request.cut), params.keep_first, ctx.state or 0
    first = max(head, gone)
    size = min(head, there) + (gone > 0 and params.summarise) + max(0, there - first)
    total = ctx.count_envelope(envelope) if params.tokens else 0
    over = params.tokens and total > ctx.limit
    if not over and size <= params.max_size:
        return gone
    why = f"{size:,} events, more than {params.max_size:,}" if size > params.max_size else f"{total:,} tokens of {ctx.limit:,}"
    facts = {"events": size, "max_size": params.max_size, "tokens": total}
    begin, stop = _find_span(ctx, params, pieces[:there], first, gone, over)
    if stop <= max(first, begin):
        yield Edit("keep", f"{why}, but nothing in the middle can be forgotten", facts=facts)
        return gone
    span = Span(starts[begin], starts[stop] if stop < there else ctx.request.cut)
    if not params.summarise:
        for part in find_droppable(ctx, envelope, *span):
            envelope = yield Edit("drop", f"{why}: those in the middle are forgotten", part, facts=facts)
        return stop
    old = find_summary(envelope, span.start)
    how = SummaryOptions("summarise", cap=params.cap)
    envelope = yield from condense(envelope, ctx, span, how, why, facts)
    return (
        stop
        if any(p.by >= 0 and p.body for p in envelope.iter_pieces(span)) and find_summary(envelope, span.start) != old
        else gone
    )


def _find_span(ctx: Ctx, params: Params, pieces: Sequence[Piece], first: int, gone: int, over: bool) -> tuple[int, int]:
    """Return the numbers of the first forgotten event and of the one after the last, including those forgotten before."""
    there = len(pieces)
    if not params.aligned:
        room = params.max_size // 2 - params.keep_first - params.summarise
        return params.keep_first, max(0, there - room)
    shown = [*range(min(params.keep_first, there)), *([-1] if gone else []), *range(first, there)]
    calls = {p.call for n in shown if n >= 0 and (p := pieces[n]).type == "action"}
    answered = {p.call for n in shown if n >= 0 and (p := pieces[n]).type == "observation"}
    shown = [n for n in shown if n < 0 or pieces[n].type not in ("action", "observation") or pieces[n].call in calls & answered]
    events = [_build_event(pieces[n]) if n >= 0 else {"id": "summary", "type": "summary"} for n in shown]
    if not over and len(shown) <= params.max_size:  # a call without a result is no event
        return 0, 0
    settings = sdk.Settings(params.max_size, None, params.keep_first, params.minimum_progress)
    sums = [0]
    for n in shown:
        sums.append(sums[-1] + (ctx.count_tokens(pieces[n].start, pieces[n].stop) if n >= 0 else params.cap))

    def count(part: Sequence[sdk.Event]) -> int:  # of the first events, however many
        return sums[min(len(part), len(sums) - 1)]

    try:
        limit = ctx.limit if over else None
        start, stop = sdk.find_span_to_forget(sdk.View(tuple(events)), settings, limit, count, max(sums[-1], ctx.limit + 1))
    except (sdk.NoCondensation, KeyError):  # a log may hold a result before its call: then no pair is broken up
        return 0, 0
    begin = next((n for n in shown[start:stop] if n >= 0), there)
    return (params.keep_first if gone and -1 in shown[start:stop] else begin), shown[stop] if stop < len(shown) else there


def _build_event(piece: Piece) -> sdk.Event:
    return {"id": piece.start, "type": piece.type, "call": piece.call, "batch": piece.batch, "thinking": piece.thinking}


@memoize
def _read_pieces(session: Session, _index: Index) -> tuple[tuple[Piece, ...], tuple[int, ...]]:
    found = read_pieces(session)
    return found, tuple(piece.start for piece in found)


RULE = Rule(
    "condense_middle_events",
    "Once there are too many events, replace those between the first few and the newest by a summary, or drop them.",
    edits,
    Params,
    source="OpenHands: PyPI openhands-sdk 1.58.0, llm_summarizing_condenser.py; openhands-ai 0.62.0, memory/condenser",
    state=int,
)
