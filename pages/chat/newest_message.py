"""The newest message of a chat: whether it waits for an answer, what went wrong, and what can be done about it."""

from __future__ import annotations

from typing import Any

from turnscope import Session
from turnscope.live.chat import Chat

from pages.chat import open_chats
from pages.chat.open_chats import OpenChat
from pages.parts import cache


def find_problem(open_chat: OpenChat) -> dict[str, Any] | None:
    """Why the newest request is not complete, as the store has it; None where it is, or nothing is known."""
    last = open_chat.session.requests[-1] if open_chat.session.requests else None
    if last is None or last.stop_reason not in ("interrupted", "refused", "error"):
        return None
    if last.stop == last.cut and not is_unanswered(open_chat):  # what it was to answer was left out since
        return None
    found = cache.open_chat_store().list_problems(open_chat.thread).get(last.n)
    return dict(found) if found else None


def is_unanswered(open_chat: OpenChat) -> bool:
    """The newest message that was not left out waits for an answer."""
    out = _find_excluded(open_chat.session)
    messages = [m for m in open_chat.session.messages if m.role in ("user", "assistant") and m.start not in out]
    return bool(messages) and messages[-1].role == "user"


def is_interrupted(open_chat: OpenChat) -> bool:
    """The newest request was stopped, or its stream broke."""
    return bool(open_chat.session.requests) and open_chat.session.requests[-1].stop_reason == "interrupted"


def find_answers(open_chat: OpenChat) -> list[int]:
    """Numbers of the messages that answer the newest prompt; none where it waits for one."""
    messages = open_chat.session.messages
    prompt = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].origin == "prompt"), None)
    if prompt is None or is_unanswered(open_chat):
        return []
    out = _find_excluded(open_chat.session)
    roles = ("user", "assistant")
    return [n for n in range(prompt + 1, len(messages)) if messages[n].role in roles and messages[n].start not in out]


def regenerate(open_chat: OpenChat) -> None:
    """Ask for another answer to the newest prompt; the one there is stays in the chat, and in no further request."""
    gone = find_answers(open_chat)

    def exclude(chat: Chat) -> None:
        for number in gone:
            chat.exclude_message(number)

    open_chats.change_chat(open_chat, exclude)
    open_chats.start_turn(open_chat, lambda chat: chat.continue_turn())


def exclude_message(open_chat: OpenChat, named: int = -1) -> None:
    """Leave a message out of every further request; of tool results, the calls, too.

    Args:
        open_chat: the chat.
        named: number of the message; -1 = the newest.
    """
    messages = open_chat.session.messages
    newest = named if 0 <= named < len(messages) else max(n for n, message in enumerate(messages) if message.role == "user")
    gone = [newest - 1, newest] if messages[newest].origin == "tool" and messages[newest - 1].role == "assistant" else [newest]

    def exclude(chat: Chat) -> None:
        for number in gone:
            chat.exclude_message(number)

    open_chats.change_chat(open_chat, exclude)
    open_chat.ending = None


def _find_excluded(session: Session) -> set[int]:
    """Where the messages begin that were left out by hand."""
    wishes = (wish.edit for wishes in session.recorded.wishes.values() for wish in wishes)
    return {edit.span.start for edit in wishes if edit.action == "drop" and edit.span}


def get_answer_text(session: Session) -> str:
    """The text of the newest answer; "" where there is none."""
    answer = next((message for message in reversed(session.messages) if message.role == "assistant"), None)
    return "\n\n".join(b.text for b in session.blocks[answer.start : answer.stop] if b.kind == "text") if answer else ""
