"""Replace the oldest messages by a summary once the budget fills up, or once the conversation has many pairs."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from turnscope.envelope.condensing import (
    Shape,
    SummaryOptions,
    compute_fill,
    condense,
    find_boundary,
    find_leading_summary,
    find_turn_start,
)
from turnscope.envelope.conversation import count_static_tokens, find_fitting_start, find_newest_message
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """When to condense, how much, and into what."""

    share: Annotated[float, "condense at this share of the budget (0 = not by share)"] = 0.7
    of: Annotated[
        Literal["request", "history"],
        "what the share refers to: request = the whole budget; history = the budget without system, tools and newest message",
    ] = "request"
    above: Annotated[int, "condense when the messages have more tokens, instead of by share (0 = by share)"] = 0
    min_pairs: Annotated[int, "condense when fewer of the newest pairs fit (0 = not by fit)"] = 0
    pairs: Annotated[int, "condense when the request has more pairs of messages (0 = not by pairs)"] = 0
    fraction: Annotated[float, "share of the messages to condense, the oldest first"] = 0.6
    keep_messages: Annotated[int, "number of newest messages to keep, instead of by fraction (0 = by fraction)"] = 0
    keep_turns: Annotated[int, "number of newest turns to keep, instead of by fraction (0 = by fraction)"] = 0
    pin_first: Annotated[bool, "keep the first message, which usually states the task"] = False
    recursive: Annotated[bool, "summarise the old summary and new messages; else all older messages again"] = True
    shape: Annotated[Shape, "form of the summary: user | pair | system"] = "user"
    frame: Annotated[str, "text around the summary, with {summary} in it (empty = our words)"] = ""
    reply: Annotated[str, "pair: the answer behind the summary (empty = our words)"] = ""
    cap: Annotated[int, "maximum tokens of the summary"] = 1_000
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "summarise"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""
    clip: Annotated[int, "maximum characters of a tool result that the summariser reads (0 = all)"] = 2_000
    tool_text: Annotated[str, "what it reads in place of a message with calls or results (empty = these)"] = ""


class Load(NamedTuple):
    """The state before condensing: share of the budget, tokens of messages, new messages, and pairs that fit."""

    level: float
    tokens: int
    new: int
    fits: int


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    starts, cut = ctx.index.messages, ctx.request.cut
    bare = not (params.pairs or params.above or params.min_pairs)
    level = _compute_level(envelope, ctx, params)
    if len(starts) <= params.pin_first or starts[params.pin_first] >= cut or (level < params.share and bare):
        return
    begin, old, fresh = find_leading_summary(envelope, ctx, params.pin_first)
    new = count_before(starts, cut) - count_before(starts, fresh)
    tokens = ctx.count_envelope(envelope) - count_static_tokens(envelope, ctx) if params.above else 0
    load = Load(level, tokens, new, _count_fitting_pairs(envelope, ctx, fresh) if params.min_pairs else 0)
    because = _explain(load, ctx, fresh, params)
    if not because:
        return
    facts = {"fill": round(level, 4), "share": params.share, "standing": new, "limit": ctx.limit, "recursive": bool(old)}
    user = params.shape != "user" and not (params.shape == "system" and params.pin_first)
    stop = find_boundary(envelope, ctx, _find_target(ctx, fresh, load, params), fresh, user) if new > 1 else None
    if stop is None or ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but the condensable part is no larger than a summary", facts=facts)
        return
    how = SummaryOptions(
        params.prompt,
        params.model,
        cap=params.cap,
        shape=params.shape,
        clip=params.clip,
        tool_text=params.tool_text,
        recursive=params.recursive,
        frame=params.frame,
        reply=params.reply,
        allow_larger=False,
    )
    yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)


def _compute_level(envelope: Envelope, ctx: Ctx, params: Params) -> float:
    """Share of the budget in use: by the whole request, or by the history of what is left for it."""
    if params.of == "request":
        return compute_fill(envelope, ctx)
    fixed = count_static_tokens(envelope, ctx) + (
        ctx.count_tokens(find_newest_message(ctx), ctx.request.cut) if ctx.index.messages else 0
    )
    return (ctx.count_envelope(envelope) - fixed) / max(1, ctx.limit - fixed)  # facts are JSON: no infinity


def _count_fitting_pairs(envelope: Envelope, ctx: Ctx, fresh: int) -> int:
    """How many whole pairs before the newest prompt fit the budget, of those behind the summary."""
    turns, cut = ctx.index.turns, ctx.request.cut
    first = max(fresh, find_fitting_start(envelope, ctx, ctx.limit - count_static_tokens(envelope, ctx)))
    return max(0, count_before(turns, cut) - 1 - count_before(turns, first))


def _explain(load: Load, ctx: Ctx, fresh: int, params: Params) -> str:
    level, new = load.level, load.new
    if params.share and (level > params.share if params.of == "history" else level >= params.share):
        of = "what the budget leaves for the history" if params.of == "history" else "the budget"
        return f"the {params.of} fills {level:.0%} of {of}, the threshold is {params.share:.0%}"
    if params.above and load.tokens > params.above:
        return f"the messages have {load.tokens:,} tokens, more than {params.above:,}"
    if params.pairs and new // 2 > params.pairs:
        return f"the request has {new // 2:,} pairs of messages, more than {params.pairs:,}"
    there = count_before(ctx.index.turns, ctx.request.cut) - 1 - count_before(ctx.index.turns, fresh)
    if load.fits < min(params.min_pairs, there):
        return f"{load.fits:,} of {there:,} pairs fit the budget, fewer than {params.min_pairs:,}"
    return ""


def _find_target(ctx: Ctx, fresh: int, load: Load, params: Params) -> int:
    """The address up to which to condense, before it is moved to a valid boundary."""
    starts, new = ctx.index.messages, load.new
    stop = count_before(starts, ctx.request.cut)
    if params.keep_turns:
        kept = min(params.keep_turns, load.fits + 1) if params.min_pairs else params.keep_turns
        return max(fresh, find_turn_start(ctx, kept))
    most = new - 1 if params.of == "history" else new  # the newest message is not history
    gone = new - params.keep_messages if params.keep_messages else int(most * params.fraction + 1e-9)
    return starts[max(0, min(stop - new + gone, stop - 1))]


RULE = Rule(
    "condense",
    "Replace the oldest messages by a summary once the budget fills up.",
    edits,
    Params,
    source="70 % and the oldest 60 % from a plan for a code review chat; more than 20 pairs from a chat specification; "
    "summary and new messages into the next summary: Wang et al., arXiv:2308.15022",
)
