"""Notices of a chat: how a turn ended, what is to be known of it, and the ways out, as buttons beside each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live.events import (
    AnswerInterrupted,
    LimitReached,
    RequestRefused,
    TurnFailed,
    TurnStopped,
    UnfinishedTurn,
    WindowAssumed,
)

from pages.chat import choices, newest_message, rooms
from pages.parts import widgets
from pages.parts.formats import esc, usd

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
        widgets.notice(error.what, error.hint)
    return None


def _card(title: str, what: str, hint: str, facts: Mapping[str, object] | None = None, role: str = "alert") -> None:
    said = "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in (facts or {}).items())
    more = f'<details class="part"><summary>Numbers</summary><dl class="chat-facts">{said}</dl></details>' if said else ""
    head = f"<b>{esc(title)}: {esc(what)}</b>" if title else f"<b>{esc(what)}</b>"
    st.html(f'<div class="ts-card ts-notice" role="{role}">{head}<p>{esc(hint)}</p>{more}</div>')


def ended(held: rooms.Room, event: UnfinishedTurn) -> None:
    """Why a turn ended early, with what can be done about it."""
    if isinstance(event, LimitReached):
        hint = "Go on if that is what you want, or raise the limit in the settings."
        if event.usd and "would cost" not in event.why:
            hint = f"Sending this would cost {usd(event.usd[0])}, up to {usd(event.usd[1])} with the longest answer. {hint}"
        _card(ENDINGS[LimitReached], event.why, hint)
        _button("Go on", "chat.over", partial(_go_on, held, True), primary=True)
        return
    error = event.error
    _card(KINDS.get(type(error).__name__) or ENDINGS[type(event)], error.what, error.hint, facts(vars(error)))
    _ways(held, isinstance(event, RequestRefused) or bool(getattr(error, "too_long", False)), getattr(error, "message", -1))


def before(held: rooms.Room, problem: Mapping[str, Any]) -> None:
    """Why the newest request of a chat that was opened again is not complete."""
    kind = str(problem.get("kind") or "")
    _card(KINDS.get(kind, "Interrupted"), str(problem.get("what")), str(problem.get("hint") or ""), facts(problem))
    _ways(held, kind == "ContextWindowExceededError" or bool(problem.get("too_long")), problem.get("message", -1))


def facts(fields: Mapping[str, Any]) -> dict[str, object]:
    """The numbers of an error, as a person reads them; none where it has none."""
    if "projected" not in fields:
        return {}
    names = {"conversation_id": "conversation", "turn": "turn", "request": "request", "projected": "tokens with the answer",
             "window": "window", "limit": "left for the prompt"}  # fmt: skip
    named = {words: fields[name] for name, words in names.items() if name in fields}
    return {words: f"{value:,}" if isinstance(value, int) else value for words, value in named.items()} | {
        name: f"{tokens:,}" for name, tokens in (fields.get("counters") or {}).items()
    }


def remarks(held: rooms.Room) -> None:
    """What else is to be known of the newest turn: how its answer ended, an assumed window, a store that cannot be written."""
    for event in held.remarks:
        if isinstance(event, TurnStopped):
            _card("", event.what, "", role="status")
        else:
            assumed(event)
    if held.unkept:
        unkept(held.unkept)
        _button("Try again", "chat.keep", partial(_flush, held))


def unkept(error: TurnscopeError) -> None:
    """What was said is in memory alone."""
    _card("Not written yet", error.what, f"It is held in memory and tried again; leave the app open. {error.hint}".strip())


def assumed(event: WindowAssumed) -> None:
    """Nobody knows how large the model's window is."""
    if st.session_state.get("chat.window"):
        return
    _card("", f"Nobody knows the window of {event.model}: {event.window:,} tokens are assumed.",
          "A prompt that is longer than the real one may be cut by the server without a word.", role="status")  # fmt: skip
    _window("assumed")


def _ways(held: rooms.Room, long: bool, alone: int = -1) -> None:
    """`alone`: the number of a message that does not fit by itself."""
    with st.container(horizontal=True, gap="small", key="chat-ways"):
        if newest_message.due(held):
            _button("Try again", "chat.answer", partial(_go_on, held, False), primary=not long)
        if long and held.session.messages and newest_message.due(held):
            which = f"message {alone}" if alone >= 0 else "your newest message"
            out = f"Takes {which} out of every further request. It stays in the chat."
            _button("Leave it out", "chat.leave_out", partial(newest_message.leave_out, held, alone), primary=True, help=out)
    if long and choices.goes(held.thread)[0].kind != "offline":
        _window("ways")


def _window(key: str) -> None:
    """Ask the server for its window, or type it."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key=f"chat-window-{key}"):
        if choices.goes()[0].kind == "server":
            st.button("Ask the server for its window", key=f"chat.ask.{key}", on_click=asked)
        st.number_input("Window, tokens", 0, 100_000_000, 0, 1_000, key=f"chat.typed.{key}", width=170)
        st.button("Use this window", key=f"chat.use.{key}", on_click=_typed, args=(key,))


def asked() -> None:
    """Ask the server for its model's window, and put it into the form. A callback."""
    found = choices.window()
    if found.tokens:
        st.session_state["chat.window"] = found.tokens
        st.session_state["chat.note"] = f"The window is {found.tokens:,} tokens: {found.source}."
    else:
        st.session_state["chat.problem"] = (f"The server did not name its window: {found.source}.", "Type it in.")


def _typed(key: str) -> None:
    if tokens := st.session_state.get(f"chat.typed.{key}"):
        st.session_state["chat.window"] = int(tokens)
        st.session_state["chat.note"] = f"The window is {int(tokens):,} tokens from the next message on, as you say."


def _button(label: str, key: str, do: Callable[[], None], *, primary: bool = False, help: str | None = None) -> None:
    if st.button(label, key=key, type="primary" if primary else "secondary", help=help):
        try:
            do()
        except TurnscopeError as error:
            st.session_state["chat.problem"] = (error.what, error.hint)
        st.rerun()


def _go_on(held: rooms.Room, over: bool) -> None:
    rooms.start(held, lambda chat: chat.continue_turn(over_limit=over))


def _flush(held: rooms.Room) -> None:
    with held.lock:
        held.chat.writes.flush()


def next_steps(held: rooms.Room) -> None:
    """What can be done with the newest answer, or message, where no notice above offers it."""
    if text := newest_message.answer_text(held.session):
        with st.popover("Copy", icon=":material/content_copy:", key="chat-copy"):
            st.code(text, language=None, wrap_lines=True, height=240)  # its own button copies it as it was said
    if newest_message.due(held):
        if held.ended is None and newest_message.problem(held) is None:
            _button("Answer this", "chat.answer", partial(_go_on, held, False))
    elif newest_message.again(held):
        why = "Leaves this answer out of every further request, and asks again. What stands before it is still cached."
        _button("Answer again", "chat.again", partial(newest_message.regenerate, held), help=why)
