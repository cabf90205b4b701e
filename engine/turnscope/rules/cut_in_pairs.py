"""Cut half or three quarters of the conversation in pairs, behind the task at its front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from turnscope.envelope.condensing import SummaryOptions, condense, find_summary
from turnscope.envelope.conversation import find_droppable, find_head_end, find_start
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """When to cut, and how much."""

    keep_first: Annotated[int, "number of messages at the front to keep: the task and its first answer"] = 2
    part: Annotated[
        Literal["auto", "half", "three_quarters", "smaller"],
        "how much to cut; auto: three quarters if half is not enough; smaller: three quarters if the window became smaller",
    ] = "auto"
    trigger: Annotated[
        Literal["size", "model", "either"], "size: the previous request reached the limit; model: the model changed"
    ] = "size"
    min_saved: Annotated[float, "do not cut for size if earlier rules saved this part of the request (0 = always cut)"] = 0.3
    summarise: Annotated[bool, "auto-condense: replace what is cut by a summary, if one can be made"] = False
    cap: Annotated[int, "maximum tokens of the summary"] = 2_000
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "hand-over"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    cause = _find_cause(ctx, params)
    if not cause:
        return
    because, most = cause
    saved = _compute_saved_share(envelope, ctx)
    facts = {"reported": ctx.previous_usage, "limit": ctx.budget.limit, "saved": round(saved, 4)}
    if params.min_saved and saved >= params.min_saved and params.trigger != "model":
        yield Edit("keep", f"no cut: earlier rules saved {saved:.0%} of this request", facts=facts)
        return
    there = count_before(ctx.index.messages, ctx.request.cut)
    front = find_head_end(ctx, params.keep_first)
    kept, gone = count_before(ctx.index.messages, front), count_before(ctx.index.messages, _find_end(envelope, ctx, front))
    remove = (there - gone) * 3 // 8 * 2 if most else (there - gone) // 4 * 2
    start = find_start(ctx, ctx.index.messages[gone + remove], answer=params.keep_first % 2 == 1) if remove > 0 else front
    spans = tuple(find_droppable(ctx, envelope, front, start))
    part = "three quarters" if most else "half"
    last = count_before(ctx.index.messages, start)
    facts |= {"messages": there, "cut": last - gone} if spans else {}
    if not spans:
        yield Edit("keep", f"{because}, but {there - gone} messages contain no pair to cut", facts=facts)
        return
    why = f"{because}, so {part} of {there - gone} messages is cut in pairs: messages {kept + 1} to {last}"
    if params.summarise:
        how = SummaryOptions(params.prompt, params.model, params.cap, "user" if kept % 2 else "pair", allow_larger=False)
        if (yield from condense(envelope, ctx, Span(front, spans[-1].stop), how, why, facts)) is not envelope:
            return
    for span in spans:
        yield Edit("drop", f"{why} are dropped", span, facts=facts)


def _find_cause(ctx: Ctx, params: Params) -> tuple[str, bool] | None:
    """Why this request is cut, and whether by three quarters."""
    limit, previous = ctx.budget.limit, ctx.previous
    if previous is None:
        return None
    less, larger = (ctx.budget.window < previous.budget.window), (ctx.budget.window > previous.budget.window)
    if params.trigger != "model" and ctx.previous_usage >= limit:
        most = {"auto": ctx.previous_usage / 2 > limit, "smaller": less}.get(params.part, params.part == "three_quarters")
        return f"the previous request had {ctx.previous_usage:,} tokens, the limit is {limit:,}", most
    if params.trigger != "size" and (less or larger):
        most = less if params.part in ("auto", "smaller") else params.part == "three_quarters"
        return f"the new model's window is {'smaller' if less else 'larger'}: {ctx.budget.window:,} tokens", most
    return None


def _compute_saved_share(envelope: Envelope, ctx: Ctx) -> float:
    """The part of the request that earlier rules saved in this request."""
    if ctx.previous is None:
        return 0.0
    same = ctx.previous.model == ctx.request.model and ctx.budget.limit <= ctx.previous.budget.limit
    began = (ctx.previous.kept if same else ctx.previous.base).grow(ctx.request.cut, ctx.ledger)
    return 1 - envelope.tokens / began.tokens if began.tokens else 0.0


def _find_end(envelope: Envelope, ctx: Ctx, at: int) -> int:
    """Where the range that was cut behind address `at` ends. System and tool blocks inside it stay."""
    static = set(ctx.index.static)
    while at < ctx.request.cut and (at in static or envelope.find_piece(at).body == () or find_summary(envelope, at)):
        at = at + 1 if at in static else envelope.find_piece(at).stop
    return at


RULE = Rule(
    "cut_in_pairs",
    "Cut half (or three quarters) of the messages in pairs, and keep the task at the front. The range grows with each cut.",
    edits,
    Params,
    "remembers",
    "Cline getNextTruncationRange and its trigger (ContextManager.ts, v3.89.2): range [2, end] over messages",
)
