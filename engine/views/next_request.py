"""A request of a chat that is not sent yet, in the provider's tokens.

Its total is the plan's own projection, by which it is sent or refused; prefix and scale are those of everything else shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.counting.reconcile import Fit
from engine.envelope.plan import Plan
from engine.planning.trace import fits_of
from engine.session.model import Session
from engine.views.overview import CELLS

Fits = Sequence[Fit]


def fits(session: Session, sizes: Sequence[int], plan: Plan | None = None) -> Fits:
    """Prefix and scale of a chat's requests, which carried `sizes` counted tokens, and of the one that is planned next."""
    requests = session.requests
    if plan and plan.request.n >= len(requests):
        return fits_of(session, (*requests, plan.request), (*sizes[: len(requests)], plan.seen.tokens))
    return fits_of(session, requests, sizes[: len(requests)])


def fit(fits: Fits, request: int) -> Fit:
    """That of one request; where nothing was sent yet, no prefix and the counter's own scale."""
    return next((fit for fit in fits if fit.start <= request < fit.stop), Fit(request, request + 1, 0, 1.0))


def parts(plan: Plan, fit: Fit) -> dict[str, int]:
    """Provider tokens by part, as `CELLS` names them; they sum to `plan.projected`. The prefix only where there is one."""
    prefix = min(fit.prefix, plan.projected)
    scale = (plan.projected - prefix) / max(1, plan.seen.tokens)
    named = {name: round(count * scale) for name, count in zip(CELLS[:5], plan.seen.counts, strict=True)}
    return ({"prefix": prefix} if prefix else {}) | named
