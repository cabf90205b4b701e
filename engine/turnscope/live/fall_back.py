"""A request whose policy leaves nothing that can be sent is planned without it, once, and says so.

A rule may fail, what it leaves may be nothing that a provider takes, and a policy may make too little room. None of these ends
a chat: `envelope.fall_back` keeps what fits of the newest turns, and the policy goes on from there. A policy without any rule
that cuts makes no room by intent: what does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from turnscope.envelope import fall_back, wishes
from turnscope.envelope.plan import Plan
from turnscope.errors import ContextWindowExceededError, ProviderError, TurnscopeError
from turnscope.live import request_checks
from turnscope.live.chat_state import ChatState
from turnscope.live.events import FellBack
from turnscope.planning.policy import CHECKS, REPAIRS, WISHES

SHARE = 0.5  # of the room for a prompt that the newest turns may fill; so the next requests need not fall back again


def plan_sendable(chat: ChatState, plan: Callable[[], Plan]) -> tuple[Plan, FellBack | None]:
    """Plan a request, and once more without the policy if its plan cannot be sent.

    Args:
        chat: The chat.
        plan: Plans the request under the policy.

    Returns:
        The plan, and what happened if it is not the policy's.

    Raises:
        TurnscopeError: A rule failed, and what is left without the policy cannot be sent either.
    """
    failed: TurnscopeError | None = None
    made: Plan | None = None
    try:
        made = plan()
        failed = _find_wrong(chat, made)
    except TurnscopeError as error:
        failed = error
    if failed is None:
        assert made is not None
        return made, None
    again, fell_back = plan_without_policy(chat, made, failed)
    if again is not None:
        return again, fell_back
    if made is None:
        raise failed
    return made, None


def plan_without_policy(chat: ChatState, tried: Plan | None, failed: TurnscopeError) -> tuple[Plan | None, FellBack | None]:
    """Plan the next request without the rules of its policy, and record that.

    Args:
        chat: The chat.
        tried: The plan under the policy; None = its rules failed.
        failed: Why that plan cannot be sent.

    Returns:
        The plan, and what happened; None for both if nothing can be sent in this way either, or if the policy never cuts.
    """
    if not _may_fall_back(chat, failed):
        return None, None
    session, name, before = chat.live_session.session, chat.policy.name, chat.live_session.facts
    if not chat.live_session.basis.index.messages:
        return None, None
    why = f"The policy {name!r} left no request that can be sent: {failed.what}."
    start = chat.plan_by_hand()
    ctx, number = chat.build_context(start), start.request.n
    room = min(start.budget.limit, start.budget.window - chat.answer_limit)
    most = round(SHARE * room)
    if tried is not None and isinstance(failed, ContextWindowExceededError | ProviderError):
        most = min(most, round(SHARE * tried.expected_tokens))
    request = tried.request if tried else start.request
    for edits in (
        fall_back.keep_newest_turns(start.after, ctx, name, why, most),
        fall_back.keep_newest_message(start.after, ctx, name, why),
    ):
        fact = wishes.add_wishes(session, number, edits)
        chat.live_session.record_fact(fact)
        with suppress(TurnscopeError):
            plan = request_checks.plan_request(chat.plan, chat.live_session, request, chat.policy, chat.build_answers())
            if _find_wrong(chat, plan) is None:
                chat.live_session.restore_facts(before)
                chat.record_fact(fact)
                return plan, FellBack(edits[0].because)
        chat.live_session.restore_facts(before)
    return None, None


def _find_wrong(chat: ChatState, plan: Plan) -> TurnscopeError | None:
    """Why a plan cannot be sent; None if it can."""
    if refused := request_checks.check_window(plan, chat.live_session.session, chat.live_session.ledger):
        return refused
    body = chat.bodies.build(plan, chat.live_session.session)
    return request_checks.check_body(body, plan.model, chat.live_session.prices, chat.bodies, chat.destination)


def _may_fall_back(chat: ChatState, failed: TurnscopeError) -> bool:
    """Whether a policy may be left: it cuts, or what failed is not the size."""
    if not isinstance(failed, ContextWindowExceededError | ProviderError):
        return True
    return any(part.rule.name not in (WISHES, *REPAIRS, *CHECKS) for part in chat.policy.rules)
