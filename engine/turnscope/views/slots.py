"""What was put in beside what was said, by slot: layers, memory, notes, web results, documents, retrieved conversations, and
what a log says that its tool put in.

Pure functions of a trace. A slot is a part of the buckets that its texts go out in: split off, all totals stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
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

MAX_SLOTS = 10  # slots that are told apart, those with most tokens; the rest is one
OTHERS = "others"
SLOT_LABELS = {"context": "context summary", "recorded": "seen in the request", OTHERS: "other inserts"}

SlotCounts = dict[str, Counts]
"""Counted tokens by bucket, of each slot."""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a session's requests, those with most tokens first. `tokens[request, slot, bucket]`: the provider's.

    `buckets`: in which most of each goes out.
    """

    names: tuple[str, ...]
    buckets: tuple[str, ...]
    tokens: Ints

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(label_slot, self.names))


def label_slot(slot: str) -> str:
    """A slot's name for people."""
    text = SLOT_LABELS.get(slot) or INJECTED_KINDS.get(slot, slot.replace("_", " "))
    return text[:1].upper() + text[1:]


def count_slot_tokens(envelope: Envelope) -> SlotCounts:
    """What stands in each slot of an envelope, in counted tokens."""
    return _sum_counts({piece.slot: piece.counts} for piece in envelope.pieces if piece.slot and any(piece.counts))


def describe_slots(envelope: Envelope, scale: float) -> tuple[tuple[str, str, int], ...]:
    """Of each slot of one request its label, a bucket and its tokens there, `scale` for one counted; largest first."""
    found = count_slot_tokens(envelope).items()
    rows = (
        (label_slot(slot), bucket, round(count * scale))
        for slot, counts in found
        for bucket, count in zip(BUCKETS, counts, strict=True)
    )
    return tuple(sorted((row for row in rows if row[2]), key=lambda row: -row[2]))


def build_slots(trace: Trace, view: Overview) -> Slots | None:
    """The slots of every request of a trace; None where nothing was ever put in."""
    read = _build_reader(trace.session, trace.ledger)
    chunks: dict[int, SlotCounts] = {}  # chunks are shared by requests; the plans keep them alive
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
    tokens = _round_tokens(counted * view.scales[:, None, None], view.cells[:, :5])
    return Slots(names, tuple(BUCKETS[int(at)].value for at in tokens.sum(axis=0).argmax(axis=1)), tokens)


def split_by_slot(view: Overview, found: Slots) -> Overview:
    """The overview with a cell more for each slot, behind `CELLS`, and the buckets without them: the same sums in every row.

    A slot bears its bucket's price, and what of that was read from cache, by its share of the bucket's tokens.
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
    """Sizes as whole tokens, the slots of a bucket at most what that holds."""
    tokens = np.rint(sizes).astype(np.int64)
    return np.maximum(np.minimum(tokens, _compute_remainder(tokens, most[:, None])), 0)


def _compute_remainder(parts: Ints, most: Ints) -> Ints:
    """What of `most` is left for each of some parts (along the second axis), once those before it have theirs."""
    return most - (np.cumsum(parts, axis=1) - parts)


def _build_reader(session: Session, ledger: Ledger) -> Callable[[Piece], SlotCounts]:
    """Reads what a piece holds of slots: all of it where it stands in one, else the blocks that the tool put in."""
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
