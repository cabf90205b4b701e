"""The Memory panel of a chat: on or off, facts found in it to accept or refuse, what is remembered, notes, pasted texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st
from turnscope.live import injected_context
from turnscope.live.chat import Chat

from pages.chat import context, notices, rooms
from pages.parts import memories
from pages.parts.formats import esc

MOST = 12  # facts of the chat and notes that are listed, the newest
KINDS = {"url": "a page", "issue": "an issue"}
WHY = {
    "memory": "Facts stand in front of the conversation: a new one changes the prefix, and the cache is built anew once.",
    "extract": "After each answer, one short request to the model for summaries; never before the next one. Needs Condense.",
    "learn": "Counts what a layered chat looks up again, for the next chats of this project. Nothing of it is in a prompt.",
}


def panel(held: rooms.Room | None) -> None:
    """Everything that is remembered, in a popover beside the settings."""
    with st.popover("Memory", icon=":material/bookmark:", key="chat-memory"):
        st.selectbox("Memory", context.MODES, key="chat.memory", persist_state="session")
        _why("memory")
        on = context.mode() != context.OFF
        _toggle("Ask the model for facts after each answer", "extract", on)
        _why("extract")
        _toggle("Learn from what is looked up again", "learn", on)
        _why("learn")
        if held and not held.busy:
            _found(held)
            _notes(held)
        store = context.store()
        memories.facts(store, "chat.fact")
        memories.learned(store, "chat.fact")
        _pasted(held.thread if held else "")


def _toggle(label: str, name: str, on: bool) -> None:
    st.toggle(label, True, key=f"chat.{name}", disabled=not on, persist_state="session")


def _why(name: str) -> None:
    st.html(f'<div class="chat-why">{esc(WHY[name])}</div>')


def _found(held: rooms.Room) -> None:
    with held.lock:
        found = [*injected_context.list_facts(held.chat)][:MOST]
    if found:
        st.html('<div class="chat-why"><b>Found in this chat</b></div>')
    store = context.store() if context.mode() != context.OFF else None
    for fact, refused in found:
        st.html(memories.told(fact, refused))
        with st.container(horizontal=True, gap="small"):
            key = f"{held.thread}.{fact.id}"
            if st.button("Accept", key=f"chat.accept.{key}", type="tertiary", help="Remember it for good."):
                _do(held, partial(injected_context.accept_fact, fact=fact, memories=store))
            if st.button("Refuse", key=f"chat.refuse.{key}", type="tertiary", disabled=refused, help="No request carries it."):
                _do(held, partial(injected_context.refuse_fact, fact=fact, memories=store))


def _notes(held: rooms.Room) -> None:
    with held.lock:
        listed = injected_context.list_notes(held.chat)
    for name, title, text in reversed(listed[-MOST:]):
        with st.expander(f"Note {name}: {title}"):
            st.text(text)


def _pasted(thread: str) -> None:
    """Texts of pages and issues that a policy with context providers puts beside the questions."""
    texts = context.pasted().setdefault(thread, [])
    for n, (kind, name, text) in enumerate(texts):
        if st.button(f"Take away {KINDS[kind]}: {name} ({len(text):,} characters)", key=f"chat.unpaste.{n}", type="tertiary"):
            texts.pop(n)
            st.rerun()
    with st.form("chat.pasting", clear_on_submit=True, border=False):
        kind = st.selectbox("Paste the text of", [*KINDS], format_func=KINDS.__getitem__, key="chat.paste.kind")
        name = st.text_input("Its address or title", key="chat.paste.name")
        text = st.text_area("Its text", height=100, key="chat.paste.text")
        if st.form_submit_button("Put beside the questions") and text.strip():
            texts.append((kind, name.strip(), text))
            st.rerun()


def _do(held: rooms.Room, what: Callable[[Chat], None]) -> None:
    def done() -> None:
        rooms.change(held, what)
        st.rerun()

    notices.attempt(done)
