"""Summaries that the recorded tool or its provider made: dropped under every policy that does not follow the record.

Such a summary is a message of the log, so it is among the session's blocks. A policy that keeps the blocks it replaces, or
condenses them itself, would send the same content twice. These functions yield edits as rules do; the runner applies them
before the policy's rules, and again where a rule restored such a summary.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from operator import indexOf, is_, itemgetter

from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx
from turnscope.planning.policy import Policy
from turnscope.ports.messages_api.edits import COMPACT
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session, Span

DROP_DECISION = "leave_out_summary"  # name of these decisions, in place of a rule's
FOLLOWS = "follow_the_record"


@memoize
def _find_summaries(session: Session, _index: Index) -> tuple[tuple[int, Span], ...]:
    """The request of each summary by the tool, and its message; in order."""
    found = {at: seen.request for seen in session.observed if (at := get_summary_block(seen.edit)) >= 0}
    messages = ((n, session.messages[session.blocks[at].message]) for at, n in found.items() if at < len(session.blocks))
    return tuple(sorted((n, Span(message.start, message.stop)) for n, message in messages))


def follows_record(policy: Policy) -> bool:
    """Return whether a policy sends the summaries of the recorded tool."""
    return any(part.rule.name == FOLLOWS for part in policy.rules)


def count_foreign_summaries(session: Session, policy: Policy) -> int:
    """Return how many summaries of the recorded tool a policy leaves out.

    Args:
        session: The session.
        policy: The policy.
    """
    return 0 if follows_record(policy) else len({at for seen in session.observed if (at := get_summary_block(seen.edit)) >= 0})


def drop_foreign_summaries(envelope: Envelope, ctx: Ctx, policy: Policy, *, again: bool = False) -> Iterator[Edit]:
    """Yield the drop of each summary by the tool at its request; nothing for a policy that follows the record.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        policy: The policy.
        again: Yield those that a rule restored although they were dropped before.
    """
    if not ctx.session.observed:
        return
    known, before = _find_summaries(ctx), ctx.previous
    since = 0 if again else bisect_left(known, before.request.n + 1 if before else 0, key=itemgetter(0))
    if since == len(known) or known[since][0] > ctx.request.n or follows_record(policy):
        return
    same = _find_common_stop(before.after, envelope) if again and before else 0
    elsewhere = Span(0, 0)  # no block of it is sent verbatim
    for n, span in known[since:]:
        if n > ctx.request.n:
            return
        if elsewhere.start <= span.start < elsewhere.stop or (span.start < same and before and n <= before.request.n):
            continue
        piece = envelope.find_piece(span.start)
        if piece.body is not None:
            elsewhere = Span(piece.start, piece.stop)
            continue
        if not again or before is None or n > before.request.n or before.after.find_piece(span.start).body == ():
            yield Edit("drop", "the recorded tool's own summary: its source was not condensed here", span)


def _find_common_stop(one: Envelope, other: Envelope) -> int:
    """The address up to which two envelopes share their chunks."""
    shared = indexOf(chain(map(is_, one.chunks, other.chunks), (False,)), False)
    return one.chunks[shared - 1].stop if shared else 0


def drop_server_summaries(envelope: Envelope, ctx: Ctx, policy: Policy) -> Iterator[Edit]:
    """Yield the drop of each summary by the provider's server, for a policy that requests none.

    Else the server would read it instead of what precedes it.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        policy: The policy.
    """
    compactions = ctx.index.compactions
    if not compactions or any(part.rule.name in (FOLLOWS, COMPACT) for part in policy.rules):
        return
    for at in compactions[: count_before(compactions, ctx.request.cut)]:
        if envelope.find_piece(at).body is None:
            why = "the provider's own summary: its source is sent here"
            yield Edit("drop", why, Span(at, at + 1))


def get_summary_block(edit: Edit) -> int:
    """Return the block with the summary of a recorded compaction; -1 where the edit names none."""
    at = edit.facts.get("summary") if edit.action == "condense" and edit.body == () else None
    return at if isinstance(at, int) and not isinstance(at, bool) and edit.span and at >= edit.span.stop else -1
