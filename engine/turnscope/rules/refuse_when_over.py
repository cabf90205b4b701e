"""Overflow handling, step 3: refuse a request that does not fit, and say why."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.messages_api.edits import COMPACT
from turnscope.session.model import Edit


@dataclass(frozen=True, slots=True)
class Params:
    """When to refuse."""

    share: Annotated[float, "refuse above this share of the budget"] = 1.0


class BilledTotals(Struct, frozen=True, gc=False):
    """Billed tokens of the first `requests` requests, their prompts and answers."""

    requests: int = 0
    tokens: int = 0
    prompts: int = 0
    answers: int = 0
    cache_read: int = 0
    cache_written: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    size = ctx.count_envelope(envelope) - _count_summed(ctx)
    limit = int(ctx.limit * params.share) if ctx.limit > 0 else ctx.limit
    if size <= limit:
        return ctx.state
    used = _sum_billed(ctx)
    fixed = envelope.counts[0] + envelope.counts[1]
    if ctx.limit <= 0:
        why = f"the part of the prompt that the log does not contain already fills the budget of {ctx.budget.limit:,} tokens"
    elif fixed > limit:
        why = f"system prompt and tools alone need {fixed:,} tokens, {limit:,} are available: cutting messages does not help"
    else:
        why = f"the request needs {size:,} tokens, {limit:,} are available"
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
            "usage_so_far": used.tokens,
            "gen_ai.usage.input_tokens": used.prompts,
            "gen_ai.usage.output_tokens": used.answers,
            "gen_ai.usage.cache_read.input_tokens": used.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": used.cache_written,
            "limit": limit,
            "static": fixed,
        },
    )
    return used


def _count_summed(ctx: Ctx) -> int:
    """Tokens that are sent but no longer read by the server, because it continues from its own summary."""
    before = ctx.previous
    if before is None or not any(known.rule == COMPACT and known.state for known in before.states):
        return 0
    return max(0, ctx.count_envelope(before.after) - ctx.count_envelope(before.seen))


def _sum_billed(ctx: Ctx) -> BilledTotals:
    """What was billed before this request. Continues from the sum at the last refusal."""
    known: BilledTotals = ctx.state or BilledTotals()
    billed = [request.usage for request in ctx.session.requests[known.requests : ctx.request.n] if request.usage]
    prompts = known.prompts + sum(usage.prompt_tokens for usage in billed)
    answers = known.answers + sum(usage.output_tokens for usage in billed)
    return BilledTotals(
        requests=ctx.request.n,
        tokens=prompts + answers,
        prompts=prompts,
        answers=answers,
        cache_read=known.cache_read + sum(usage.cache_read_input_tokens for usage in billed),
        cache_written=known.cache_written + sum(usage.cache_creation_input_tokens for usage in billed),
    )


RULE = Rule(
    "refuse_when_over",
    "Refuse a request that does not fit, instead of having it cut silently.",
    edits,
    Params,
    memory="fresh",
    source="a design pattern for session context management: overflow responses are typed and explicit",
    state=BilledTotals,
)
