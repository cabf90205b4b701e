"""Notices of a chat: how a turn ended, what is to be known of it, and the ways out, as buttons next to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live.endpoints import FIXED
from turnscope.live.events import (
    AnswerInterrupted,
    FellBack,
    LimitReached,
    RequestRefused,
    TurnFailed,
    TurnStopped,
    UnfinishedTurn,
    UsageIgnored,
    WindowAssumed,
)

from pages.chat import choices, newest_message, open_chats
from pages.parts import widgets
from pages.parts.formats import escape, format_usd

ENDINGS = {LimitReached: "On hold", RequestRefused: "Not sent", TurnFailed: "Failed", AnswerInterrupted: "Interrupted"}
T = TypeVar("T")
KINDS = {  # errors by the class names that are stored; chats of version 0.1 hold `WrongPlace`
    "ContextWindowExceededError": "Not sent",
    "WrongDestination": "Not sent",
    "WrongPlace": "Not sent",
}


def attempt(what: Callable[[], T]) -> T | None:
    """Do something that may be refused; shows why, and gives None."""
    try:
        return what()
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
    return None


def _draw_card(title: str, what: str, hint: str, facts: Mapping[str, object] | None = None, role: str = "alert") -> None:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in (facts or {}).items())
    more = f'<details class="part"><summary>Numbers</summary><dl class="chat-facts">{rows}</dl></details>' if rows else ""
    head = f"<b>{escape(title)}: {escape(what)}</b>" if title else f"<b>{escape(what)}</b>"
    st.html(f'<div class="ts-card ts-notice" role="{role}">{head}<p>{escape(hint)}</p>{more}</div>')


def draw_ending(open_chat: open_chats.OpenChat, event: UnfinishedTurn) -> None:
    """Why a turn ended early, with what can be done about it.

    Args:
        open_chat: the chat.
        event: how its turn ended.
    """
    if isinstance(event, LimitReached):
        hint = "Go on if that is what you want, or raise the limit in the settings."
        if event.usd and "would cost" not in event.why:
            least, most = map(format_usd, event.usd)
            hint = f"Sending this would cost {least}, up to {most} with the longest answer. {hint}"
        _draw_card(ENDINGS[LimitReached], event.why, hint)
        _draw_button("Go on", "chat.over", partial(_continue_turn, open_chat, True), primary=True)
        return
    error = event.error
    _draw_card(KINDS.get(type(error).__name__) or ENDINGS[type(event)], error.what, error.hint, list_facts(vars(error)))
    _draw_ways_out(
        open_chat, isinstance(event, RequestRefused) or bool(getattr(error, "too_long", False)), getattr(error, "message", -1)
    )


def draw_stored_problem(open_chat: open_chats.OpenChat, problem: Mapping[str, Any]) -> None:
    """Why the newest request of a chat that was opened again is not complete.

    Args:
        open_chat: the chat.
        problem: what its store says of the request.
    """
    kind = str(problem.get("kind") or "")
    _draw_card(KINDS.get(kind, "Interrupted"), str(problem.get("what")), str(problem.get("hint") or ""), list_facts(problem))
    _draw_ways_out(open_chat, kind == "ContextWindowExceededError" or bool(problem.get("too_long")), problem.get("message", -1))


def list_facts(fields: Mapping[str, Any]) -> dict[str, object]:
    """The numbers of an error, as a person reads them; none where it has none."""
    if "projected" not in fields:
        return {}
    names = {
        "conversation_id": "conversation",
        "turn": "turn",
        "request": "request",
        "projected": "tokens with the answer",
        "window": "window",
        "limit": "left for the prompt",
    }
    named = {words: fields[name] for name, words in names.items() if name in fields}
    return {words: f"{value:,}" if isinstance(value, int) else value for words, value in named.items()} | {
        name: f"{tokens:,}" for name, tokens in (fields.get("counters") or {}).items()
    }


def draw_remarks(open_chat: open_chats.OpenChat) -> None:
    """What else is to be known of the newest turn: how its answer ended, an assumed window, a store that cannot be written."""
    for event in open_chat.remarks:
        if isinstance(event, TurnStopped | FellBack | UsageIgnored):
            _draw_card("", event.what, "", role="status")
        else:
            draw_assumed_window(event)
    if open_chat.write_error:
        draw_write_failure(open_chat.write_error)
        _draw_button("Try again", "chat.keep", partial(_retry_writes, open_chat))


def draw_write_failure(error: TurnscopeError) -> None:
    """The conversation is in memory alone."""
    _draw_card("Not written yet", error.what, f"It is held in memory and tried again; leave the app open. {error.hint}".strip())


def draw_assumed_window(event: WindowAssumed) -> None:
    """Nobody knows how large the model's window is."""
    if st.session_state.get("chat.window"):
        return
    _draw_card(
        "",
        f"The window of {event.model} is unknown: {event.window:,} tokens are assumed.",
        "If the real window is smaller, the server may cut prompts silently.",
        role="status",
    )
    _draw_window_form("assumed")


def _draw_ways_out(open_chat: open_chats.OpenChat, long: bool, alone: int = -1) -> None:
    """`alone`: the number of a message that does not fit by itself."""
    with st.container(horizontal=True, gap="small", key="chat-ways"):
        if newest_message.is_unanswered(open_chat):
            _draw_button("Try again", "chat.answer", partial(_continue_turn, open_chat, False), primary=not long)
        if long and open_chat.session.messages and newest_message.is_unanswered(open_chat):
            which = f"message {alone}" if alone >= 0 else "your newest message"
            out = f"Takes {which} out of every further request. It stays in the chat."
            _draw_button(
                "Leave it out",
                "chat.leave_out",
                partial(newest_message.exclude_message, open_chat, alone),
                primary=True,
                help=out,
            )
    if long and choices.find_destination(open_chat.thread)[0].kind != "offline":
        _draw_window_form("ways")


def _draw_window_form(key: str) -> None:
    """Ask the server for its window, or type it."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key=f"chat-window-{key}"):
        if choices.find_destination()[0].kind not in FIXED:
            st.button("Ask the server for its window", key=f"chat.ask.{key}", on_click=fetch_window)
        st.number_input("Window, tokens", 0, 100_000_000, 0, 1_000, key=f"chat.typed.{key}", width=170)
        st.button("Use this window", key=f"chat.use.{key}", on_click=_take_window, args=(key,))


def fetch_window() -> None:
    """Ask the server for its model's window, and put it into the form. A callback."""
    found = choices.fetch_window()
    if found.tokens:
        st.session_state["chat.window"] = found.tokens
        st.session_state["chat.note"] = f"The window is {found.tokens:,} tokens: {found.source}."
    else:
        st.session_state["chat.problem"] = (f"The server did not name its window: {found.source}.", "Type it in.")


def _take_window(key: str) -> None:
    if tokens := st.session_state.get(f"chat.typed.{key}"):
        st.session_state["chat.window"] = int(tokens)
        st.session_state["chat.note"] = f"The window is {int(tokens):,} tokens from the next message on, as you say."


def _draw_button(label: str, key: str, do: Callable[[], None], *, primary: bool = False, help: str | None = None) -> None:
    if st.button(label, key=key, type="primary" if primary else "secondary", help=help):
        try:
            do()
        except TurnscopeError as error:
            st.session_state["chat.problem"] = (error.what, error.hint)
        st.rerun()


def _continue_turn(open_chat: open_chats.OpenChat, over: bool) -> None:
    open_chats.start_turn(open_chat, lambda chat: chat.continue_turn(over_limit=over))


def _retry_writes(open_chat: open_chats.OpenChat) -> None:
    with open_chat.lock:
        open_chat.chat.writes.flush()


def draw_next_steps(open_chat: open_chats.OpenChat) -> None:
    """What can be done with the newest answer, or message, where no notice above offers it."""
    if text := newest_message.get_answer_text(open_chat.session):
        with st.popover("Copy", icon=":material/content_copy:", key="chat-copy"):
            st.code(text, language=None, wrap_lines=True, height=240)  # its own button copies it verbatim
    if newest_message.is_unanswered(open_chat):
        if open_chat.ending is None and newest_message.find_problem(open_chat) is None:
            _draw_button("Answer this", "chat.answer", partial(_continue_turn, open_chat, False))
    elif newest_message.find_answers(open_chat):
        why = "Leaves this answer out of every further request, and asks again. What stands before it is still cached."
        _draw_button("Answer again", "chat.again", partial(newest_message.regenerate, open_chat), help=why)
