"""Before a request is sent: whether the provider should count it, whether it may go at all. And what to learn
from a provider that calls it too long. Functions of a plan; they ask a provider, and record nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import structs

from turnscope.counting.ledger import Ledger
from turnscope.envelope.difference import build_lapse_edits
from turnscope.envelope.plan import Plan
from turnscope.errors import (
    USAGE_COUNTERS,
    ContextWindowExceededError,
    ProviderError,
    RuleError,
    UnsendableError,
    WrongDestination,
)
from turnscope.live.live_session import LiveSession
from turnscope.live.provider import Provider, translate_errors
from turnscope.planning import refusals
from turnscope.planning.answers import Answers
from turnscope.planning.assemble import plan_step
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy
from turnscope.pricing.prices import Prices
from turnscope.session.destination import Destination
from turnscope.session.facts import find_count
from turnscope.session.model import JSON, CountFact, Edit, Part, Request, Session, Span, Usage
from turnscope.views import attachments

ALL_RULES, PAIRS_ONLY = "Anthropic", "OpenAI"  # rules that `planning.refusals` judges by: all that is known of; pairs alone
MAX_COUNT_RATIO = 4  # times as many tokens as were expected
MIN_ANSWER = 64  # tokens of an answer that are worth asking for
OPENING_SLOT = "opening"  # slot of what stands before a conversation that begins with an answer


def count_prompt(plan: Plan, session: Session, provider: Provider, share: float, bodies: Bodies) -> CountFact | None:
    """The provider's count of a plan's prompt; None below `share` of the budget, where it is known, and where none came."""
    near = share and plan.projected > share * plan.budget.limit
    if not near or find_count(session.recorded, plan.request.n, plan.seen.tokens):
        return None
    planned = bodies.build(plan, session)
    with suppress(ProviderError), translate_errors(provider):  # without a count, planning goes on with the estimate
        tokens = provider.count_tokens(planned)
        if tokens is None or not is_plausible_count(plan, tokens):
            return None
        return CountFact(plan.request.n, plan.seen.tokens, tokens, plan.model)
    return None


def is_plausible_count(plan: Plan, tokens: int) -> bool:
    """Whether a prompt can have so many tokens: what would fill the window, and was far from it, is a provider's mistake.

    Believed, it would stand for what the log does not hold, and nothing could be sent any more.
    """
    return tokens <= MAX_COUNT_RATIO * plan.projected or tokens + MIN_ANSWER <= plan.budget.window


def is_plausible_usage(plan: Plan, usage: Usage) -> bool:
    """Whether a provider can mean what it says that it used."""
    return is_plausible_count(plan, usage.answered_prompt_tokens) and usage.output_tokens <= plan.budget.window


def check_destination(destination: Destination | None, provider: Provider, model: str) -> WrongDestination | None:
    """Why nothing may be sent: the provider or the model at hand is not the one that the conversation goes to."""
    if destination is None:  # nobody said where it goes: a chat that is not kept
        return None
    at_hand = structs.replace(provider.destination, model=model)
    if destination.is_same_server(at_hand) and destination.model == model:
        return None
    what = f"this conversation goes to {destination}, and would have been sent to {at_hand}"
    return WrongDestination(
        what, hint="Nothing was sent. Choose where it goes from here.", destination=str(destination), at_hand=str(at_hand)
    )


def build_opening(session: Session) -> Edit | None:
    """What has to stand before a conversation that begins with an answer (some that are imported do).

    None where it begins otherwise, or that stands there already.
    """
    first = next((message for message in session.messages if message.role in ("user", "assistant")), None)
    made = any(wish.edit.slot == OPENING_SLOT for wishes in session.recorded.wishes.values() for wish in wishes)
    if first is None or first.role == "user" or made:
        return None
    note = Part("user", "text", "[The conversation begins with an answer.]")
    return Edit(
        "insert",
        "a provider takes no conversation that begins with an answer",
        Span(first.start, first.start),
        (note,),
        slot=OPENING_SLOT,
    )


def plan_request(
    previous: Plan | None, live_session: LiveSession, request: Request, policy: Policy, answers: Answers | None = None
) -> Plan:
    """The plan of the next request. Where the window holds the prompt and not the whole answer, the answer may be as long as
    it holds: a policy that fills the window would never get to its next cut, for nothing that is refused makes a chat grow.
    """
    plan = plan_step(previous, live_session.session, request, policy, live_session.get_policy_basis(policy), answers)
    left, most = plan.budget.window - max(plan.projected, plan.largest), request.settings.get("max_tokens")
    if plan.verdict == "refuse" or not plan.budget.known or not isinstance(most, int) or not MIN_ANSWER <= left < most:
        return plan
    request = structs.replace(request, settings={**request.settings, "max_tokens": left})
    return plan_step(previous, live_session.session, request, policy, live_session.get_policy_basis(policy), answers)


def check_window(plan: Plan, session: Session, ledger: Ledger) -> ContextWindowExceededError | None:
    """Why this request may not be sent: none over its window is, whatever the policy says."""
    window = plan.budget.window
    answer = int(plan.request.settings.get("max_tokens") or 0) if plan.budget.known else 0
    needed = max(plan.projected + answer, plan.largest)
    nothing = not any(plan.after.counts[2:])
    if plan.verdict != "refuse" and needed <= window and not nothing:
        return None
    why = next((d.edit.because for d in reversed(plan.decisions) if d.action == "refuse"), "")
    large, alone = _find_oversized_message(plan, session, ledger, needed - plan.projected, nothing or plan.verdict == "refuse")
    return ContextWindowExceededError(
        conversation_id=session.id,
        turn=plan.request.turn,
        request=plan.request.n,
        projected=needed,
        window=window,
        limit=plan.budget.limit,
        why=why or ("it leaves nothing of the conversation to be sent" if nothing else ""),
        alone=alone,
        message=large,
        counters=sum_usage(session),
    )


def _find_oversized_message(plan: Plan, session: Session, ledger: Ledger, answer: int, any_of: bool) -> tuple[int, str]:
    """The largest message that stands whole (or `any_of` them), if no cut of others would make room for it.

    Its number, and what it is called; -1 and "" where none is so large.
    """
    number, size = -1, 0.0
    whole = [piece for piece in plan.after.pieces if piece.body is None]
    for n, message in enumerate(session.messages):
        if message.role not in ("user", "assistant") or message.stop > plan.request.cut:
            continue
        tokens = plan.calibration.scale * ledger.count_tokens(message.start, message.stop)
        if tokens >= size and (any_of or any(p.start < message.stop and message.start < p.stop for p in whole)):
            number, size = n, tokens
    if number < 0 or size + answer <= min(plan.budget.window, max(plan.budget.limit, 1)):
        return -1, ""
    message = session.messages[number]
    newest = all(later.role != "user" for later in session.messages[number + 1 :])
    kind = "answer" if message.role == "assistant" else "message"
    which = "The newest message" if newest and kind == "message" else f"The {kind} of turn {session.blocks[message.start].turn}"
    return number, f"{'A tool result' if message.origin == 'tool' else which} ({round(size):,} tokens)"


def sum_usage(session: Session) -> dict[str, int]:
    """What a session's requests were billed, by the names of `errors.COUNTERS`, in tokens."""
    used = [usage for request in session.requests if request.usage for usage in request.usage.passes]
    sums = (
        sum(u.prompt_tokens for u in used),
        sum(u.output_tokens for u in used),
        sum(u.cache_read_input_tokens for u in used),
        sum(u.cache_creation_input_tokens for u in used),
    )
    return dict(zip(USAGE_COUNTERS, sums, strict=True))


def check_body(
    body: Mapping[str, JSON], model: str, prices: Prices, bodies: Bodies, destination: Destination | None
) -> UnsendableError | None:
    """Why the provider at `place` would reject this body, whatever its size; what can be mended was, by the policy.

    Of a server of other models it is known that a message must be there and that calls and results are paired, and no more.
    """
    rules = refusals.find_judge(model, prices) or PAIRS_ONLY if destination and destination.kind == "server" else ALL_RULES
    if wrong := refusals.select_refused(bodies.lint(body, model, prices), rules):
        return UnsendableError(wrong[0].path, wrong[0].what)
    large = attachments.find_oversized_image(body["messages"]) if rules == ALL_RULES else None
    return UnsendableError(*large) if large else None


def read_prompt_size(plan: Plan, error: ProviderError) -> CountFact | None:
    """What a provider's refusal says of the prompt's size; None where it refused for another reason."""
    if not error.too_long:
        return None
    return CountFact(plan.request.n, plan.seen.tokens, max(error.tokens, plan.budget.limit + 1, plan.projected), plan.model)


def is_worth_retry(plan: Plan, than: Plan) -> bool:
    """Whether a new plan is worth a second attempt: it carries less, goes elsewhere, or refuses by itself."""
    return plan.after.tokens < than.after.tokens or plan.model != than.model or plan.verdict == "refuse"


def find_reverted_edits(previous: Plan | None, plan: Plan, live_session: LiveSession) -> tuple[Edit, ...]:
    """Edits that put back what the plan before had changed and this one does not, for those who follow the record."""
    if previous is None:
        return ()
    stands = previous.after.grow(plan.request.cut, live_session.ledger)
    with suppress(RuleError):  # an edit of this plan that cuts a stand-in of the one before: put that back first
        for decision in plan.decisions:
            stands = stands.replace(decision.edit, decision.seq, live_session.ledger)[0] if decision.splice else stands
        if not any(build_lapse_edits(stands, plan.after)):
            return ()
    return tuple(build_lapse_edits(previous.after, plan.before))
