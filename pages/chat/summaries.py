"""Summaries of a chat by hand: condense now; edit, undo and rate each one that stands, with what that does to the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import streamlit as st
from turnscope.live.chat import Chat
from turnscope.views import manual_summaries

from pages.chat import markup, notices, open_chats
from pages.parts.formats import escape

MOST = 3  # summaries shown, the newest first
KEEP = 2  # newest turns that condensing by hand leaves alone
CACHE = {
    "now": f"Asks the model once for a summary of all but the newest {KEEP} turns. The cache is lost from the first message "
    "on, once; then a shorter prefix is cached.",
    "edit": "The cache is lost from the summary on, once. The old text stays in the store.",
    "undo": "What the summary replaced comes back; the cache is lost from there on, once. A policy above its "
    "threshold condenses again.",
    "rate": "No effect on the cache.",
}


def draw(open_chat: open_chats.OpenChat | None) -> None:
    """What can be done by hand; nothing while a turn is under way."""
    if open_chat is None:
        return
    with st.container(key="chat-hand", border=True, gap="small"):
        summaries = notices.attempt(lambda: _list_summaries(open_chat)) or ()
        for summary in reversed(summaries[-MOST:]):
            _draw_summary(open_chat, summary)
        due = open_chat.is_busy or len(open_chat.session.requests) <= KEEP
        if st.button("Condense now", icon=":material/compress:", key="chat.condense_now", disabled=due, help=CACHE["now"]):
            notices.attempt(lambda: open_chats.start_turn(open_chat, lambda chat: chat.condense(KEEP)))
            st.rerun()


def _list_summaries(open_chat: open_chats.OpenChat) -> tuple[manual_summaries.ManualSummary, ...]:
    """The summaries that stand; none while a turn is under way, which another tab may begin at any moment."""
    with open_chat.lock:
        if open_chat.is_busy:
            return ()
        return manual_summaries.list_summaries(open_chat.chat.list_summaries(), open_chat.session)


def _draw_summary(open_chat: open_chats.OpenChat, summary: manual_summaries.ManualSummary) -> None:
    text, by = summary.text, summary.by
    key = f"{open_chat.thread}.{by}"
    st.html(markup.render_summary(summary))
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        with st.popover("Edit", icon=":material/edit:", key=f"chat-edit-{key}", type="tertiary", help=CACHE["edit"]):
            wording = st.text_area("The summary says", text, key=f"chat.reword.{key}.{summary.key}", height=180)
            st.html(f'<div class="chat-why">{escape(CACHE["edit"])}</div>')
            if st.button("Save", key=f"chat.save.{key}", disabled=not wording.strip() or wording.strip() == text.strip()):
                _change(open_chat, lambda chat: chat.edit_summary(by, wording))
        if st.button("Undo", icon=":material/undo:", key=f"chat.undo.{key}", type="tertiary", help=CACHE["undo"]):
            decisions = [decision for n in sorted(open_chat.log) for decision in open_chat.log[n].decisions]
            _change(open_chat, lambda chat: chat.undo_summary(by, decisions))
        for name, label in markup.RATINGS.items():
            chosen = summary.rating == name
            kind: Literal["primary", "tertiary"] = "primary" if chosen else "tertiary"
            if st.button(label, icon=f":material/thumb_{name}:", key=f"chat.rate.{name}.{key}", type=kind, help=CACHE["rate"]):
                _change(open_chat, partial(Chat.rate_summary, by=by, rating="" if chosen else name))


def _change(open_chat: open_chats.OpenChat, what: Callable[[Chat], None]) -> None:
    """Do something to the chat between two turns, and draw the page anew."""

    def apply() -> None:
        open_chats.change_chat(open_chat, what)
        st.rerun()

    notices.attempt(apply)
