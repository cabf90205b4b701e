"""opencode's pruning: tool outputs before the newest 40,000 tokens of them are cleared, if that saves enough."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from turnscope.envelope.clearing import clear_results
from turnscope.envelope.conversation import memoize
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.opencode.history import count_units
from turnscope.ports.opencode.limits import CLEARED, PROTECTED_TOOLS, PRUNE_MINIMUM, PRUNE_PROTECT, estimate_tokens
from turnscope.session.index import Index, count_before
from turnscope.session.model import Session


class _Outputs(NamedTuple):
    at: tuple[int, ...]
    sums: tuple[int, ...]  # estimated tokens of the outputs before each


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request. It decides when a turn has ended. State: the address up to which outputs are cleared."""
    done, turns = ctx.state or 0, ctx.index.turns
    if ctx.previous is None or ctx.previous.request.turn == ctx.request.turn:
        return done
    now = count_before(turns, ctx.request.cut) - 1
    found = _find_outputs(ctx)
    first, last = bisect_left(found.at, done), bisect_left(found.at, turns[now - 2] if now >= 2 else 0)
    whole = found.sums[last]
    # the output that crosses the limit is cleared too
    stop = bisect_left(found.sums, whole - PRUNE_PROTECT, lo=0, hi=last + 1)
    gain = found.sums[stop] - found.sums[first] if stop > first else 0
    if gain <= PRUNE_MINIMUM:
        return done
    because = f"outputs before the newest {PRUNE_PROTECT:,} tokens have {gain:,}, more than {PRUNE_MINIMUM:,}"
    yield from clear_results(envelope, ctx, found.at[first:stop], CLEARED, because, {"tokens": gain})
    return found.at[stop - 1] + 1


@memoize
def _find_outputs(session: Session, index: Index) -> _Outputs:
    at = tuple(at for at in index.results if session.blocks[at].name not in PROTECTED_TOOLS)
    return _Outputs(at, tuple(accumulate((estimate_tokens(count_units(session.blocks[a].text)) for a in at), initial=0)))


RULE = Rule(
    "clear_unprotected_outputs",
    "When a turn has ended, clear outputs before the newest 40,000 tokens of outputs, if that saves more than 20,000.",
    edits,
    NoParams,
    source="npm opencode-ai 1.18.33, packages/opencode/src/session/compaction.ts: prune",
    state=int,
)
