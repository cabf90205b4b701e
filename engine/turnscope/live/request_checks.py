"""Checks before a request is sent: its size, its body, its destination.

And what a provider's "prompt too long" says about its size.

Functions of a plan. They may ask the provider for a count; they record nothing.
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
from turnscope.live import attachments
from turnscope.live.live_session import LiveSession
from turnscope.live.provider import Provider, translate_errors
from turnscope.numbering import format_turn
from turnscope.planning import refusals
from turnscope.planning.answers import Answers
from turnscope.planning.assemble import plan_step
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy
from turnscope.pricing.prices import Prices
from turnscope.session.destination import Destination
from turnscope.session.facts import find_count
from turnscope.session.model import JSON, CountFact, Edit, Part, Request, Session, Span, Usage

ALL_RULES, PAIRS_ONLY = "Anthropic", "OpenAI"  # rules that `planning.refusals` judges by: all that is known of; pairs alone
MAX_COUNT_RATIO = 4  # a count is believed up to this many times the projected tokens
MIN_ANSWER = 64  # tokens; a shorter answer is not worth a request
OPENING_SLOT = "opening"  # slot of the note before a conversation that begins with an answer


def count_prompt(plan: Plan, session: Session, provider: Provider, share: float, bodies: Bodies) -> CountFact | None:
    """Have the provider count the prompt of a plan.

    Args:
        plan: The plan of the request.
        session: Its session.
        provider: The provider that counts.
        share: Share of the budget from which a count is worth a request; 0 = never.
        bodies: Makes the body.

    Returns:
        The count. None if the prompt is smaller, if its count is known, or if the provider gave none that can be true.
    """
    near = share and plan.expected_tokens > share * plan.budget.limit
    if not near or find_count(session.recorded, plan.request.n, plan.seen.tokens):
        return None
    planned = bodies.build(plan, session)
    with suppress(ProviderError), translate_errors(provider):  # without a count the plan keeps its estimate
        tokens = provider.count_tokens(planned)
        if tokens is None or not is_plausible_count(plan, tokens):
            return None
        return CountFact(plan.request.n, plan.seen.tokens, tokens, plan.model)
    return None


def is_plausible_count(plan: Plan, tokens: int) -> bool:
    """Return whether a prompt can have so many tokens.

    A count is not believed if it fills the window and is more than four times the projected tokens. It would be taken for
    content that the log does not hold, and no further request would fit.

    Args:
        plan: The plan of the request.
        tokens: The count.
    """
    return tokens <= MAX_COUNT_RATIO * plan.expected_tokens or tokens + MIN_ANSWER <= plan.budget.window


def is_plausible_usage(plan: Plan, usage: Usage) -> bool:
    """Return whether a reported usage can be true.

    Args:
        plan: The plan of the request.
        usage: The reported usage.
    """
    return is_plausible_count(plan, usage.answered_prompt_tokens) and usage.output_tokens <= plan.budget.window


def check_destination(destination: Destination | None, provider: Provider, model: str) -> WrongDestination | None:
    """Return an error if the provider or the model at hand is not the chat's destination.

    Args:
        destination: Where the chat goes; None = anywhere, for a chat that is not stored.
        provider: Where the request would go.
        model: The model that would answer it.
    """
    if destination is None:
        return None
    at_hand = structs.replace(provider.destination, model=model)
    if destination.is_same_server(at_hand) and destination.model == model:
        return None
    what = f"this conversation goes to {destination}, but the request would have gone to {at_hand}"
    return WrongDestination(
        what, hint="Nothing was sent. Choose where it goes from here.", destination=str(destination), at_hand=str(at_hand)
    )


def build_opening(session: Session) -> Edit | None:
    """Return an insert for a conversation that begins with an answer, as some imported ones do: a provider would reject it.

    None if the conversation begins with a prompt, or has the insert already.
    """
    first = next((message for message in session.messages if message.role in ("user", "assistant")), None)
    has_opening = any(wish.edit.slot == OPENING_SLOT for wishes in session.recorded.wishes.values() for wish in wishes)
    if first is None or first.role == "user" or has_opening:
        return None
    note = Part("user", "text", "[The conversation begins with an answer.]")
    return Edit(
        "insert",
        "a provider rejects a conversation that begins with an answer",
        Span(first.start, first.start),
        (note,),
        slot=OPENING_SLOT,
    )


def plan_request(
    previous: Plan | None, live_session: LiveSession, request: Request, policy: Policy, answers: Answers | None = None
) -> Plan:
    """Plan the next request.

    If the window holds the prompt but not the longest answer, `max_tokens` is reduced to what is left.

    Without that, a policy that fills the window would never reach its next cut: a refused request does not make the chat grow.

    Args:
        previous: The plan of the last request; None = this is the first.
        live_session: The session.
        request: The request to plan.
        policy: The policy in force.
        answers: Answers the queries of rules; None = recorded answers only.
    """
    plan = plan_step(previous, live_session.session, request, policy, live_session.get_policy_basis(policy), answers)
    left, most = plan.budget.window - max(plan.expected_tokens, plan.largest_prompt), request.settings.get("max_tokens")
    if plan.verdict == "refuse" or not plan.budget.known or not isinstance(most, int) or not MIN_ANSWER <= left < most:
        return plan
    request = structs.replace(request, settings={**request.settings, "max_tokens": left})
    return plan_step(previous, live_session.session, request, policy, live_session.get_policy_basis(policy), answers)


def check_window(plan: Plan, session: Session, ledger: Ledger) -> ContextWindowExceededError | None:
    """Return an error if a request must not be sent: it does not fit its window, or its policy refuses it.

    Args:
        plan: The plan of the request.
        session: Its session.
        ledger: The token counts.
    """
    window = plan.budget.window
    answer = int(plan.request.settings.get("max_tokens") or 0) if plan.budget.known else 0
    needed = max(plan.expected_tokens + answer, plan.largest_prompt)
    nothing = not any(plan.after.counts[2:])
    if plan.verdict != "refuse" and needed <= window and not nothing:
        return None
    why = next((d.edit.because for d in reversed(plan.decisions) if d.action == "refuse"), "")
    large, alone = _find_oversized_message(
        plan, session, ledger, needed - plan.expected_tokens, nothing or plan.verdict == "refuse"
    )
    return ContextWindowExceededError(
        conversation_id=session.id,
        turn=plan.request.turn,
        request=plan.request.n,
        projected=needed,
        window=window,
        limit=plan.budget.limit,
        why=why or ("it leaves no message to send" if nothing else ""),
        alone=alone,
        message=large,
        counters=sum_usage(session),
    )


def _find_oversized_message(plan: Plan, session: Session, ledger: Ledger, answer: int, any_of: bool) -> tuple[int, str]:
    """Find a message that would not fit even if everything else were dropped.

    Returns its number and its description; -1 and "" if there is none.

    Args:
        plan: The plan of the request.
        session: Its session.
        ledger: The token counts.
        answer: Tokens that the answer needs.
        any_of: Look at all messages, not only at those that are sent verbatim.
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
    which = (
        "The newest message"
        if newest and kind == "message"
        else f"The {kind} of turn {format_turn(session.blocks[message.start].turn)}"
    )
    return number, f"{'A tool result' if message.origin == 'tool' else which} ({round(size):,} tokens)"


def sum_usage(session: Session) -> dict[str, int]:
    """Return what the requests of a session were billed in tokens, by the names of `errors.USAGE_COUNTERS`."""
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
    """Return an error if the provider would reject this body for another reason than its size.

    The policy has repaired what can be repaired. Of a server with other models only two rules are known: there must be a
    message, and calls and results must form pairs.

    Args:
        body: The request body.
        model: The model that it goes to.
        prices: The models that are known.
        bodies: Checks only what changed since the last body.
        destination: The server; None = the Anthropic API.
    """
    other = destination is not None and not destination.is_anthropic
    rules = refusals.find_judge(model, prices) or PAIRS_ONLY if other else ALL_RULES
    if wrong := refusals.select_refused(bodies.lint(body, model, prices), rules):
        return UnsendableError(wrong[0].path, wrong[0].what)
    large = attachments.find_oversized_image(body["messages"]) if rules == ALL_RULES else None
    return UnsendableError(*large) if large else None


def read_prompt_size(plan: Plan, error: ProviderError) -> CountFact | None:
    """Return the size of a prompt that the provider called too long.

    Args:
        plan: The plan of the request.
        error: The provider's error.

    Returns:
        The size; None if the request was refused for another reason.
    """
    if not error.too_long:
        return None
    return CountFact(
        plan.request.n, plan.seen.tokens, max(error.tokens, plan.budget.limit + 1, plan.expected_tokens), plan.model
    )


def is_worth_retry(plan: Plan, than: Plan) -> bool:
    """Return whether a new plan is worth a second attempt: it is smaller, goes to another model, or refuses the request itself.

    Args:
        plan: The new plan.
        than: The plan that was too long.
    """
    return plan.after.tokens < than.after.tokens or plan.model != than.model or plan.verdict == "refuse"


def find_reverted_edits(previous: Plan | None, plan: Plan, live_session: LiveSession) -> tuple[Edit, ...]:
    """Return edits that restore what the previous plan had changed and this one does not.

    A replay that follows the record needs them.

    Args:
        previous: The plan of the request before; None = there is none.
        plan: The plan of this request.
        live_session: The session.
    """
    if previous is None:
        return ()
    envelope = previous.after.grow(plan.request.cut, live_session.ledger)
    with suppress(RuleError):  # an edit of this plan cuts a placeholder of the previous one, which is restored first
        for decision in plan.decisions:
            envelope = envelope.replace(decision.edit, decision.seq, live_session.ledger)[0] if decision.splice else envelope
        if not any(build_lapse_edits(envelope, plan.after)):
            return ()
    return tuple(build_lapse_edits(previous.after, plan.before))
