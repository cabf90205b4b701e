"""One request in detail: what it carried, what is new, what left; in provider tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from turnscope.counting.ledger import Ledger
from turnscope.envelope.difference import find_gaps
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.planning.trace import Trace
from turnscope.session.model import Block, Placeholder, Request, Session
from turnscope.views.labels import label_block
from turnscope.views.overview import CELLS, Overview

_Unit = tuple[int, int, str]  # start and stop of the blocks, and the slot of an insert


@dataclass(frozen=True, slots=True)
class Item:
    """A block or stand-in as one request carries it. `tokens` are the provider's, scaled from the count."""

    at: int
    stop: int
    label: str
    bucket: str
    kind: str
    tokens: int
    text: str
    state: str  # verbatim | the action that put it there


@dataclass(frozen=True, slots=True)
class Detail:
    """One request: what it carried (largest first), what is new, what left since the request before."""

    request: Request
    items: tuple[Item, ...]
    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]  # as it stood, and as it stands
    answer: tuple[Item, ...]
    change: tuple[int, ...]  # tokens per cell against the previous request


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two requests, in provider tokens: `cells` as `CELLS`, before and after, each sums to its prompt.

    `added` stands in the second alone, `removed` in the first alone, `changed` in both but otherwise: as it stood, as it
    stands.
    """

    old: int
    new: int
    added: tuple[Item, ...]
    removed: tuple[Item, ...]
    changed: tuple[tuple[Item, Item], ...]
    cells: tuple[tuple[int, ...], tuple[int, ...]]
    prompts: tuple[int, int]


def compare_requests(trace: Trace, view: Overview, old: int, new: int) -> Difference:
    """What the model saw at request `new` against request `old`, whichever was sent first. IndexError: no such request."""
    was, now = dict[_Unit, Placeholder](), dict[_Unit, Placeholder]()
    for before, after in find_gaps(trace.plans[old].seen, trace.plans[new].seen):
        was |= _list_units(before)
        now |= _list_units(after)
    made = [partial(_build_unit_item, trace, trace.fit(n).scale) for n in (old, new)]
    went = tuple(made[0](unit, body) for unit, body in was.items() if unit not in now)
    came = tuple(made[1](unit, body) for unit, body in now.items() if unit not in was)
    both = [unit for unit in was if unit in now and was[unit] != now[unit]]
    changed = tuple((made[0](unit, was[unit]), made[1](unit, now[unit])) for unit in both)
    cells = tuple(map(int, view.cells[old])), tuple(map(int, view.cells[new]))
    return Difference(old, new, came, went, changed, cells, (view.get_prompt(old), view.get_prompt(new)))


def build_detail(trace: Trace, view: Overview, n: int) -> Detail:
    """What request `n` carried, in provider tokens."""
    plan = trace.plans[n]
    scale = trace.fit(n).scale
    items = list(_list_items(trace, plan.seen, scale))
    since = compare_requests(trace, view, n - 1, n) if n else None
    added, left, moved = (since.added, since.removed, since.changed) if since else (tuple(items), (), ())
    change = view.cells[n] - view.cells[n - 1] if n else view.cells[n]
    by_size = sorted(items, key=lambda item: -item.tokens)
    blocks = trace.session.blocks[plan.request.cut : plan.request.stop]
    answer = tuple(_build_item(trace.session, trace.ledger, block, 1.0) for block in blocks)  # as `bill.charge` counts it
    return Detail(plan.request, tuple(by_size), added, left, moved, answer, tuple(int(c) for c in change))


def _list_units(pieces: Iterable[Piece]) -> dict[_Unit, Placeholder]:
    """What can come and go by itself: each block that stands as it is, each stand-in, each insert."""
    found: dict[_Unit, Placeholder] = {}
    for piece in pieces:
        if piece.body is None:
            found |= {(at, at + 1, ""): None for at in range(piece.start, piece.stop)}
        elif piece.body:
            found[piece.start, piece.stop, piece.slot if piece.start == piece.stop else ""] = piece.body
    return found


def _build_unit_item(trace: Trace, scale: float, unit: _Unit, body: Placeholder) -> Item:
    start, stop, slot = unit
    if body is None:
        return _build_item(trace.session, trace.ledger, trace.session.blocks[start], scale)
    return _build_placeholder_item(trace, Piece(start, stop, trace.ledger.count_placeholder(body), body, slot), scale)


def _list_items(trace: Trace, envelope: Envelope, scale: float) -> list[Item]:
    found: list[Item] = []
    for piece in envelope.pieces:
        if piece.body is None:
            found += [
                _build_item(trace.session, trace.ledger, block, scale)
                for block in trace.session.blocks[piece.start : piece.stop]
            ]
        elif piece.body:
            found.append(_build_placeholder_item(trace, piece, scale))
    return found


def _build_item(session: Session, ledger: Ledger, block: Block, scale: float) -> Item:
    tokens = round(ledger.count_tokens(block.at, block.at + 1) * scale)
    return Item(block.at, block.at + 1, label_block(session, block), block.bucket, block.kind, tokens, block.text, "verbatim")


def _build_placeholder_item(trace: Trace, piece: Piece, scale: float) -> Item:
    assert piece.body
    block = trace.session.blocks[piece.start] if piece.start < piece.stop else None
    name = label_block(trace.session, block) if block else piece.slot
    bucket = CELLS[int(np.argmax(piece.counts))]
    text = "\n".join(part.text for part in piece.body)
    return Item(piece.start, piece.stop, name, bucket, piece.body[0].kind, round(sum(piece.counts) * scale), text, "stand-in")
