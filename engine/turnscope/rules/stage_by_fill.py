"""Cut in three stages as the budget fills: drop old messages, then condense them, then warn and offer a new session."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope.condensing import (
    SummaryOptions,
    compute_fill,
    condense,
    find_boundary,
    find_next_present,
    find_summary,
    find_turn_start,
    get_summary,
)
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The three thresholds, as shares of the budget, and what each stage keeps."""

    truncate_at: Annotated[float, "share of the budget from which only the newest messages are kept"] = 0.6
    keep: Annotated[float, "share of the messages since the last summary to keep then"] = 0.7
    condense_at: Annotated[float, "share of the budget from which older turns become a summary"] = 0.8
    keep_turns: Annotated[int, "number of newest turns to keep then"] = 5
    warn_at: Annotated[
        float, "share of the budget from which it warns and offers a new session that starts with the summary"
    ] = 0.9
    cap: Annotated[int, "maximum tokens of the summary"] = 1_000
    prompt: Annotated[str, "name of the prompt: a text file in engine/turnscope/envelope/prompts"] = "hand-over"
    model: Annotated[str, "model that writes the summary (empty = the caller's choice)"] = ""


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    starts = ctx.index.messages
    if compute_fill(envelope, ctx) < params.truncate_at or not starts or starts[0] >= ctx.request.cut:
        return
    begin = starts[0]
    old = find_summary(envelope, begin)
    since = old.stop if old else begin
    envelope = yield from _leave_out(envelope, ctx, params, since)
    if compute_fill(envelope, ctx) >= params.condense_at:
        envelope = yield from _condense_older(envelope, ctx, params, begin, since)
    level = compute_fill(envelope, ctx)
    if level >= params.warn_at:
        offer = get_summary(envelope.find_piece(begin))
        facts = {"fill": round(level, 4), "limit": ctx.limit, "new_session_starts_with": offer}
        what = "a new session could start with the summary" if offer else "a new session would have room"
        yield Edit(
            "warn", f"the request fills {level:.0%} of the budget, the threshold is {params.warn_at:.0%}: {what}", facts=facts
        )


def _leave_out(envelope: Envelope, ctx: Ctx, params: Params, since: int) -> Generator[Edit, Any, Envelope]:
    """Drop what precedes the newest messages. All messages since the last summary are counted, so the stage does not repeat."""
    starts, level = ctx.index.messages, compute_fill(envelope, ctx)
    first, last = count_before(starts, since), count_before(starts, ctx.request.cut)
    wish = first + (last - first) * (1 - params.keep)
    want = starts[min(last - 1, int(wish + 1e-9))]
    around = [find_boundary(envelope, ctx, want, since, user=True, later=later) or since for later in (False, True)]
    near = min(around, key=lambda at: abs(count_before(starts, at) - wish))  # the prompt nearest to the share
    stop = near if near > since else find_boundary(envelope, ctx, want, since, later=False)
    because = f"the request fills {level:.0%} of the budget, the threshold is {params.truncate_at:.0%}"
    facts = {"fill": round(level, 4), "limit": ctx.limit, "messages": last - first}
    for span in ctx.index.find_conversation_spans(since, stop or since):
        piece = envelope.find_piece(span.start)
        if piece.body != () or piece.stop < span.stop:
            gone = count_before(starts, span.stop) - count_before(starts, span.start)
            why = f"{because}: the oldest {gone:,} of {last - first:,} messages are dropped"
            envelope = yield Edit("drop", why, span, (), facts={**facts, "dropped": gone, "tokens": ctx.count_tokens(*span)})
    return envelope


def _condense_older(envelope: Envelope, ctx: Ctx, params: Params, begin: int, since: int) -> Generator[Any, Any, Envelope]:
    """Condense everything before the newest turns, including what was dropped since the last summary."""
    level = compute_fill(envelope, ctx)
    because = f"the request still fills {level:.0%} of the budget, the threshold is {params.condense_at:.0%}"
    facts = {"fill": round(level, 4), "limit": ctx.limit, "keep_turns": params.keep_turns}
    want = max(find_turn_start(ctx, params.keep_turns), find_next_present(envelope, ctx, since))
    stop = find_boundary(envelope, ctx, want, since, later=False) if want > since else None
    if stop is None or ctx.count_tokens(since, stop) <= params.cap:
        reason = f"there is nothing to condense before the newest {params.keep_turns} turns"
        return (yield Edit("keep", f"{because}, but {reason}", facts=facts))  # type: ignore[no-any-return]
    how = SummaryOptions(params.prompt, params.model, params.cap, include_dropped=True, allow_larger=False)
    return (yield from condense(envelope, ctx, Span(begin, stop), how, because, facts))


RULE = Rule(
    "stage_by_fill",
    "Drop old messages at 60 % of the budget, condense at 80 %, warn at 90 %.",
    edits,
    Params,
    source="the staged plan for a code review chat in a survey of memory patterns: 60, 80 and 90 % of the budget",
)
