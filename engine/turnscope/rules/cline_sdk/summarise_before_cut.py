"""Cline SDK's agentic compaction: at the trigger a summary replaces all but the newest messages."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.condensing import SummaryOptions, condense, find_leading_summary, get_summary
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.recorded_compactions import find_compactions, follow_recorded
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.cline_sdk import history
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.files import find_touched_files
from turnscope.ports.cline_sdk.history import History
from turnscope.session.model import Edit, Span


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    preserve_recent_tokens: Annotated[int, "tokens of the newest messages that stay"] = port.PRESERVE_RECENT
    cap: Annotated[int, "maximum tokens of the summary"] = port.SUMMARY_OUTPUT
    tools: Annotated[int, "estimated tokens of the definitions of tools, where the log holds none"] = history.TOOLS


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. Results count as they are sent before the first compaction, and whole after it."""
    found = history.read_history(ctx)
    there = history.count_rows(found, ctx.request.cut)
    if not there:
        return
    begin, old, fresh = find_leading_summary(envelope, ctx)
    first = history.count_rows(found, fresh)
    sizes, overhead = found.whole if old else found.sent, history.count_overhead(found, ctx, params.tools)
    total = overhead + _count_summary(found, old, first) + sizes[there] - sizes[first]
    trigger = history.compute_trigger(ctx, total)
    if total < trigger:
        return
    because = f"the request is estimated at {total:,} tokens, the trigger is {trigger:,.0f}"
    pairs = bisect_left(found.prompts, there) - bisect_left(found.prompts, first)
    share = port.LARGE_TARGET_SHARE / port.TRIGGER_SHARE if pairs >= port.LARGE_PAIRS else port.TARGET_SHARE
    most = max(1, min(params.preserve_recent_tokens, int(trigger * share) - overhead))
    at = _find_cut(found, first, there, most)
    facts = {"tokens": total, "trigger": round(trigger), "preserve": most}
    span = Span(begin, found.rows[at].start)
    if at <= first or ctx.count_tokens(found.rows[first].start, span.stop) <= params.cap:
        yield Edit("keep", f"{because}, but a summary would be no smaller than what it replaces", facts=facts)
        return
    same = [edit for edit in find_compactions(ctx) if edit.span == span]
    if not (yield from follow_recorded(same, because, facts)):
        how = SummaryOptions("summarise", cap=params.cap)
        yield from condense(envelope, ctx, span, how, because, facts)


def _count_summary(found: History, old: Piece | None, first: int) -> int:
    """Return the estimated tokens of a summary as it is stored: its text twice, and the files of what it replaced."""
    text = get_summary(old) if old else ""
    if not text:
        return 0
    if (first, text) not in found.summaries:  # every request until the next compaction asks again
        about = {"summary": text, "details": find_touched_files(found.messages[:first]), "tokensBefore": 100_000}
        message = {"id": "", "role": "user", "content": [{"type": "text", "text": text}], "metadata": about}
        found.summaries[first, text] = port.count_tokens(message)
    return found.summaries[first, text]


def _find_cut(found: History, first: int, there: int, most: int) -> int:
    """Return the number of the first message that stays: an answer or a prompt, and none behind the newest prompt."""
    sums = found.whole
    at = min(bisect_left(sums, sums[there] - most + 1, hi=there + 1) - 1, there - 1)
    newest = bisect_left(found.prompts, there) - 1
    if newest >= 0 and found.prompts[newest] > first:
        at = min(at, found.prompts[newest])
    place = bisect_left(found.begins, at + 1) - 1
    return found.begins[place] if place >= 0 else 0


RULE = Rule(
    "summarise_before_cut",
    "Once the request is estimated at the trigger, replace all but the newest messages by a summary.",
    edits,
    Params,
    source="cline/cline 21cb8d2525, sdk/packages/core/src/extensions/context/{compaction,agentic-compaction}.ts",
)
