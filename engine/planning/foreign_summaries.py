"""What the recorded tool summed up by its own policy, under any policy that does not follow the record.

Where a tool's summary is a message of its own in the log, it is among the session's blocks. Only what the tool did brought it
there: a policy that keeps the blocks it stands for, or condenses them by itself, would send the same thing twice. Yields edits
as rules do; the runner applies them before the policy's own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from engine.envelope.plan import Plan
from engine.planning.policy import Policy
from engine.session.model import Edit, Request, Session, Span

LEFT_OUT = "leave_out_foreign_summaries"  # the name under which these decisions stand, as a rule's would
FOLLOWS = "follow_the_record"


def foreign_summaries(previous: Plan | None, session: Session, request: Request, policy: Policy) -> Iterator[Edit]:
    """Drops each summary of the tool's at the request that it came with; nothing for a policy that follows the record."""
    observed = session.observed
    if not observed or any(part.rule.name == FOLLOWS for part in policy.rules):
        return
    since = bisect_left(observed, previous.request.n + 1 if previous else 0, key=lambda seen: seen.request)
    done: set[int] = set()
    for seen in observed[since:]:
        if seen.request > request.n:
            return
        at = summary_at(seen.edit)
        if 0 <= at < request.cut and at not in done:
            done.add(at)
            message = session.messages[session.blocks[at].message]
            because = "the recorded tool's own summary: what it stood for was not condensed here"
            yield Edit("drop", because, Span(message.start, message.stop))


def summary_at(edit: Edit) -> int:
    """The block that holds the summary of what a recorded condensation took out; -1 where the edit names none."""
    at = edit.facts.get("summary") if edit.action == "condense" and edit.body == () else None
    return at if isinstance(at, int) and not isinstance(at, bool) and edit.span and at >= edit.span.stop else -1
