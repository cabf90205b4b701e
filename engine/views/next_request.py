"""A request of a chat that is not sent yet, in the provider's tokens.

Its total is the plan's own projection, by which it is sent or refused; what is hidden and the scale are those of everything
else shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.counting.reconcile import CELLS, Fit, Terms
from engine.envelope.plan import Plan
from engine.planning.trace import fits_of
from engine.session.model import Session

Fits = Sequence[Fit]


def fits(session: Session, sizes: Sequence[int], plan: Plan | None = None) -> Fits:
    """Prefix and scale of a chat's requests, which carried `sizes` counted tokens, and of the one that is planned next."""
    requests = session.requests
    if plan and plan.request.n >= len(requests):
        return fits_of(session, (*requests, plan.request), (*sizes[: len(requests)], plan.seen.tokens))
    return fits_of(session, requests, sizes[: len(requests)])


def fit(fits: Fits, request: int) -> Terms:
    """That of one request; where nothing was sent yet, nothing hidden and the counter's own scale."""
    return next((fit for fit in fits if fit.start <= request < fit.stop), Fit(request, request + 1, 0, 1.0)).elsewhere


def parts(plan: Plan, fit: Terms) -> dict[str, int]:
    """Provider tokens by part, as `CELLS` names them; they sum to `plan.projected`. What is hidden only where it is."""
    prefix = min(fit.prefix, plan.projected)
    earlier = min(fit.earlier, plan.projected - prefix)
    scale = (plan.projected - prefix - earlier) / max(1, plan.seen.tokens)
    named = {name: round(count * scale) for name, count in zip(CELLS[:5], plan.seen.counts, strict=True)}
    return {name: tokens for name, tokens in (("prefix", prefix), ("earlier", earlier)) if tokens} | named
