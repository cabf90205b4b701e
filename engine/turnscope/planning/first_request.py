"""What the first request of a session holds beyond its log: a prior, since there is no earlier request to learn from."""

from __future__ import annotations

from collections.abc import Mapping

from turnscope.counting.calibration import LEAST_ERROR, UNKNOWN_ERROR, PrefixPrior
from turnscope.counting.ledger import Ledger
from turnscope.session.model import CHAT, PROMPT_PRIOR, Bucket, Session

OWN_BILL = "what its own first request was billed"


def get_prompt_prior(session: Session) -> tuple[int, str]:
    """Tokens that system prompt and tools are taken to have, and from where; 0 and "" where other sessions show nothing."""
    prior = session.about.get(PROMPT_PRIOR)
    tokens, source = (prior.get("tokens"), prior.get("source")) if isinstance(prior, Mapping) else (None, None)
    return (tokens, source) if isinstance(tokens, int) and isinstance(source, str) else (0, "")


def find_prior(session: Session, ledger: Ledger) -> PrefixPrior | None:
    """Find the prior of a session that was held elsewhere: what its first request was billed beyond what its log holds.

    Where nothing was billed, it is what sessions of the same tool and version show of system prompt and tools that the log
    lacks. None of this depends on later requests, so a replay of the first ones alone gives the same plans. A chat knows all
    that it sends, and has no prior.

    Args:
        session: The session.
        ledger: Token counts of its blocks.

    Returns:
        The prior; None where nothing shows one.
    """
    if session.source == CHAT or not session.requests:
        return None
    first = session.requests[0]
    if first.usage and first.usage.answered_prompt_tokens and not first.usage.iterations:
        hidden = first.usage.answered_prompt_tokens - ledger.count_tokens(0, first.cut)
        return PrefixPrior(max(0, hidden), LEAST_ERROR, OWN_BILL)
    tokens, source = get_prompt_prior(session)
    has_static = any(block.bucket in (Bucket.SYSTEM, Bucket.TOOLS) for block in session.blocks[: first.cut])
    return PrefixPrior(tokens, UNKNOWN_ERROR, source) if tokens and not has_static else None
