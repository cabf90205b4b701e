"""Last step of the overflow ladder: a request that does not fit is not sent, and says why."""

from dataclasses import dataclass
from typing import Annotated

from engine.envelope.envelope import Envelope
from engine.envelope.rule import Ctx, Edits, Rule
from engine.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """How sure to be."""

    share: Annotated[float, "refuse above this share of the budget"] = 1.0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    size = ctx.size(envelope)
    limit = int(ctx.limit * params.share) if ctx.limit > 0 else ctx.limit
    if size <= limit:
        return
    fixed = envelope.counts[0] + envelope.counts[1]
    if ctx.limit <= 0:
        why = f"what the log does not hold of the prompt fills the budget of {ctx.budget.limit:,} tokens alone"
    elif fixed > limit:
        why = f"system prompt and tools alone need {fixed:,} tokens, {limit:,} are left: cutting messages is no help"
    else:
        why = f"the request needs {size:,} tokens, {limit:,} are left for it"
    projected = ctx.calibration.predict(size) if ctx.own is ctx.ledger else size
    yield Edit(
        "refuse",
        why,
        facts={
            "conversation_id": ctx.session.id,
            "turn": ctx.request.turn,
            "request": ctx.request.n,
            "projected": projected,
            "window": ctx.budget.window,
            "usage_so_far": _used(ctx),
            "limit": limit,
            "static": fixed,
        },
    )


def _used(ctx: Ctx) -> int:
    """Tokens billed by the requests before this one, prompts and answers. Goes on from the last refusal's sum where it can."""
    since, total = 0, 0
    for decision in ctx.previous.decisions if ctx.previous else ():
        if decision.action == "refuse" and "usage_so_far" in decision.edit.facts:
            since, total = decision.request, decision.edit.facts["usage_so_far"]
    for request in ctx.session.requests[since : ctx.request.n]:
        if request.usage:
            total += request.usage.prompt_tokens + request.usage.output_tokens
    return total


RULE = Rule(
    "refuse_when_over",
    "Refuse a request that does not fit, instead of letting it be cut unseen.",
    edits,
    Params,
    memory="fresh",
    source="a design pattern for session context management: overflow responses are typed and explicit",
)
