"""What a `fresh` rule decides again: it holds as first decided, and only what is new becomes a decision.

A `fresh` rule runs on an envelope without its own edits, so it yields everything it wants. Here that is compared with what the
previous request was sent with. Where more than additions are needed (an edit does not last, edits meet, another rule changed
something too), nothing is carried over, and everything is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from msgspec import structs

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import FreshEdit, FreshEdits, Plan
from turnscope.errors import RuleError
from turnscope.session.model import Edit, Request, Span

_SPAN = attrgetter("span")


class Waiting(NamedTuple):
    """Edits of a `fresh` rule that were not applied yet. They replace or drop blocks that are verbatim so far."""

    rule: str = ""
    edits: Sequence[Edit] = ()


def collect_fresh_edits(
    decisions: Sequence[Decision], fresh: Sequence[Decision], waiting: Waiting, was: FreshEdits, ledger: Ledger
) -> FreshEdits | None:
    """Return what `fresh` rules want, in address order; None where it cannot be separated from other changes.

    Args:
        decisions: All decisions of the request.
        fresh: Those of `fresh` rules that changed something.
        waiting: What was not applied yet.
        was: The edits of the previous request. Those that are equal are shared, and so is the whole.
        ledger: Token counts of the session.
    """
    if not (fresh or waiting.edits):
        return ()
    places = [d.edit.span for d in decisions if d.splice and d.edit.span]
    ends = sorted([*places, *(edit.span for edit in waiting.edits if edit.span)])
    meet = any(b.start < a.stop or a == b or b.start == b.stop == a.start for a, b in pairwise(ends))
    if meet or any(d.edit.restore for d in fresh):
        return None
    by_place = {(one.span, one.slot): one for one in was}
    found = [FreshEdit(d.edit.span, d.edit.body, d.edit.slot, d.after - d.before) for d in fresh if d.edit.span]
    found = [known if (known := by_place.get((one.span, one.slot))) == one else one for one in found]
    for edit in waiting.edits:
        span = edit.span or Span(0, 0)
        known = by_place.get((span, edit.slot))
        if known is None or known.body != edit.body:
            change = sum(ledger.count_placeholder(edit.body)) - ledger.count_tokens(*span)
            known = FreshEdit(span, edit.body, edit.slot, change)
        found.append(known)
    now = tuple(sorted(found, key=_SPAN))
    return was if now == was else now


def continue_previous(
    previous: Plan, decisions: Sequence[Decision], waiting: Waiting, now: FreshEdits, request: Request, ledger: Ledger
) -> tuple[Envelope, list[Decision], Envelope] | None:
    """Return envelope before, decisions and envelope after of a request that starts from what the previous one was sent with.

    Args:
        previous: The plan of the previous request.
        decisions: The decisions of this request.
        waiting: Edits of this request that were not applied yet.
        now: All that fresh rules want.
        request: The request.
        ledger: Token counts of the session.

    Returns:
        None where an edit of the previous request does not last, or `decisions` changed more than `now`.
    """
    was = previous.fresh_edits
    if not was or len(now) < sum(d.splice is not None for d in decisions) + len(waiting.edits) or not _covers(was, now):
        return None
    envelope = before = previous.after.grow(request.cut, ledger)
    earlier = {(one.span, one.slot): one.body for one in was}
    dropped = [one.span for one in was if one.body == () and one.span.start < one.span.stop]
    first, made = previous.first + len(previous.decisions), list[Decision]()
    wishes = [(d.rule, d.edit, d.splice is not None) for d in decisions]
    for rule, edit, changes in (*wishes, *((waiting.rule, edit, True) for edit in waiting.edits)):
        place = (edit.span or Span(0, 0), edit.slot)
        again = changes and place in earlier and earlier[place] == edit.body
        for part in () if again else _keep_new(edit, dropped) if changes else (edit,):
            number, tokens = first + len(made), envelope.tokens
            try:
                envelope, splice = envelope.replace(part, number, ledger)
            except RuleError:  # the rule saw something else there
                return None
            if splice or not changes:
                made.append(Decision(number, request.n, rule, part, splice=splice, before=tokens, after=envelope.tokens))
    return before, made, envelope


def _covers(was: FreshEdits, now: FreshEdits) -> bool:
    """Whether every earlier edit is made again, or replaced by another one in its place."""
    slots = {(one.span, one.slot) for one in now}
    rest = [one.span for one in was if (one.span, one.slot) not in slots]
    spans = [one.span for one in now if one.span.start < one.span.stop]
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
