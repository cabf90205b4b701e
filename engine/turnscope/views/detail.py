"""One request in detail, in provider tokens: what it carries, what was added, and what was removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Terms
from turnscope.envelope.difference import find_gaps
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.planning.trace import Trace
from turnscope.session.model import Block, Placeholder, Request, Session
from turnscope.views.labels import label_block
from turnscope.views.overview import CELLS, Overview

_Unit = tuple[int, int, str]  # start and stop of its blocks, and the slot of an insert

AS_COUNTED = Terms(0, 0, 0, 1.0)


@dataclass(frozen=True, slots=True)
class Item:
    """A block or a placeholder of one request. `tokens` are the provider's, scaled from the count.

    `state`: verbatim, or the action that put it there.
    """

    at: int
    stop: int
    label: str
    bucket: str
    kind: str
    tokens: int
    text: str
    state: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One request.

    Attributes:
        items: what it carries, the largest first.
        added, removed: the difference to the previous request.
        changed: items in both but with different content, before and after.
        answer: the blocks of its answer.
        change: tokens per cell against the previous request.
    """

    request: Request
    items: tuple[Item, ...]
    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    answer: tuple[Item, ...]
    change: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two requests, in provider tokens.

    Attributes:
        old, new: numbers of the requests.
        added: items of the new request only.
        removed: items of the old request only.
        changed: items in both but with different content, before and after.
        cells: tokens by cell of both; each sums to its prompt.
        prompts: prompt tokens of both.
    """

    old: int
    new: int
    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    cells: tuple[tuple[int, ...], tuple[int, ...]]
    prompts: tuple[int, int]


def compare_requests(trace: Trace, view: Overview, old: int, new: int) -> Difference:
    """Compare what the model saw at two requests, whichever was sent first.

    Args:
        trace: the replay.
        view: the overview of the same trace.
        old, new: numbers of the requests.

    Raises:
        IndexError: there is no such request.
    """
    was, now = dict[_Unit, Placeholder](), dict[_Unit, Placeholder]()
    for before, after in find_gaps(trace.plans[old].seen, trace.plans[new].seen):
        was |= _list_units(before)
        now |= _list_units(after)
    made = [partial(_build_unit_item, trace, trace.get_terms(n)) for n in (old, new)]
    went = tuple(made[0](unit, body) for unit, body in was.items() if unit not in now)
    came = tuple(made[1](unit, body) for unit, body in now.items() if unit not in was)
    both = [unit for unit in was if unit in now and was[unit] != now[unit]]
    changed = tuple((made[0](unit, was[unit]), made[1](unit, now[unit])) for unit in both)
    cells = tuple(map(int, view.cells[old])), tuple(map(int, view.cells[new]))
    return Difference(
        old=old,
        new=new,
        added=came,
        removed=went,
        changed=changed,
        cells=cells,
        prompts=(view.get_prompt(old), view.get_prompt(new)),
    )


def build_detail(trace: Trace, view: Overview, n: int) -> Detail:
    """Build the detail of one request.

    Args:
        trace: the replay.
        view: the overview of the same trace.
        n: number of the request.
    """
    plan = trace.plans[n]
    items = list(_list_items(trace, plan.seen, trace.get_terms(n)))
    since = compare_requests(trace, view, n - 1, n) if n else None
    added, left, moved = (since.added, since.removed, since.changed) if since else (tuple(items), (), ())
    change = view.cells[n] - view.cells[n - 1] if n else view.cells[n]
    by_size = sorted(items, key=lambda item: -item.tokens)
    blocks = trace.session.blocks[plan.request.cut : plan.request.stop]
    answer = tuple(
        _build_item(trace.session, trace.ledger, block, AS_COUNTED) for block in blocks
    )  # counted as `bill.charge` counts it
    return Detail(
        request=plan.request,
        items=tuple(by_size),
        added=added,
        removed=left,
        changed=moved,
        answer=answer,
        change=tuple(int(c) for c in change),
    )


def _list_units(pieces: Iterable[Piece]) -> dict[_Unit, Placeholder]:
    """List what can be added or removed by itself: each verbatim block, each placeholder, each insert."""
    found: dict[_Unit, Placeholder] = {}
    for piece in pieces:
        if piece.body is None:
            found |= {(at, at + 1, ""): None for at in range(piece.start, piece.stop)}
        elif piece.body:
            found[piece.start, piece.stop, piece.slot if piece.start == piece.stop else ""] = piece.body
    return found


def _build_unit_item(trace: Trace, terms: Terms, unit: _Unit, body: Placeholder) -> Item:
    start, stop, slot = unit
    if body is None:
        return _build_item(trace.session, trace.ledger, trace.session.blocks[start], terms)
    return _build_placeholder_item(
        trace, Piece(start=start, stop=stop, counts=trace.ledger.count_placeholder(body), body=body, slot=slot), terms
    )


def _list_items(trace: Trace, envelope: Envelope, terms: Terms) -> list[Item]:
    found: list[Item] = []
    for piece in envelope.pieces:
        if piece.body is None:
            found += [
                _build_item(trace.session, trace.ledger, block, terms)
                for block in trace.session.blocks[piece.start : piece.stop]
            ]
        elif piece.body:
            found.append(_build_placeholder_item(trace, piece, terms))
    return found


def _build_item(session: Session, ledger: Ledger, block: Block, terms: Terms) -> Item:
    tokens = terms.convert(ledger.count_by_bucket(block.at, block.at + 1))
    return Item(
        at=block.at,
        stop=block.at + 1,
        label=label_block(session, block),
        bucket=block.bucket,
        kind=block.kind,
        tokens=tokens,
        text=block.text,
        state="verbatim",
    )


def _build_placeholder_item(trace: Trace, piece: Piece, terms: Terms) -> Item:
    assert piece.body
    block = trace.session.blocks[piece.start] if piece.start < piece.stop else None
    summed = piece.stop - piece.start > 1 and any(part.kind == "summary" for part in piece.body)
    name = "summary" if summed else label_block(trace.session, block) if block else piece.slot
    bucket = CELLS[int(np.argmax(piece.counts))]
    text = "\n".join(part.text for part in piece.body)
    return Item(
        at=piece.start,
        stop=piece.stop,
        label=name,
        bucket=bucket,
        kind=piece.body[0].kind,
        tokens=terms.convert(piece.counts),
        text=text,
        state="placeholder",
    )
