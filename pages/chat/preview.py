"""A chat's next request before it is sent: what it carries and weighs, whether it would go, when the chat is cut next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnscope import Session, TurnscopeError
from turnscope.live import attachments, branches, endpoints, request_checks
from turnscope.live.chat import Chat
from turnscope.live.sinks import NullSink
from turnscope.views import Plan, next_request, user_rules

from pages.chat import choices, context, open_chats
from pages.chat.open_chats import OpenChat
from pages.parts import chat_form
from pages.parts.chat_form import get_value


@dataclass(frozen=True, slots=True)
class RequestPreview:
    """The next request; `refused`: why it would not be sent, None = it would be.

    `attachment_tokens`: those of each file that would go with the message. `middle`: what is in the middle of a long request
    (`next_request.find_mid_prompt`). `lost_rules`: rules that a person gave and the request lacks.
    """

    plan: Plan
    session: Session
    refused: TurnscopeError | None = None
    attachment_tokens: tuple[int, ...] = ()
    middle: tuple[str, float] | None = None
    lost_rules: user_rules.LostRules | None = None

    @property
    def states(self) -> tuple[next_request.State, ...]:
        return next_request.list_states(self.plan, self.session)


def preview_request(open_chat: OpenChat | None, text: str = "", files: Sequence[Any] = ()) -> RequestPreview | None:
    """The next request, if `text` were sent first with `files` attached; during a turn, the request being answered.

    Args:
        open_chat: the chat; None = one that is not begun yet.
        text: text of the next message.
        files: its attachments, as content blocks.
    """
    if open_chat is None:
        return _preview(build_draft(), text, files)
    with open_chat.lock:
        open_chat.absorb_events()
        if open_chat.is_busy:
            return RequestPreview(open_chat.log[max(open_chat.log)], open_chat.session) if open_chat.log else None
        open_chat.chat.settings = open_chats.resolve_settings(open_chat, choices.find_destination(open_chat.thread)[0])
        context.attach_preview(open_chat.chat, open_chat.thread)
        return _preview(open_chat.chat, text, files, open_chat.log[max(open_chat.log)] if open_chat.log else None)


def _preview(chat: Chat, text: str, files: Sequence[Any], before: Plan | None = None) -> RequestPreview:
    plan, growing = chat.preview_after([("user", attachments.append_text(files, text))] if text or files else ())
    first = len(growing.ledger) - len(files) - bool(text.strip())
    scale, ledger = plan.calibration.scale, growing.ledger
    sizes = tuple(round(scale * ledger.count_tokens(at, at + 1)) for at in range(first, first + len(files)))
    refused = request_checks.check_window(plan, growing.session, growing.ledger)
    middle = next_request.find_mid_prompt(plan, growing.session, ledger)
    lost = user_rules.find_next_lost(plan, before, growing.session, ledger)
    return RequestPreview(plan, growing.session, refused, sizes, middle, lost)


def predict_cut(open_chat: OpenChat | None) -> next_request.NextCut | None:
    """When the chat is cut next; None while a turn is under way."""
    chat = open_chat.chat if open_chat else build_draft()
    if open_chat is None:
        return _predict_cut(chat)
    with open_chat.lock:
        if open_chat.is_busy:
            return None
        session = chat.live_session.session
        key = (len(session.blocks), len(session.requests), session.recorded, chat.settings)
        if open_chat.cut_forecast is None or open_chat.cut_forecast[0] != key:
            open_chat.cut_forecast = (key, _predict_cut(chat))
        return open_chat.cut_forecast[1]


def _predict_cut(chat: Chat) -> next_request.NextCut:
    plan, growing = chat.preview_after(())
    growth = next_request.measure_growth(growing.session, growing.ledger, plan.calibration.scale)
    found = next_request.predict_next_cut(lambda text: chat.preview_after(text)[0], growth)
    # Beyond it nothing is sent, whatever the policy says.
    room = plan.budget.window - min(chat.answer_limit, request_checks.MIN_ANSWER)
    if plan.budget.known and (found.cut_at is None or found.blocked) and room > 0:
        turns = max(1, (room - plan.expected_tokens) // growth + 1) if growth else None
        return next_request.NextCut(room, turns, growth, blocked=True)
    return found


def list_fits(open_chat: OpenChat | None, plan: Plan | None) -> next_request.Fits:
    """Prefix and scale of every request so far and of the one that is planned; () where there is no chat yet.

    Args:
        open_chat: the chat; None = one that is not begun yet.
        plan: the request that is planned, if there is one.
    """
    return next_request.fit_requests(open_chat.session, open_chat.chat.prompt_tokens, plan) if open_chat else ()


def build_draft() -> Chat:
    """A chat that is only weighed: what a first message would be sent with."""
    spare = endpoints.connect_endpoint(endpoints.Endpoint(), chat_form.get_offline_server())
    chat = branches.start_chat("draft", spare, NullSink(), choices.build_settings(), get_value("system"), choices.list_tools())
    chat.destination = chat_form.get_destination()
    context.attach_preview(chat, "")
    return chat
