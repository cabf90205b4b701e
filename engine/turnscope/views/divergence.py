"""Where two replays of a session diverge, and how each block and each insert stands in a request of either.

Reads two traces. What a divergence costs or loses is in `comparison`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from turnscope.envelope.difference import compare_pieces, find_first_change, get_visible
from turnscope.planning.trace import Trace
from turnscope.session.model import Placeholder
from turnscope.views import slots
from turnscope.views.labels import label_block
from turnscope.views.position import Region, classify_position, compute_share, compute_shares

DifferenceKind = Literal["only in A", "only in B", "other form"]
Presence = Literal["in both", "only in A", "only in B"]


class BlockDifference(NamedTuple):
    """A block that two policies treat differently in a request, or an insert, which stands before block `at`.

    Attributes:
        how: only the first has it verbatim, only the second, or both have it in another form.
        where: its region in the prompt that has it.
    """

    at: int
    label: str
    tokens: int
    how: DifferenceKind
    where: Region


class Placement(NamedTuple):
    """A block that one of two policies or both carry verbatim, or an insert, which stands before block `at`.

    `a`, `b`: its region in each prompt; "" = it is not there.
    """

    at: int
    label: str
    tokens: int
    how: Presence
    a: Region | Literal[""]
    b: Region | Literal[""]


def find_divergence(one: Trace, other: Trace) -> int | None:
    """Find the first request that two replays of a session send differently; None = there is none.

    Args:
        one, other: the replays.
    """
    for a, b in zip(one.plans, other.plans, strict=False):
        if find_first_change(a.seen, b.seen) is not None or find_first_change(b.seen, a.seen) is not None:
            return a.request.n
    return None


def list_differences(one: Trace, other: Trace, request: int) -> tuple[BlockDifference, ...]:
    """List the blocks and inserts that two replays of a session treat differently in a request.

    Args:
        one, other: the replays.
        request: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    a, b = one.plans[request].seen, other.plans[request].seen
    found: list[BlockDifference] = []
    for start, stop, _ in compare_pieces([*a.pieces], [*b.pieces], get_visible, None):
        for at in range(start, stop):
            here, there = a.find_piece(at).body is None, b.find_piece(at).body is None
            how: DifferenceKind = "other form" if here == there else "only in A" if here else "only in B"
            stands = classify_position(compute_share(one if here or not there else other, request, at))
            block = one.session.blocks[at]
            found.append(
                BlockDifference(
                    at=at,
                    label=label_block(one.session, block),
                    tokens=one.ledger.count_tokens(at, at + 1),
                    how=how,
                    where=stands,
                )
            )
    was, now = _find_inserts(one, request), _find_inserts(other, request)
    for slot in dict.fromkeys((*was, *now)):
        if (inserts := [known[slot] for known in (was, now) if slot in known]) and (
            len(inserts) == 1 or inserts[0] != inserts[1]
        ):
            how = "other form" if len(inserts) == 2 else "only in A" if slot in was else "only in B"
            found.append(
                BlockDifference(
                    at=inserts[0].at, label=slots.label_slot(slot), tokens=inserts[0].tokens, how=how, where=inserts[0].where
                )
            )
    return tuple(sorted(found, key=lambda each: each.at))


def list_placements(one: Trace, other: Trace, request: int) -> tuple[Placement, ...]:
    """List the blocks and inserts that one of two replays keeps in a request, in order, and where they stand in each prompt.

    Args:
        one, other: the replays.
        request: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    session, a, b = one.session, compute_shares(one, request), compute_shares(other, request)
    found: list[Placement] = []
    for at in sorted(a.keys() | b.keys()):
        how: Presence = "in both" if at in a and at in b else "only in A" if at in a else "only in B"
        there = (classify_position(a[at]) if at in a else "", classify_position(b[at]) if at in b else "")
        tokens = one.ledger.count_tokens(at, at + 1)
        found.append(Placement(at, label_block(session, session.blocks[at]), tokens, how, a=there[0], b=there[1]))
    was, now = _find_inserts(one, request), _find_inserts(other, request)
    for slot in dict.fromkeys((*was, *now)):
        how = "in both" if slot in was and slot in now else "only in A" if slot in was else "only in B"
        insert = was.get(slot) or now[slot]
        first: Region | Literal[""] = was[slot].where if slot in was else ""
        second: Region | Literal[""] = now[slot].where if slot in now else ""
        found.append(Placement(insert.at, slots.label_slot(slot), insert.tokens, how, a=first, b=second))
    return tuple(sorted(found, key=lambda each: each.at))


class _Insert(NamedTuple):
    at: int
    tokens: int
    where: Region
    bodies: tuple[Placeholder, ...]


def _find_inserts(trace: Trace, request: int) -> dict[str, _Insert]:
    """The inserts of a request by slot."""
    plan = trace.plans[request]
    found: dict[str, _Insert] = {}
    for piece in plan.seen.pieces:
        if piece.start < piece.stop or not piece.body:
            continue
        at = min(piece.start, plan.request.cut - 1)
        front = at < 0 or all(part.place == "system" for part in piece.body)
        known = found.get(piece.slot)
        found[piece.slot] = _Insert(
            known.at if known else piece.start,
            (known.tokens if known else 0) + sum(piece.counts),
            known.where if known else "head" if front else classify_position(compute_share(trace, request, at)),
            (*(known.bodies if known else ()), piece.body),
        )
    return found
