"""Where in the prompt of a request a block stands: near its beginning or end, or in the middle, of which models make least.

Holds the measure alone: the share of the prompt's provider tokens that stand before a block, in the order of the provider.
"""

from __future__ import annotations

from typing import Literal

from turnscope.planning.prompt_cache import count_tokens_from
from turnscope.planning.trace import Trace
from turnscope.session.model import Bucket

Region = Literal["head", "middle", "tail"]

LONG_PROMPT = 50_000  # tokens of a prompt; in a shorter one it matters little where something stands


def compute_share(trace: Trace, request: int, at: int) -> float:
    """Which share of a request's prompt stands before block `at`, 0 to 1. IndexError where there is no such one of either."""
    if trace.session.blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS):
        return 0.0
    rest = count_tokens_from(trace.plans[request].seen, at, trace.ledger) * trace.fit(request).scale
    return min(1.0, max(0.0, 1 - rest / max(1, trace.tokens(request))))


def compute_shares(trace: Trace, request: int) -> dict[int, float]:
    """The same of every block that stands in a request as it is. IndexError where there is no such request."""
    ledger, blocks, behind = trace.ledger, trace.session.blocks, 0
    scale, whole = trace.fit(request).scale, max(1, trace.tokens(request))
    found: dict[int, float] = {}
    for piece in reversed([*trace.plans[request].seen.pieces]):
        if piece.body is not None:
            behind += sum(piece.counts[2:])
            continue
        for at in range(piece.stop - 1, piece.start - 1, -1):
            behind += sum(ledger.count_by_bucket(at, at + 1)[2:])
            static = blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS)
            found[at] = 0.0 if static else min(1.0, max(0.0, 1 - behind * scale / whole))
    return found


def classify_position(share: float) -> Region:
    """The middle half is the middle; the quarters around it are head and tail."""
    return "head" if share < 0.25 else "tail" if share >= 0.75 else "middle"


def is_mid_prompt(before: float, upto: float) -> bool:
    """Whether what begins behind one share of the prompt and ends at another stands in the middle half as a whole."""
    return classify_position(before) == classify_position(upto) == "middle"
