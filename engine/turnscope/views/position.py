"""The placement of a block in a request's prompt: near its start, near its end, or in the middle, where models recall least.

The measure is the share of the prompt's provider tokens before the block, in the provider's order.
"""

from __future__ import annotations

from typing import Literal

from turnscope.planning.prompt_cache import count_tokens_from
from turnscope.planning.trace import Trace
from turnscope.session.model import Bucket

Region = Literal["head", "middle", "tail"]

LONG_PROMPT = 50_000  # tokens; in a shorter prompt the placement matters little


def compute_share(trace: Trace, request: int, at: int) -> float:
    """Compute the share of a request's prompt before a block, 0 to 1.

    Args:
        trace: the replay.
        request: number of the request.
        at: address of the block.

    Raises:
        IndexError: there is no such request or block.
    """
    if trace.session.blocks[at].bucket in (Bucket.SYSTEM, Bucket.TOOLS):
        return 0.0
    rest = count_tokens_from(trace.plans[request].seen, at, trace.ledger) * trace.get_terms(request).scale
    return min(1.0, max(0.0, 1 - rest / max(1, trace.count_tokens(request))))


def compute_shares(trace: Trace, request: int) -> dict[int, float]:
    """Compute the share of the prompt before every verbatim block of a request, 0 to 1.

    Args:
        trace: the replay.
        request: number of the request.

    Raises:
        IndexError: there is no such request.
    """
    ledger, blocks, behind = trace.ledger, trace.session.blocks, 0
    scale, whole = trace.get_terms(request).scale, max(1, trace.count_tokens(request))
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
    """The region of a share: the middle half is the middle, the quarters around it are head and tail.

    >>> [classify_position(share) for share in (0.1, 0.5, 0.8)]
    ['head', 'middle', 'tail']
    """
    return "head" if share < 0.25 else "tail" if share >= 0.75 else "middle"


def is_mid_prompt(before: float, upto: float) -> bool:
    """Whether content lies completely in the middle half.

    Args:
        before: share of the prompt before its start.
        upto: share of the prompt before its end.
    """
    return classify_position(before) == classify_position(upto) == "middle"
