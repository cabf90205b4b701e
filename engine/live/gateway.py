"""Before a request is sent: whether the provider should count it, whether it may go at all. And what to learn
from a provider that calls it too long. Functions of a plan; they ask a provider, and record nothing.
"""

from __future__ import annotations

from contextlib import suppress

from engine.envelope.difference import lapsed
from engine.envelope.plan import Plan
from engine.errors import ContextWindowExceededError, ProviderError, RuleError, UnsendableError
from engine.live.growing import Growing
from engine.live.provider import Provider, explained
from engine.planning.lint import lint
from engine.planning.render import body
from engine.pricing.prices import Prices
from engine.session.facts import count_of
from engine.session.model import Counted, Edit, Session


def counted(plan: Plan, session: Session, provider: Provider, share: float) -> Counted | None:
    """The provider's count of a plan's prompt; None below `share` of the budget, where it is known, and where none came."""
    near = share and plan.projected > share * plan.budget.limit
    if not near or count_of(session.recorded, plan.request.n, plan.seen.tokens):
        return None
    planned = body(plan, session)
    with suppress(ProviderError), explained(provider):  # without a count, planning goes on with the estimate
        tokens = provider.count(planned)
        return None if tokens is None else Counted(plan.request.n, plan.seen.tokens, tokens, plan.model)
    return None


def refusal(plan: Plan, session: Session, max_tokens: int) -> ContextWindowExceededError | None:
    """Why this request may not be sent: none over its window is, whatever the policy says."""
    window = plan.budget.window
    needed = plan.projected + (max_tokens if plan.budget.known else 0)
    if plan.verdict != "refuse" and needed <= window:
        return None
    used = sum(r.usage.prompt_tokens + r.usage.output_tokens for r in session.requests if r.usage)
    return ContextWindowExceededError(
        conversation_id=session.id,
        turn=plan.request.turn,
        request=plan.request.n,
        projected=needed,
        window=window,
        usage_so_far=used,
    )


def unsendable(plan: Plan, session: Session, prices: Prices) -> UnsendableError | None:
    """Why the provider would reject this request, whatever its size; what can be mended was, by the policy's last rules."""
    wrong = lint(body(plan, session), plan.model, prices=prices)
    return UnsendableError(wrong[0].path, wrong[0].what) if wrong else None


def learned(plan: Plan, error: ProviderError) -> Counted | None:
    """What a provider's refusal says of the prompt's size; None where it refused for another reason."""
    if not error.too_long:
        return None
    return Counted(plan.request.n, plan.seen.tokens, max(error.tokens, plan.budget.limit + 1, plan.projected), plan.model)


def smaller(plan: Plan, than: Plan) -> bool:
    """Whether a new plan is worth a second attempt: it carries less, goes elsewhere, or refuses by itself."""
    return plan.after.tokens < than.after.tokens or plan.model != than.model or plan.verdict == "refuse"


def gone(previous: Plan | None, plan: Plan, growing: Growing) -> tuple[Edit, ...]:
    """Edits that put back what the plan before had changed and this one does not, for those who follow the record."""
    if previous is None:
        return ()
    stands = previous.after.grow(plan.request.cut, growing.ledger)
    with suppress(RuleError):  # an edit of this plan that cuts a stand-in of the one before: put that back first
        for decision in plan.decisions:
            stands = stands.replace(decision.edit, decision.seq, growing.ledger)[0] if decision.splice else stands
        if not any(lapsed(stands, plan.after)):
            return ()
    return tuple(lapsed(previous.after, plan.before))
