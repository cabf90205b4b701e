"""The list of chats: open another, find one by its words, rename this one, take it away, delete it."""

from __future__ import annotations

import streamlit as st

from pages.chat import choices, open_chats, search_hits
from pages.chat.notices import attempt
from pages.parts import cache, exports
from pages.parts.formats import escape, make_unique, shorten


def draw(open_chat: open_chats.OpenChat | None) -> None:
    """The list: open another chat, rename this one, find one by its words."""
    with st.popover("Chats", icon=":material/forum:", key="chat-list"):
        rows = cache.open_chat_store().list()
        name = next((row.title for row in rows if open_chat and row.id == open_chat.thread), "")
        words = st.text_input("Search all chats", key="chat.words", placeholder="words of a message")
        if words.strip():
            hits = cache.open_chat_store().search(words)
            found = {hit.thread for hit in hits}
            rows = tuple(row for row in rows if row.id in found)
            st.html(f'<div class="ts-small ts-faint">Found in {len(rows)} of your chats.</div>')
            search_hits.draw(hits, {row.id: row.title or "Untitled chat" for row in rows}, words)
        titles = {row.id: row.title or "Untitled chat" for row in rows}
        here = open_chat.thread if open_chat else ""
        place = list(titles).index(here) if here in titles else None
        key = f"chat.pick.{here}.{words}"
        labels = make_unique({id: shorten(title, 70) for id, title in titles.items()})
        picked = st.selectbox(
            "Open", list(titles), index=place, key=key, placeholder=f"{len(titles)} chats", format_func=labels.__getitem__
        )
        if picked and picked != here:
            choices.show_thread(picked)
            st.rerun()
        if open_chat:
            with st.form(f"chat.rename.{here}", border=False):
                title = st.text_input("Name of this chat", name, key=f"chat.title.{here}")
                if st.form_submit_button("Rename") and title.strip():
                    cache.open_chat_store().rename(here, title.strip()[:200])
                    st.rerun()
            exports.draw_session_buttons(open_chat.session, f"chat-{open_chat.thread[:8]}", "chat.export")
            _draw_delete(open_chat, name)


def _draw_delete(open_chat: open_chats.OpenChat, name: str) -> None:
    """Delete this chat after two clicks: the second button names it."""
    key = f"chat.delete.{open_chat.thread}"
    if not st.session_state.get(key):
        st.button(
            "Delete this chat",
            icon=":material/delete:",
            key="chat.delete",
            type="tertiary",
            disabled=open_chat.is_busy,
            on_click=lambda: st.session_state.update({key: True}),
        )
        return
    count = sum(message.role in ("user", "assistant") for message in open_chat.session.messages)
    st.html(
        f'<div class="chat-why" style="margin:0" role="alert">Delete <b>{escape(shorten(name or "Untitled chat", 70))}</b>? '
        f"Its {count:,} messages, its requests and its decisions are gone for good.</div>"
    )
    with st.container(horizontal=True, gap="small"):
        if st.button("Delete for good", key="chat.delete_now", type="primary"):
            attempt(lambda: open_chats.delete_chat(open_chat))
        st.button("Keep it", key="chat.keep_it", on_click=lambda: st.session_state.update({key: False}))
