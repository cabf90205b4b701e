"""What a provider leaves out of what it is sent, before the model sees it. Part of every plan, under every policy.

Yields edits as rules do; the runner applies them to `Plan.seen` alone, so what is sent stays what it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from engine.envelope.envelope import Envelope
from engine.envelope.plan import Plan
from engine.envelope.rule import Ctx
from engine.session.index import before, runs
from engine.session.model import Edit


def compaction_replaces_what_precedes(_seen: Envelope, ctx: Ctx, carried: Plan | None) -> Iterator[Edit]:
    """Anthropic's server ignores every message before the newest `compaction` block (Messages API, compact_20260112)."""
    newest = before(ctx.index.compactions, ctx.request.cut - 1) or 0
    if carried and newest < carried.request.cut:
        return
    for span in ctx.index.talk(0, newest):
        yield Edit("condense", "the server goes on from its own summary and ignores what stands before it", span)


def provider_strips_old_thinking(seen: Envelope, ctx: Ctx, carried: Plan | None) -> Iterator[Edit]:
    """Claude models before Opus 4.5 drop the thinking of past turns from the prompt (`Prices.facts`)."""
    if ctx.prices.facts(ctx.request.model).keeps_thinking or (carried and carried.request.turn == ctx.request.turn):
        return
    turns, thinking, cut = ctx.index.turns, ctx.index.thinking, ctx.request.cut
    start = (before(turns, carried.request.cut - 1) if carried else 0) or 0
    stop = before(turns, cut - 1) or 0
    old = thinking[bisect_left(thinking, start) : bisect_left(thinking, stop)]
    for span in runs(at for at in old if seen.at(at).body is None):
        yield Edit("strip", "the model's server drops thinking of past turns", span)
