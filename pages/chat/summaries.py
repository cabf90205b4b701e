"""Summaries of a chat by hand: condense now; edit, undo and rate each one that stands, with what that does to the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import streamlit as st
from turnscope.live.chat import Chat
from turnscope.views import manual_summaries

from pages.chat import markup, notices, rooms
from pages.parts.formats import esc

MOST = 3  # summaries shown, the newest first
KEEP = 2  # newest turns that condensing by hand leaves alone
CACHE = {
    "now": f"Asks the model once for a summary of all but the newest {KEEP} turns. The cache is lost from the first message "
    "on, once; then a shorter prefix is cached.",
    "edit": "The cache is lost from the summary on, once. The old text stays in the store.",
    "undo": "What the summary replaced comes back; the cache is lost from there on, once. A policy whose mark is reached "
    "condenses again.",
    "rate": "No effect on the cache.",
}


def controls(held: rooms.Room | None) -> None:
    """What can be done by hand; nothing while a turn is under way."""
    if held is None:
        return
    with st.container(key="chat-hand", border=True, gap="small"):
        summaries = () if held.busy else notices.attempt(lambda: _standing(held)) or ()
        for summary in reversed(summaries[-MOST:]):
            _summary(held, summary)
        due = held.busy or len(held.session.requests) <= KEEP
        if st.button("Condense now", icon=":material/compress:", key="chat.condense_now", disabled=due, help=CACHE["now"]):
            notices.attempt(lambda: rooms.start(held, lambda chat: chat.condense(KEEP)))
            st.rerun()


def _standing(held: rooms.Room) -> tuple[manual_summaries.ManualSummary, ...]:
    with held.lock:
        return manual_summaries.list_summaries(held.chat.list_summaries(), held.session)


def _summary(held: rooms.Room, summary: manual_summaries.ManualSummary) -> None:
    text, by = summary.text, summary.by
    key = f"{held.thread}.{by}"
    st.html(markup.standing(summary))
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        with st.popover("Edit", icon=":material/edit:", key=f"chat-edit-{key}", type="tertiary", help=CACHE["edit"]):
            said = st.text_area("The summary says", text, key=f"chat.reword.{key}.{summary.key}", height=180)
            st.html(f'<div class="chat-why">{esc(CACHE["edit"])}</div>')
            if st.button("Save", key=f"chat.save.{key}", disabled=not said.strip() or said.strip() == text.strip()):
                _do(held, lambda chat: chat.edit_summary(by, said))
        if st.button("Undo", icon=":material/undo:", key=f"chat.undo.{key}", type="tertiary", help=CACHE["undo"]):
            decisions = [decision for n in sorted(held.log) for decision in held.log[n].decisions]
            _do(held, lambda chat: chat.undo_summary(by, decisions))
        for name, label in markup.RATINGS.items():
            chosen = summary.rating == name
            kind: Literal["primary", "tertiary"] = "primary" if chosen else "tertiary"
            if st.button(label, icon=f":material/thumb_{name}:", key=f"chat.rate.{name}.{key}", type=kind, help=CACHE["rate"]):
                _do(held, partial(Chat.rate_summary, by=by, rating="" if chosen else name))


def _do(held: rooms.Room, what: Callable[[Chat], None]) -> None:
    """Do something to the chat between two turns, and draw the page anew."""

    def done() -> None:
        rooms.change(held, what)
        st.rerun()

    notices.attempt(done)
