"""What a `fresh` rule decides again: it holds as first decided, and only what is new becomes a decision.

A `fresh` rule runs on an envelope without its own edits, so it yields everything it wants. Here that is compared with what the
previous request was sent with. Where more than additions are needed (an edit does not last, edits meet, another rule changed
something too), nothing is carried over, and everything is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import structs

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import FreshEdits, Plan
from turnscope.errors import RuleError
from turnscope.session.model import Edit, Span


def collect_fresh_edits(decisions: Sequence[Decision], fresh: Sequence[Decision]) -> FreshEdits | None:
    """Return what the `fresh` decisions changed, in address order; None where they cannot be separated from the others.

    Args:
        decisions: All decisions of the request.
        fresh: Those of `fresh` rules.
    """
    if not fresh:
        return ()
    ends = sorted(d.edit.span for d in decisions if d.splice and d.edit.span)
    meet = any(b.start < a.stop or a == b or b.start == b.stop == a.start for a, b in pairwise(ends))
    if meet or any(d.edit.restore for d in fresh):
        return None
    edits = ((d.edit.span, d.edit.body, d.edit.slot) for d in fresh if d.edit.span)
    return tuple(sorted(edits, key=lambda one: one[0]))


def share_fresh_edits(was: FreshEdits, now: FreshEdits) -> FreshEdits:
    """Return `now`, with the objects of `was` for edits that are equal, so that memory is shared.

    Args:
        was: The edits of the previous request.
        now: The edits of this request.
    """
    by_place = {(one[0], one[2]): one for one in was}
    same = tuple(known if (known := by_place.get((one[0], one[2]))) == one else one for one in now)
    return was if same == was else same


def continue_previous(
    previous: Plan, decisions: Sequence[Decision], now: FreshEdits, stop: int, ledger: Ledger
) -> tuple[Envelope, list[Decision], Envelope] | None:
    """Return envelope before, decisions and envelope after of a request that starts from what the previous one was sent with.

    Args:
        previous: The plan of the previous request.
        decisions: The decisions of this request.
        now: All that fresh rules want.
        stop: The request's cut.
        ledger: Token counts of the session.

    Returns:
        None where an edit of the previous request does not last, or `decisions` changed more than `now`.
    """
    was = previous.fresh_edits
    if not was or len(now) < sum(d.splice is not None for d in decisions) or not _covers(was, now):
        return None
    envelope = before = previous.after.grow(stop, ledger)
    earlier, dropped = (
        {(span, slot): body for span, body, slot in was},
        [span for span, body, _ in was if body == () and span.start < span.stop],
    )
    first, made = previous.first + len(previous.decisions), list[Decision]()
    for decision in decisions:
        edit = decision.edit
        place = (edit.span or Span(0, 0), edit.slot)
        again = decision.splice and place in earlier and earlier[place] == edit.body
        for part in () if again else _keep_new(edit, dropped) if decision.splice else (edit,):
            number, tokens = first + len(made), envelope.tokens
            try:
                envelope, splice = envelope.replace(part, number, ledger)
            except RuleError:  # the rule saw something else there
                return None
            if splice or not decision.splice:
                made.append(
                    Decision(number, decision.request, decision.rule, part, splice=splice, before=tokens, after=envelope.tokens)
                )
    return before, made, envelope


def _covers(was: FreshEdits, now: FreshEdits) -> bool:
    """Whether every earlier edit is made again, or replaced by another one in its place."""
    slots = {(span, slot) for span, _, slot in now}
    rest = [span for span, _, slot in was if (span, slot) not in slots]
    spans = [span for span, _, _ in now if span.start < span.stop]
    return all(span.start < span.stop and not [*_subtract(span, spans)] for span in rest)


def _keep_new(edit: Edit, dropped: Sequence[Span]) -> Iterator[Edit]:
    """An edit; of a drop only the part that was not dropped before."""
    if edit.body != () or edit.span is None or edit.span.start == edit.span.stop:
        yield edit
        return
    for part in _subtract(edit.span, dropped):
        yield edit if part == edit.span else structs.replace(edit, span=part)


def _subtract(span: Span, spans: Sequence[Span]) -> Iterator[Span]:
    """What remains of a span without others, which are in address order."""
    at = span.start
    for other in spans:
        if other.start < span.stop and at < other.stop:
            if at < other.start:
                yield Span(at, other.start)
            at = other.stop
    if at < span.stop:
        yield Span(at, span.stop)
