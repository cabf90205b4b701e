"""What each shipped policy came to on the bundled samples, and what is left of a full window under it: a stored table.

`python -m tests.regenerate figures` measures it. A policy of the user or of a package is not in it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from turnscope.envelope.envelope import Envelope
from turnscope.planning.trace import Trace
from turnscope.session.model import Bucket
from turnscope.views.comparison import Row

FILE = Path(__file__).resolve().parent / "policy_figures.json"
FULL = 0.6  # share of the largest uncut request from which on a request counts as full
_BUCKETS = [bucket.value for bucket in Bucket]


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """A part of a prompt: its bucket, how it is sent (kept, cleared, summary, insert), and its share of the window."""

    bucket: str
    state: str
    share: float


class SampleFigures(msgspec.Struct, frozen=True):
    """One policy on one sample: cost as a factor of the record, share of lost references, share of requests not sent."""

    factor: float
    lost: float
    unsent: float


class PolicyFigures(msgspec.Struct, frozen=True):
    """One policy on all samples, by their names, and the strip of its prompt in a full window."""

    samples: dict[str, SampleFigures]
    strip: tuple[Segment, ...] = ()

    @property
    def factors(self) -> list[float]:
        """The factors of samples whose every request could be sent, the smallest first."""
        return sorted(each.factor for each in self.samples.values() if not each.unsent)

    @property
    def losses(self) -> list[float]:
        """The shares of lost references of the same samples, the smallest first."""
        return sorted(each.lost for each in self.samples.values() if not each.unsent)

    @property
    def is_lossless(self) -> bool:
        """Whether no sample lost a reference."""
        return bool(self.samples) and not any(each.lost for each in self.samples.values())


@cache
def load_figures() -> dict[str, PolicyFigures]:
    """The stored table, by the policies' names."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, PolicyFigures])


def measure_row(row: Row) -> SampleFigures:
    """The figures of a policy on a sample.

    Args:
        row: its row of a comparison with the record.
    """
    return SampleFigures(round(row.factor or 0.0, 2), round(row.losses.rate, 3), round(len(row.unsent) / len(row.sizes), 3))


def draw_strip(trace: Trace) -> tuple[Segment, ...]:
    """The parts of the prompt that a policy shortened most, among the requests that would be full without it.

    Args:
        trace: the replay of a conversation that fills its window.
    """
    uncut = [trace.ledger.count_tokens(0, plan.request.cut) for plan in trace.outlines]
    full = [n for n, tokens in enumerate(uncut) if tokens >= FULL * max(uncut)]
    at = min(full, key=lambda n: (round(trace.outlines[n].seen_tokens / uncut[n], 1), -n))
    window = trace.outlines[at].budget.window
    parts = _sum_parts(trace.plans[at].seen, trace)
    placed = sorted(parts.items(), key=lambda item: (_rank(item[0]), item[1][1]))
    return tuple(Segment(bucket, state, round(tokens / window, 3)) for (bucket, state), (tokens, _) in placed if tokens)


def _rank(part: tuple[str, str]) -> int:
    """System prompt and tools first, then what stands for older blocks, then the rest by its place."""
    bucket, state = part
    return 0 if bucket in ("system", "tools") else 1 if state in ("summary", "insert") else 2


def _sum_parts(envelope: Envelope, trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """Tokens and first address by bucket and state."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for piece in envelope.pieces:
        if piece.body == () and piece.stop > piece.start:
            continue
        state = "insert" if piece.start == piece.stop else "kept" if piece.body is None else "cleared"
        if piece.body and piece.stop - piece.start > 1:
            state = "summary"
        counts = piece.counts if piece.body is not None else trace.ledger.count_by_bucket(piece.start, piece.stop)
        for bucket, tokens in zip(_BUCKETS, counts, strict=True):
            if tokens:
                known, at = found.get((bucket, state), (0, piece.start))
                found[bucket, state] = known + tokens, at
    return found
