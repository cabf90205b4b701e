"""What the recorded tool summed up by its own policy, under any policy that does not follow the record.

Where a tool's summary is a message of its own in the log, it is among the session's blocks. Only what the tool did brought it
there: a policy that keeps the blocks it stands for, or condenses them by itself, would send the same thing twice. Yields edits
as rules do; the runner applies them, before the policy's own and where one of those put such a summary back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import takewhile
from operator import itemgetter

from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.planning.policy import Policy
from turnscope.ports.messages_api.edits import COMPACT
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span

LEFT_OUT = "leave_out_summary"  # the name under which these decisions stand, as a rule's would
FOLLOWS = "follow_the_record"


@memoize
def _find_summaries(session: Session, _index: Index) -> tuple[tuple[int, Span], ...]:
    """The request that each summary of the tool's came with, and its message; rising."""
    found = {at: seen.request for seen in session.observed if (at := get_summary_block(seen.edit)) >= 0}
    messages = ((n, session.messages[session.blocks[at].message]) for at, n in found.items() if at < len(session.blocks))
    return tuple(sorted((n, Span(message.start, message.stop)) for n, message in messages))


def drop_foreign_summaries(envelope: Envelope, ctx: Ctx, policy: Policy, *, again: bool = False) -> Iterator[Edit]:
    """Drops each summary of the tool's at the request that it came with; nothing for a policy that follows the record.

    `again`: those that stand in the request although they were left out before.
    """
    if not ctx.session.observed or any(part.rule.name == FOLLOWS for part in policy.rules):
        return
    known, before = _find_summaries(ctx), ctx.previous
    since = bisect_left(known, before.request.n + 1 if before else 0, key=itemgetter(0))
    same = _find_common_stop(before.after, envelope) if again and before else 0
    elsewhere = Span(0, 0)  # where no block stands as itself
    for n, span in known[0 if again else since :]:
        if n > ctx.request.n:
            return
        if elsewhere.start <= span.start < elsewhere.stop or (span.start < same and before and n <= before.request.n):
            continue
        piece = envelope.at(span.start)
        if piece.body is not None:
            elsewhere = Span(piece.start, piece.stop)
            continue
        if not again or before is None or n > before.request.n or before.after.at(span.start).body == ():
            yield Edit("drop", "the recorded tool's own summary: what it stood for was not condensed here", span)


def _find_common_stop(one: Envelope, other: Envelope) -> int:
    """The address up to which two envelopes hold the very same chunks."""
    shared = takewhile(lambda pair: pair[0] is pair[1], zip(one.chunks, other.chunks, strict=False))
    return max((chunk.stop for chunk, _ in shared), default=0)


def drop_server_summaries(envelope: Envelope, ctx: Ctx, policy: Policy) -> Iterator[Edit]:
    """Drops each summary that the provider made of the conversation, for a policy that asks for none: it would be read in place
    of what precedes it.
    """
    if any(part.rule.name in (FOLLOWS, COMPACT) for part in policy.rules):
        return
    compactions = ctx.index.compactions
    for at in compactions[: count_before(compactions, ctx.request.cut)]:
        if envelope.at(at).body is None:
            why = "the provider's own summary: what it stood for is sent here"
            yield Edit("drop", why, Span(at, at + 1))


def get_summary_block(edit: Edit) -> int:
    """The block that holds the summary of what a recorded condensation took out; -1 where the edit names none."""
    at = edit.facts.get("summary") if edit.action == "condense" and edit.body == () else None
    return at if isinstance(at, int) and not isinstance(at, bool) and edit.span and at >= edit.span.stop else -1
