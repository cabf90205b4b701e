"""Overflow handling, step 1: condense a request that does not fit. Opt-in, and never twice in quick succession."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.condensing import (
    Shape,
    SummaryOptions,
    compute_fill,
    condense,
    find_boundary,
    find_leading_summary,
    find_summary,
    find_turn_start,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span

SLOT = "compacted"  # marks the summary of a compaction until another replaces it


@dataclass(frozen=True, slots=True)
class Params:
    """Whether, when and how often to compact."""

    allow: Annotated[bool, "allow compaction, which is a billed call of a model"] = False
    share: Annotated[float, "compact above this share of the budget"] = 1.0
    min_requests: Annotated[int, "minimum number of requests between two compactions"] = 10
    min_tokens: Annotated[int, "minimum of new tokens between two compactions"] = 10_000
    keep_turns: Annotated[int, "number of newest turns to keep"] = 2
    pin_first: Annotated[bool, "keep the first message, which usually states the task"] = False
    shape: Annotated[Shape, "form of the summary: user | pair | system"] = "user"
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "hand-over"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


class Compaction(Struct, frozen=True, gc=False):
    """The last compaction: the number of its request, and the address that the session reached then."""

    request: int
    cut: int


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    level, starts, last = compute_fill(envelope, ctx), ctx.index.messages, ctx.state
    if level <= params.share or len(starts) <= params.pin_first or starts[params.pin_first] >= ctx.request.cut:
        return last
    because = f"the request fills {level:.0%} of the budget, more than {params.share:.0%}"
    facts = {"fill": round(level, 4), "limit": ctx.limit, "size": ctx.count_envelope(envelope)}
    begin, old, fresh = find_leading_summary(envelope, ctx, params.pin_first)
    reason = _explain_hold(last if old and old.slot == SLOT else None, ctx, params)
    user = params.shape != "user" and not (params.shape == "system" and params.pin_first)
    want = find_turn_start(ctx, params.keep_turns)
    inside = want <= fresh  # the newest turns are larger than the budget: cut inside them
    if inside:
        want = starts[(count_before(starts, fresh) + count_before(starts, ctx.request.cut)) // 2]
    stop = find_boundary(envelope, ctx, want, fresh, user, later=inside) or find_boundary(envelope, ctx, want, fresh, user)
    if reason:
        yield Edit("keep", f"{because}, but {reason}", facts={**facts, "suppressed": reason})
    elif stop is None or ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but the condensable part is no larger than a summary", facts=facts)
    else:
        how = SummaryOptions(params.prompt, params.model, params.cap, params.shape, slot=SLOT, allow_larger=False)
        envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
        if find_summary(envelope, begin) != old:
            return Compaction(ctx.request.n, ctx.request.cut)
    return last


def _explain_hold(last: Compaction | None, ctx: Ctx, params: Params) -> str:
    """Why not to compact now; "" = nothing speaks against it. `last`: the compaction whose summary is still in the request."""
    if not params.allow:
        return "compacting is not allowed"
    if last:
        requests, tokens = ctx.request.n - last.request, ctx.count_tokens(last.cut, ctx.request.cut)
        if requests < params.min_requests:
            return f"only {requests:,} of {params.min_requests:,} requests have passed since the last compaction"
        if tokens < params.min_tokens:
            return f"only {tokens:,} of {params.min_tokens:,} tokens have come since the last compaction"
    return ""


RULE = Rule(
    "compact_when_over",
    "Condense a request that does not fit, if that is allowed and not too soon after the last time.",
    edits,
    Params,
    source="a design pattern for session context management: compaction, then a larger window, then refusal",
    state=Compaction,
)
