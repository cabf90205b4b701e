"""Inserts by slot: layers, memory, notes, web results, documents, retrieved conversations, and what a log says its tool
injected.

Pure functions of a trace. A slot is a part of the buckets that its texts go out in, so all totals stay the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Ints
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.planning.trace import Trace
from turnscope.session.content import INJECTED_KINDS
from turnscope.session.model import BUCKETS, ZERO, Counts, Session
from turnscope.views.overview import Overview

MAX_SLOTS = 10  # slots shown by name, the largest ones; the rest is one slot
OTHERS = "others"
SLOT_LABELS = {"context": "context summary", "recorded": "seen in the request", OTHERS: "other inserts"}

SlotCounts = dict[str, Counts]
"""Counted tokens by bucket, of each slot."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a session's requests, the largest first.

    Attributes:
        buckets: the bucket that most of each slot goes out in.
        tokens: provider tokens, `[request, slot, bucket]`.
    """

    names: tuple[str, ...]
    buckets: tuple[str, ...]
    tokens: Ints

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the slots for people."""
        return tuple(map(label_slot, self.names))


def label_slot(slot: str) -> str:
    """The name of a slot for people."""
    text = SLOT_LABELS.get(slot) or INJECTED_KINDS.get(slot, slot.replace("_", " "))
    return text[:1].upper() + text[1:]


def count_slot_tokens(envelope: Envelope) -> SlotCounts:
    """Count the tokens of each slot of an envelope by bucket."""
    return _sum_counts({piece.slot: piece.counts} for piece in envelope.pieces if piece.slot and any(piece.counts))


def describe_slots(envelope: Envelope, scales: Sequence[float]) -> tuple[tuple[str, str, int], ...]:
    """List label, bucket and provider tokens of each slot of an envelope, the largest first.

    Args:
        envelope: the envelope.
        scales: provider tokens per counted token, of each bucket.
    """
    found = count_slot_tokens(envelope).items()
    rows = (
        (label_slot(slot), bucket, round(count * scale))
        for slot, counts in found
        for bucket, count, scale in zip(BUCKETS, counts, scales, strict=True)
    )
    return tuple(sorted((row for row in rows if row[2]), key=lambda row: -row[2]))


def build_slots(trace: Trace, view: Overview) -> Slots | None:
    """Build the slots of every request; None where there are no inserts.

    Args:
        trace: the replay.
        view: the overview of the same trace.
    """
    read = _build_reader(trace.session, trace.ledger)
    chunks: dict[int, SlotCounts] = {}  # requests share chunks; the plans keep them alive, so their ids stay valid
    rows: list[SlotCounts] = []
    for plan in trace.plans:
        for chunk in plan.seen.chunks:
            if id(chunk) not in chunks:
                chunks[id(chunk)] = _sum_counts(map(read, chunk.pieces))
        rows.append(_sum_counts(found for chunk in plan.seen.chunks if (found := chunks[id(chunk)])))
    sizes: dict[str, int] = {}
    for row in rows:
        for slot, counts in row.items():
            sizes[slot] = sizes.get(slot, 0) + sum(counts)
    names = tuple(sorted((slot for slot, size in sizes.items() if size), key=lambda slot: (-sizes[slot], slot)))
    if not names:
        return None
    counted = np.array([[row.get(slot, ZERO) for slot in names] for row in rows], dtype=np.float64)
    if len(names) > MAX_SLOTS:
        names = (*names[: MAX_SLOTS - 1], OTHERS)
        counted = np.concatenate([counted[:, : MAX_SLOTS - 1], counted[:, MAX_SLOTS - 1 :].sum(axis=1, keepdims=True)], axis=1)
    tokens = _round_tokens(counted * view.list_bucket_scales()[:, None, :], view.cells[:, :5])
    return Slots(names, tuple(BUCKETS[int(at)].value for at in tokens.sum(axis=0).argmax(axis=1)), tokens)


def split_by_slot(view: Overview, found: Slots) -> Overview:
    """Split an overview's buckets: one more cell for each slot after `CELLS`, and the buckets without them. Sums stay the same.

    A slot has the price and the cached share of its bucket, by its share of the bucket's tokens.

    Args:
        view: the overview.
        found: its slots.
    """
    share = found.tokens / np.maximum(view.cells[:, None, :5], 1)
    usd = (share * view.usd[:, None, :5]).sum(axis=2)
    billed = np.rint(share[..., None] * view.billed[:, None, :5, :]).astype(np.int64)  # request, slot, bucket, how
    billed = np.minimum(billed, _compute_remainder(billed, view.billed[:, None, :5, :]))
    rest = view.usd.copy()
    rest[:, :5] -= (share * view.usd[:, None, :5]).sum(axis=1)
    cells, kinds = view.cells.copy(), view.billed.copy()
    cells[:, :5] -= found.tokens.sum(axis=1)
    kinds[:, :5] -= billed.sum(axis=1)
    return replace(
        view,
        cells=np.concatenate([cells, found.tokens.sum(axis=2)], axis=1),
        usd=np.concatenate([np.maximum(rest, 0), usd], axis=1),
        billed=np.concatenate([kinds, billed.sum(axis=2)], axis=1),
    )


def _round_tokens(sizes: np.typing.NDArray[np.float64], most: Ints) -> Ints:
    """Round sizes to whole tokens. The slots of a bucket do not exceed it."""
    tokens = np.rint(sizes).astype(np.int64)
    return np.maximum(np.minimum(tokens, _compute_remainder(tokens, most[:, None])), 0)


def _compute_remainder(parts: Ints, most: Ints) -> Ints:
    """What is left of `most` for each part (along the second axis) after the parts before it."""
    return most - (np.cumsum(parts, axis=1) - parts)


def _build_reader(session: Session, ledger: Ledger) -> Callable[[Piece], SlotCounts]:
    """Build a function that reads the slots of a piece: the piece's own slot, else the blocks that the tool injected."""
    put = [block for block in session.blocks if block.kind in INJECTED_KINDS]
    ats = [block.at for block in put]

    def read(piece: Piece) -> SlotCounts:
        if piece.slot:
            return {piece.slot: piece.counts} if any(piece.counts) else {}
        if piece.body is not None or not ats:
            return {}
        found: SlotCounts = {}
        for place in range(bisect_left(ats, piece.start), bisect_left(ats, piece.stop)):
            _add_counts(found, put[place].kind, ledger.count_by_bucket(ats[place], ats[place] + 1))
        return found

    return read


def _sum_counts(parts: Iterable[SlotCounts]) -> SlotCounts:
    found: SlotCounts = {}
    for part in parts:
        for slot, counts in part.items():
            _add_counts(found, slot, counts)
    return found


def _add_counts(found: SlotCounts, slot: str, counts: Counts) -> None:
    a, b, c, d, e = found.get(slot, ZERO)
    v, w, x, y, z = counts
    found[slot] = (a + v, b + w, c + x, d + y, e + z)
