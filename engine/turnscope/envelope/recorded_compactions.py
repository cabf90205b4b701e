"""What a log records of its own tool's compactions, for the policies that reproduce that tool.

Nothing after the request at hand is read. Following the record itself is the rule `follow_the_record`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from turnscope.envelope.conversation import memoize
from turnscope.envelope.rule import Ctx, Edits
from turnscope.session.index import Index, find_at_or_before
from turnscope.session.model import CHAT, Edit, Request, Session, Span


def is_sent_here(session: Session, request: Request) -> bool:
    """Return whether a request was sent from a chat of Turnscope: its recorded edits are those of the chat, not of a tool.

    Args:
        session: The session.
        request: The request.
    """
    return session.source == CHAT and request.n >= int(session.about.get("live_from", 0))


def find_compactions(ctx: Ctx) -> list[Edit]:
    """Return the edits by which the tool condensed at this very request; [] where the log records none."""
    return find_recorded_edits(ctx, "condense")


def find_recorded_edits(ctx: Ctx, action: str) -> list[Edit]:
    """Return the edits of one action that the tool made at this very request; [] where the log records none.

    Args:
        ctx: What the rule may read.
        action: The action.
    """
    if is_sent_here(ctx.session, ctx.request):
        return []
    return [edit for edit in _iter_edits(ctx, ctx.request.n) if edit.action == action]


def is_requested(edits: list[Edit]) -> bool:
    """Return whether a person requested a compaction, as the log says.

    Args:
        edits: The edits that `find_compactions` gave.
    """
    return any(edit.facts.get("trigger") == "manual" for edit in edits)


def find_recorded_summary(ctx: Ctx, edits: list[Edit]) -> tuple[int, str]:
    """Return the block of the tool's own summary and its text; -1 and "" where the log contains none.

    Args:
        ctx: What the rule may read.
        edits: The edits that `find_compactions` gave.
    """
    at = next((edit.facts["summary"] for edit in edits if isinstance(edit.facts.get("summary"), int)), -1)
    if not 0 <= at < ctx.request.cut:
        return -1, ""
    message = ctx.session.messages[ctx.session.blocks[at].message]
    return at, "\n".join(block.text for block in ctx.session.blocks[message.start : message.stop])


def is_summary_request(ctx: Ctx) -> bool:
    """Return whether the tool sent this very request for the summary of a compaction: the log marks its answer as one.

    Args:
        ctx: What the rule may read.
    """
    blocks, at = ctx.session.blocks, ctx.request.cut
    answered = at < ctx.request.stop and not is_sent_here(ctx.session, ctx.request)
    return answered and blocks[at].role == "assistant" and ctx.session.messages[blocks[at].message].origin == "summary"


def follow_recorded(edits: list[Edit], because: str, facts: dict[str, Any]) -> Edits:
    """Yield what the tool itself left in place of a conversation, and return whether the log holds it.

    Args:
        edits: The edits that `find_compactions` gave.
        because: Why it is condensed.
        facts: The facts of each edit.
    """
    left = [edit for edit in edits if edit.span]
    if not any(edit.body for edit in left):
        return False
    for edit in left:
        yield Edit("condense", f"{because}: what the log says came in its place", edit.span, edit.body, facts=facts)
    return True


def iter_compacted_spans(ctx: Ctx, edits: list[Edit]) -> Iterator[Span]:
    """Yield the stretches of conversation that recorded edits removed.

    Args:
        ctx: What the rule may read.
        edits: The recorded edits.
    """
    for edit in edits:
        yield from ctx.index.find_conversation_spans(*edit.span) if edit.span else ()


def count_previous_usage(ctx: Ctx, last: int, answer: int) -> int:
    """Return tokens of the previous request, prompt and answer, as its tool saw them; 0 before the first request.

    If this policy compacted when the record did, it is the billed number, corrected by what this policy sent differently. Else
    it is an estimate, because another conversation was billed.

    Args:
        ctx: What the rule may read.
        last: Number of the request at which this policy compacted last; -1 = never.
        answer: Tokens of the previous answer as the tool estimates them. Used where the recorded count cannot be true.
    """
    previous = ctx.previous
    usage = previous.request.usage if previous else None
    if previous is None or usage is None:
        return ctx.previous_usage
    prompt = ctx.previous_usage - usage.output_tokens
    if is_in_step(ctx, last) and ctx.calibration.recorded == usage.prompt_tokens:
        prompt = usage.prompt_tokens + round(ctx.calibration.scale * (previous.seen.tokens - ctx.calibration.counted))
    return prompt + (max(answer, usage.output_tokens) if previous.request.output_stub else usage.output_tokens)


def is_in_step(ctx: Ctx, last: int) -> bool:
    """Return whether the tool condensed last, before this request, when this policy did.

    Args:
        ctx: What the rule may read.
        last: Number of the request at which this policy compacted last; -1 = never.
    """
    return (find_at_or_before(_find_compaction_requests(ctx), ctx.request.n - 1) or -1) == last


def _iter_edits(ctx: Ctx, request: int) -> Iterator[Edit]:
    observed = ctx.session.observed
    for place in range(bisect_left(observed, request, key=lambda seen: seen.request), len(observed)):
        if observed[place].request != request:
            return
        yield observed[place].edit


@memoize
def _find_compaction_requests(session: Session, _index: Index) -> tuple[int, ...]:
    """Numbers of the requests at which the tool condensed."""
    return tuple(sorted({seen.request for seen in session.observed if seen.edit.action == "condense"}))
