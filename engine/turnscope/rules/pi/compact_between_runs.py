"""pi's compaction: after a run that filled the window, a summary replaces all but the newest messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from turnscope.envelope import recorded_compactions
from turnscope.envelope.condensing import SummaryOptions, condense, find_boundary, find_leading_summary
from turnscope.envelope.conversation import sum_characters
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span

CHARS = 4  # characters of a token, by its estimate


@dataclass(frozen=True, slots=True)
class Params:
    """The settings of the original."""

    reserve: Annotated[int, "reserveTokens: tokens of the window that a run may not reach into"] = 16_384
    recent: Annotated[int, "keepRecentTokens: tokens of the newest messages that stay, characters / 4"] = 20_000
    cap: Annotated[int, "maximum tokens of the summary"] = 4_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Within a run nothing is cut, however long it grows.

    State: the request that compacted last. If the log holds what this very compaction left, it is used.
    """
    last: int = -1 if ctx.state is None else ctx.state
    if ctx.previous is None or ctx.previous.request.turn == ctx.request.turn:
        return last
    used = recorded_compactions.count_previous_usage(ctx, last, 0)
    seen = recorded_compactions.find_compactions(ctx)
    mark = max(0, min(ctx.budget.limit, ctx.budget.window - params.reserve))
    requested = any(edit.facts.get("preTokens", mark + 1) <= mark for edit in seen)
    if used <= mark and not requested:
        return last
    facts: dict[str, Any] = {"tokens": used, "mark": mark}
    because = f"the last run ended at {used:,} tokens, beyond {mark:,}"
    if requested:
        because = f"requested by the user: the log shows it at {used:,} tokens, within {mark:,}"
    if (yield from recorded_compactions.follow_recorded(seen, because, facts)):
        return ctx.request.n
    begin, _, fresh = find_leading_summary(envelope, ctx)
    stop = find_boundary(envelope, ctx, _find_recent(ctx, params.recent), fresh)
    if stop is None or ctx.count_tokens(fresh, stop) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return last
    before = envelope
    how = SummaryOptions("hand-over", cap=params.cap)
    envelope = yield from condense(envelope, ctx, Span(begin, stop), how, because, facts)
    return last if envelope is before else ctx.request.n


def _find_recent(ctx: Ctx, recent: int) -> int:
    """Return where the newest messages begin that have at least so many tokens together."""
    sums, starts, ended = sum_characters(ctx), ctx.index.messages, ctx.previous.request.stop if ctx.previous else 0
    number = count_before(starts, ended) - 1
    while number > 0 and sums[ended] - sums[starts[number]] < CHARS * recent:
        number -= 1
    return starts[max(0, number)]


RULE = Rule(
    "compact_between_runs",
    "After a run that ended beyond the window less a reserve, replace all but the newest messages by a summary.",
    edits,
    Params,
    source="requests that pi 0.73.1 sent to a recording server, and the transcripts that it wrote",
    state=int,
)
