"""OpenHands' observation masking: a fixed text replaces results that are not among the newest events."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.clearing import clear_results
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.ports.openhands.events import read_pieces
from turnscope.ports.openhands.legacy import MASK
from turnscope.session.index import Index, count_before
from turnscope.session.model import Session


@dataclass(frozen=True, slots=True)
class Params:
    """The option of the original."""

    window: Annotated[int, "newest events whose results stay"] = 5


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. State: the address up to which results are masked."""
    starts, results, done = _find_starts(ctx), ctx.index.results, ctx.state or 0
    there = count_before(starts, ctx.request.cut)
    old = there - max(0, params.window)
    stop = max(done, 0 if old <= 0 else starts[old] if old < there else ctx.request.cut)
    because = f"its event is not among the newest {params.window:,}"
    yield from clear_results(envelope, ctx, results[bisect_left(results, done) : bisect_left(results, stop)], MASK, because)
    return stop


@memoize
def _find_starts(session: Session, _index: Index) -> tuple[int, ...]:
    return tuple(piece.start for piece in read_pieces(session))


RULE = Rule(
    "mask_old_observations",
    "Replace tool results that are not among the newest events by a fixed text.",
    edits,
    Params,
    source="OpenHands 0.62.0 (PyPI openhands-ai), openhands/memory/condenser/impl/observation_masking_condenser.py",
    state=int,
)
