"""goose's compaction: when a prompt comes, a summary and a sentence to continue replace everything before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import (
    SummaryOptions,
    build_summary_ask,
    build_summary_parts,
    describe_answer,
    find_leading_summary,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Answer, Edit, Part, Span

# Our wording of what the assistant says after the summary: if the newest message is a prompt, and if it is not.
GO_ON = "The conversation was summed up above. I say nothing of that and go on from it."
GO_ON_WITH_TOOLS = "The conversation was summed up above. I say nothing of that and go on calling tools as the task needs them."


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the rule."""

    trigger: Annotated[
        Literal["default", "observed"], "observed: where the log shows that the tool itself compacted, at whatever size"
    ] = "default"
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request.

    Before the first request of a turn, the tokens of the last response are compared with the limit. State: the request that
    compacted.
    """
    last: int = -1 if ctx.state is None else ctx.state
    seen = recorded_compactions.find_compactions(ctx)
    new = ctx.previous is not None and ctx.previous.request.turn != ctx.request.turn
    if params.trigger == "observed":
        met, because, used = bool(seen), "the tool did so here", 0
    else:
        used = recorded_compactions.count_previous_usage(ctx, last, 0) if new else 0
        met, because = new and used > ctx.budget.limit, f"the last response had {used:,} tokens, more than {ctx.budget.limit:,}"
    starts = ctx.index.messages
    there = count_before(starts, ctx.request.cut)
    if not met or not there:
        return last
    begin, _, fresh = find_leading_summary(envelope, ctx)
    at, text = recorded_compactions.find_recorded_summary(ctx, seen)
    stop = at if at >= 0 else starts[there - 1] if _is_prompt(ctx, starts[there - 1]) else ctx.request.cut
    facts: dict[str, Any] = {"tokens": used, "limit": ctx.budget.limit}
    if fresh >= stop or (not seen and ctx.count_tokens(fresh, stop) <= params.cap):
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    answer = Answer(text, source="recorded")
    if not text:
        question = build_summary_ask(envelope, ctx, Span(begin, ctx.request.cut), SummaryOptions("summarise", cap=params.cap))
        answer = (yield question) if question else Answer(failed="it has no readable text")
    if answer.failed or not answer.text.strip():
        why = answer.failed or "the summary was empty"
        yield Edit("keep", f"{because}, but no summary was made: {why}", facts={**facts, "failed": why})
        return last
    messages = count_before(starts, stop) - count_before(starts, begin)
    body = build_summary_parts(answer, messages, SummaryOptions("summarise"))
    if at < 0:
        body += _build_tail(ctx, begin, stop)
    facts |= {**describe_answer(answer), "messages": messages}
    for number, span in enumerate(ctx.index.find_conversation_spans(begin, stop)):
        envelope = yield Edit("condense", because, span, () if number else body, facts=facts)
    return ctx.request.n


def _build_tail(ctx: Ctx, begin: int, stop: int) -> tuple[Part, ...]:
    """Return the assistant's sentence after the summary, and the newest prompt again if it does not follow anyway."""
    if stop < ctx.request.cut:
        return (Part("assistant", "text", GO_ON),)
    starts = ctx.index.messages
    at = next(
        (a for a in reversed(starts[count_before(starts, begin) : count_before(starts, stop)]) if _is_prompt(ctx, a)), None
    )
    blocks = ctx.session.blocks[at : ctx.session.messages[ctx.session.blocks[at].message].stop] if at is not None else ()
    again = "\n".join(block.text for block in blocks if block.kind == "text")
    parts = (Part("assistant", "text", GO_ON_WITH_TOOLS),)
    return (*parts, Part("user", "text", again)) if again else parts


def _is_prompt(ctx: Ctx, at: int) -> bool:
    """Return whether the message at an address is a prompt: text of the user, without calls and results."""
    message = ctx.session.messages[ctx.session.blocks[at].message]
    kinds = {block.kind for block in ctx.session.blocks[message.start : message.stop]}
    return message.role == "user" and "text" in kinds and "tool_result" not in kinds


RULE = Rule(
    "compact_all_but_prompt",
    "When a prompt follows a response over the limit, replace everything before it by a summary and a sentence to continue.",
    edits,
    Params,
    source="block/goose, crates/goose/src/context_mgmt/mod.rs (0036b819bd)",
    state=int,
)
