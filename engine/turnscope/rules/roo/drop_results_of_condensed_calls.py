"""Drop the results of calls that a summary replaced: a provider accepts no result without its call."""

from __future__ import annotations

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.roo import management
from turnscope.ports.roo.history import build_entry, get_fresh_start
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span

SUMMARY = {"role": "user", "content": "", "isSummary": True}


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request. State: the address up to which the newest summary replaces everything."""
    newest: int | None = ctx.state
    since = max(newest, ctx.previous.request.cut) if newest is not None and ctx.previous else ctx.request.cut
    blocks, results = ctx.session.blocks, ctx.index.results
    for at in results[count_before(results, since) : count_before(results, ctx.request.cut)]:
        if newest is None or envelope.find_piece(at).body is not None or blocks[at].role != "user":
            continue
        call, start = blocks[at].pair, ctx.session.messages[blocks[at].message].start
        known = [build_entry(ctx, ctx.session.messages[blocks[call].message].start)] if call >= newest else []
        holder = build_entry(ctx, start)
        sent = management.select_effective([SUMMARY, *known, holder])
        left = sent[-1]["content"] if sent[-1].get("at") == holder["at"] else []
        if not any(raw is blocks[at].raw for raw in left):
            before = 0 <= call < newest
            why = "the call of this result is before the summary" if before else "this result answers no call after the summary"
            envelope = yield Edit("repair", why, Span(at, at + 1), (), facts={"call": call} if before else {})
    return ctx.request.cut if get_fresh_start(envelope, ctx) else newest


RULE = Rule(
    "drop_results_of_condensed_calls",
    "Drop results whose call a summary replaced.",
    edits,
    NoParams,
    "remembers",
    "Roo Code 3.52.1 (cb83656718), getEffectiveApiHistory (condense/index.ts)",
    state=int,
)
