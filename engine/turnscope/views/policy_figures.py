"""What each shipped policy came to on the bundled samples, and what is left of a full window under it: a stored table.

`python -m tests.regenerate figures` measures it. A policy of the user or of a package is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.planning.trace import Trace
from turnscope.session.model import Bucket
from turnscope.views.comparison import Row

FILE = Path(__file__).resolve().parent / "policy_figures.json"
FULL = 0.6  # share of the largest uncut request from which on a request counts as full
ACTS = frozenset("drop clear strip truncate condense warn fallback refuse".split())  # what has a threshold
_MIXED = ("dropped", "summary")  # states of blocks of several buckets together
_STATIC = ("system", "tools")
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


class Act(msgspec.Struct, frozen=True, array_like=True):
    """The first time that a policy acts in one way: the action, and the tokens of the prompt before and after it."""

    action: str
    before: int
    after: int


class Fate(msgspec.Struct, frozen=True, array_like=True):
    """What becomes of a part of a conversation: its bucket ("" = several), its state, its tokens before and after.

    The states are those of a `Segment`, and "dropped".
    """

    bucket: str
    state: str
    before: int
    after: int


class FullWindow(msgspec.Struct, frozen=True):
    """A policy on a conversation that outgrows its window.

    Attributes:
        window, limit: tokens; the most that the policy lets a prompt have.
        acts: the first time of each action, in the order of their sizes.
        fates: what becomes of the conversation at the request that is shortened most, in the order sent.
    """

    window: int
    limit: int
    acts: tuple[Act, ...]
    fates: tuple[Fate, ...]


class PolicyFigures(msgspec.Struct, frozen=True):
    """One policy on all samples, by their names; the strip of its prompt in a full window, and how it came to it."""

    samples: dict[str, SampleFigures]
    strip: tuple[Segment, ...] = ()
    full: FullWindow | None = None

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
    at = _find_shortest(trace)
    window = trace.outlines[at].budget.window
    parts = _sum_parts(trace.plans[at].seen, trace)
    placed = sorted(parts.items(), key=lambda item: (_rank(item[0]), item[1][1]))
    return tuple(Segment(bucket, state, round(tokens / window, 3)) for (bucket, state), (tokens, _) in placed if tokens)


def _find_shortest(trace: Trace) -> int:
    """The last request that was shortened most, among those that would be full otherwise."""
    uncut = [trace.ledger.count_tokens(0, plan.request.cut) for plan in trace.outlines]
    full = [n for n, tokens in enumerate(uncut) if tokens >= FULL * max(uncut)]
    return min(full, key=lambda n: (round(trace.outlines[n].seen_tokens / uncut[n], 1), -n))


def fill_window(trace: Trace) -> FullWindow:
    """At which sizes a policy acts on a conversation that outgrows its window, and what becomes of its parts.

    Args:
        trace: the replay of the conversation.
    """
    acts: dict[str, Act] = {}
    for plan in trace.plans:
        before, after = plan.before.tokens, plan.seen.tokens
        for action in (*plan.actions, *(decision.action for decision in plan.server if decision.splice)):
            if action in ACTS:
                acts.setdefault(action, Act(action, before, after))
    plan = trace.plans[_find_shortest(trace)]
    ranked = tuple(sorted(acts.values(), key=lambda act: act.before))
    return FullWindow(plan.budget.window, plan.budget.limit, ranked, tuple(_list_fates(plan.seen, trace)))


def _list_fates(envelope: Envelope, trace: Trace) -> Iterator[Fate]:
    """System prompt and tools; then what stands before, among and after all that is not sent as it was."""
    pieces = [*envelope.pieces]
    changed = [n for n, piece in enumerate(pieces) if piece.body is not None]
    first, last = (changed[0], changed[-1]) if changed else (0, -1)
    static, zones = dict[str, int](), [dict[tuple[str, str], list[int]]() for _ in range(3)]
    for n, piece in enumerate(pieces):
        state, zone = _name_state(piece), zones[0 if n < first else 2 if n > last else 1]
        counted = trace.ledger.count_by_bucket(piece.start, piece.stop)
        sent = piece.counts if piece.body is not None else counted
        for bucket, before, after in zip(_BUCKETS, counted, sent, strict=True):
            if not before and not after:
                continue
            if bucket in _STATIC and state == "kept":
                static[bucket] = static.get(bucket, 0) + before
            else:
                sums = zone.setdefault(("" if state in _MIXED else bucket, state), [0, 0])
                sums[0] += before
                sums[1] += after
    yield from (Fate(bucket, "kept", tokens, tokens) for bucket, tokens in static.items())
    yield from (Fate(bucket, state, *sums) for zone in zones for (bucket, state), sums in zone.items())


def _name_state(piece: Piece) -> str:
    """How a piece is sent; "dropped" = not at all."""
    if piece.body is None:
        return "kept"
    if piece.start == piece.stop:
        return "insert"
    return "dropped" if not piece.body else "summary" if piece.stop - piece.start > 1 else "cleared"


def _rank(part: tuple[str, str]) -> int:
    """System prompt and tools first, then what stands for older blocks, then the rest by its place."""
    bucket, state = part
    return 0 if bucket in ("system", "tools") else 1 if state in ("summary", "insert") else 2


def _sum_parts(envelope: Envelope, trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """Tokens and first address by bucket and state."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for piece in envelope.pieces:
        state = _name_state(piece)
        if state == "dropped":
            continue
        counts = piece.counts if piece.body is not None else trace.ledger.count_by_bucket(piece.start, piece.stop)
        for bucket, tokens in zip(_BUCKETS, counts, strict=True):
            if tokens:
                known, at = found.get((bucket, state), (0, piece.start))
                found[bucket, state] = known + tokens, at
    return found
