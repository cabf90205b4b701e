"""Where two replays of a session part, and how each block stands in a request of either.

Holds the reading of two traces; what it costs to part, and what is lost by it, is `comparison`'s.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.envelope.difference import first_difference, repainted, shown
from engine.planning.trace import Trace
from engine.views.labels import label
from engine.views.position import Where, share, shares, where

How = Literal["only in A", "only in B", "other form"]
Both = Literal["in both", "only in A", "only in B"]


class Differs(NamedTuple):
    """A block that two policies treat otherwise in one request. `how`: only the first has it as it is, only the second, or both
    have it in another form; `where` it stands in the prompt of the one that has it: the middle half is the middle."""

    at: int
    label: str
    tokens: int
    how: How
    where: Where


class Placed(NamedTuple):
    """A block that stands as it is in a request of one of two policies or of both, and where in the prompt of each; "" = it
    does not."""

    at: int
    label: str
    tokens: int
    how: Both
    a: Where | Literal[""]
    b: Where | Literal[""]


def parted(one: Trace, other: Trace) -> int | None:
    """The first request that two replays of a session send otherwise; None where there is none."""
    for a, b in zip(one.plans, other.plans, strict=False):
        if first_difference(a.seen, b.seen) is not None or first_difference(b.seen, a.seen) is not None:
            return a.request.n
    return None


def difference(one: Trace, other: Trace, request: int) -> tuple[Differs, ...]:
    """The blocks that two replays of a session treat otherwise in a request. IndexError where there is no such request."""
    a, b = one.plans[request].seen, other.plans[request].seen
    found: list[Differs] = []
    for start, stop, _ in repainted([*a.pieces], [*b.pieces], shown, None):
        for at in range(start, stop):
            here, there = a.at(at).body is None, b.at(at).body is None
            how: How = "other form" if here == there else "only in A" if here else "only in B"
            stands = where(share(one if here or not there else other, request, at))
            block = one.session.blocks[at]
            found.append(Differs(at, label(one.session, block), one.ledger.tokens(at, at + 1), how, stands))
    return tuple(found)


def placed(one: Trace, other: Trace, request: int) -> tuple[Placed, ...]:
    """The blocks that one of two replays of a session keeps in a request, in order, and where they stand in either.

    IndexError where there is no such request.
    """
    session, a, b = one.session, shares(one, request), shares(other, request)
    found: list[Placed] = []
    for at in sorted(a.keys() | b.keys()):
        how: Both = "in both" if at in a and at in b else "only in A" if at in a else "only in B"
        there = (where(a[at]) if at in a else "", where(b[at]) if at in b else "")
        found.append(Placed(at, label(session, session.blocks[at]), one.ledger.tokens(at, at + 1), how, *there))
    return tuple(found)
