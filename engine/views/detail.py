"""One request in detail: what it carried, what is new, what left; in provider tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.counting.ledger import Ledger
from engine.envelope.envelope import Envelope
from engine.envelope.pieces import Piece
from engine.planning.trace import Trace
from engine.session.model import Block, Request, Session
from engine.views.labels import label
from engine.views.overview import CELLS, Overview


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
    left: tuple[Item, ...]
    answer: tuple[Item, ...]
    change: tuple[int, ...]  # tokens per cell against the previous request


def detail(trace: Trace, view: Overview, n: int) -> Detail:
    """What request `n` carried, in provider tokens."""
    plan = trace.plans[n]
    before = trace.plans[n - 1] if n else None
    scale = trace.fit(n).scale
    items = list(_items(trace, plan.seen, scale))
    since = before.request.cut if before else 0
    added = [item for item in items if item.at >= since]
    left: list[Item] = []
    if before:
        gone = {item.at for item in items if item.state == "verbatim"}
        left = [item for item in _items(trace, before.seen, scale) if item.state == "verbatim" and item.at not in gone]
    change = view.cells[n] - view.cells[n - 1] if n else view.cells[n]
    by_size = sorted(items, key=lambda item: -item.tokens)
    blocks = trace.session.blocks[plan.request.cut : plan.request.stop]
    answer = tuple(_item(trace.session, trace.ledger, block, 1.0) for block in blocks)  # as `bill.charge` counts it
    return Detail(plan.request, tuple(by_size), tuple(added), tuple(left), answer, tuple(int(c) for c in change))


def _items(trace: Trace, envelope: Envelope, scale: float) -> list[Item]:
    found: list[Item] = []
    for piece in envelope.pieces:
        if piece.body is None:
            found += [
                _item(trace.session, trace.ledger, block, scale) for block in trace.session.blocks[piece.start : piece.stop]
            ]
        elif piece.body:
            found.append(_stand_in(trace, piece, scale))
    return found


def _item(session: Session, ledger: Ledger, block: Block, scale: float) -> Item:
    tokens = round(ledger.tokens(block.at, block.at + 1) * scale)
    return Item(block.at, block.at + 1, label(session, block), block.bucket, block.kind, tokens, block.text, "verbatim")


def _stand_in(trace: Trace, piece: Piece, scale: float) -> Item:
    assert piece.body
    block = trace.session.blocks[piece.start] if piece.start < piece.stop else None
    name = label(trace.session, block) if block else piece.slot
    bucket = CELLS[int(np.argmax(piece.counts))]
    text = "\n".join(part.text for part in piece.body)
    return Item(piece.start, piece.stop, name, bucket, piece.body[0].kind, round(sum(piece.counts) * scale), text, "stand-in")
