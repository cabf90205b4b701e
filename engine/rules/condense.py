"""Replace the oldest messages by a summary once the budget fills up, or once the conversation has many pairs."""

from dataclasses import dataclass
from typing import Annotated

from engine.envelope.condensing import How, Shape, boundary, condense, fill, led, turn_start
from engine.envelope.envelope import Envelope
from engine.envelope.rule import Ctx, Edits, Rule
from engine.session.index import upto
from engine.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """When to condense, how much, and into what."""

    share: Annotated[float, "condense at this share of the budget (0 = never because of size)"] = 0.7
    pairs: Annotated[int, "condense when more than this many pairs of messages stand (0 = never because of it)"] = 0
    fraction: Annotated[float, "share of the messages that is condensed, the oldest first"] = 0.6
    keep_messages: Annotated[int, "keep this many of the newest messages instead (0 = by fraction)"] = 0
    keep_turns: Annotated[int, "keep this many of the newest turns instead (0 = by fraction)"] = 0
    pin_first: Annotated[bool, "keep the first message: it usually states the task"] = False
    recursive: Annotated[bool, "summarise the old summary and what is new; else all older messages again"] = True
    shape: Annotated[Shape, "user | pair | system: what the summary stands as"] = "user"
    cap: Annotated[int, "tokens that the summary may have"] = 1_000
    prompt: Annotated[str, "name of the prompt: a text file in engine/envelope/prompts"] = "summarise"
    model: Annotated[str, "model that is asked for the summary (empty = the driver's choice)"] = ""
    clip: Annotated[int, "characters of a tool result that the summariser reads (0 = all)"] = 2_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    starts, cut = ctx.index.messages, ctx.request.cut
    level = fill(envelope, ctx)
    if len(starts) <= params.pin_first or starts[params.pin_first] >= cut or (level < params.share and not params.pairs):
        return
    begin, old, fresh = led(envelope, ctx, params.pin_first)
    new = upto(starts, cut) - upto(starts, fresh)
    because = _because(level, new, params)
    if not because:
        return
    facts = {"fill": round(level, 4), "share": params.share, "standing": new, "limit": ctx.limit, "recursive": bool(old)}
    user = params.shape != "user" and not (params.shape == "system" and params.pin_first)
    stop = boundary(envelope, ctx, _want(ctx, fresh, new, params), fresh, user) if new > 1 else None
    if stop is None or ctx.tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but what could be condensed is no larger than a summary", facts=facts)
        return
    how = How(params.prompt, params.model, params.cap, params.shape, params.clip, params.recursive)
    yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)


def _because(level: float, new: int, params: Params) -> str:
    if params.share and level >= params.share:
        return f"the request fills {level:.0%} of the budget, {params.share:.0%} is the mark"
    if params.pairs and new // 2 > params.pairs:
        return f"{new // 2:,} pairs of messages stand, more than {params.pairs:,}"
    return ""


def _want(ctx: Ctx, fresh: int, new: int, params: Params) -> int:
    """The address up to which to condense, before it is moved to a place where nothing is torn."""
    starts = ctx.index.messages
    stop = upto(starts, ctx.request.cut)
    if params.keep_turns:
        return max(fresh, turn_start(ctx, params.keep_turns))
    gone = new - params.keep_messages if params.keep_messages else int(new * params.fraction + 1e-9)
    return starts[max(0, min(stop - new + gone, stop - 1))]


RULE = Rule(
    "condense",
    "Replace the oldest messages by a summary once the budget fills up.",
    edits,
    Params,
    source="70 % and the oldest 60 % from a plan for a code review chat; more than 20 pairs from a chat specification; "
    "summary and new messages into the next summary: Wang et al., arXiv:2308.15022",
)
