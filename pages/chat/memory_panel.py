"""The Memory panel of a chat: on or off, facts to accept or refuse, what is remembered, notes, web search, pasted texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st
from turnscope.library import ContextItem
from turnscope.live import injected_context
from turnscope.live.chat import Chat
from turnscope.live.web_pages import ISSUES

from pages.chat import context, notices, open_chats
from pages.parts import memories
from pages.parts.formats import escape

MOST = 12  # facts of the chat and notes that are listed, the newest
KINDS = {"url": "a page", "issue": "an issue"}
WHY = {
    "memory": "Facts stand in front of the conversation: a new one changes the prefix, and the cache is built anew once.",
    "extract": "After each answer, one short request to the model for summaries; never before the next one. Needs Condense.",
    "learn": "Counts what a layered chat looks up again, for the next chats of this project. Nothing of it is in a prompt.",
}

SEARCH = (
    "A policy with web results, such as Open WebUI's middleware, asks it once for each question. The question goes to this "
    "address. Results stand before the question: what comes before them stays cached."
)
PAGES = (
    "Under a policy with context providers, a question may name @url example.org/page or @issue owner/name#12. Each is read "
    "once for a question: a page from its address, an issue from the server below. Redirects are not followed."
)


def draw(open_chat: open_chats.OpenChat | None) -> None:
    """Everything that is remembered, in a popover next to the settings."""
    with st.popover("Memory", icon=":material/bookmark:", key="chat-memory"):
        st.selectbox("Memory", context.MODES, key="chat.memory", persist_state="session")
        _explain("memory")
        on = context.get_memory_mode() != context.OFF
        _draw_toggle("Ask the model for facts after each answer", "extract", on)
        _explain("extract")
        _draw_toggle("Learn from what is looked up again", "learn", on)
        _explain("learn")
        if open_chat and not open_chat.is_busy:
            _draw_found_facts(open_chat)
            _draw_notes(open_chat)
        store = context.open_memories()
        memories.draw_facts(store, "chat.fact")
        memories.draw_learned(store, "chat.fact")
        _draw_search()
        _draw_pages()
        _draw_pasted_texts(open_chat.thread if open_chat else "")


def _draw_toggle(label: str, name: str, on: bool) -> None:
    st.toggle(label, True, key=f"chat.{name}", disabled=not on, persist_state="session")


def _explain(name: str) -> None:
    st.html(f'<div class="chat-why">{escape(WHY[name])}</div>')


def _draw_found_facts(open_chat: open_chats.OpenChat) -> None:
    with open_chat.lock:
        found = [*injected_context.list_facts(open_chat.chat)][:MOST]
    if found:
        st.html('<div class="chat-why"><b>Found in this chat</b></div>')
    store = context.open_memories() if context.get_memory_mode() != context.OFF else None
    for fact, refused in found:
        st.html(memories.render_fact(fact, refused))
        with st.container(horizontal=True, gap="small"):
            key = f"{open_chat.thread}.{fact.id}"
            if st.button("Accept", key=f"chat.accept.{key}", type="tertiary", help="Remember it for good."):
                _change(open_chat, partial(injected_context.accept_fact, fact=fact, memories=store))
            if st.button("Refuse", key=f"chat.refuse.{key}", type="tertiary", disabled=refused, help="No request carries it."):
                _change(open_chat, partial(injected_context.refuse_fact, fact=fact, memories=store))


def _draw_notes(open_chat: open_chats.OpenChat) -> None:
    with open_chat.lock:
        listed = injected_context.list_notes(open_chat.chat)
    for name, title, text in reversed(listed[-MOST:]):
        with st.expander(f"Note {name}: {title}"):
            st.text(text)


def _draw_pasted_texts(thread: str) -> None:
    """Texts of pages and issues that a policy with context providers attaches to the questions."""
    texts = context.get_pasted_texts().setdefault(thread, [])
    for n, (kind, name, text) in enumerate(texts):
        if st.button(f"Take away {KINDS[kind]}: {name} ({len(text):,} characters)", key=f"chat.unpaste.{n}", type="tertiary"):
            texts.pop(n)
            st.rerun()
    with st.form("chat.pasting", clear_on_submit=True, border=False):
        kind = st.selectbox("Paste the text of", [*KINDS], format_func=KINDS.__getitem__, key="chat.paste.kind")
        name = st.text_input("Its address or title", key="chat.paste.name")
        text = st.text_area("Its text", height=100, key="chat.paste.text")
        if st.form_submit_button("Attach to the questions") and text.strip():
            texts.append((kind, name.strip(), text))
            st.rerun()


def _draw_search() -> None:
    """The search that brings web results, under a policy that has a place for them."""
    with st.expander("Web search", key="chat-search"):
        st.html(f'<div class="chat-why">{escape(SEARCH)}</div>')
        _draw_search_field("url", "Address", "https://host/search?q={query}&format=json")
        key = context.get_search_key_name()
        st.text_input("Key", type="password", placeholder="none", help="Kept in memory only.", key=key, persist_state="session")
        _draw_search_field("header", "Header of the key", "Authorization")
        _draw_search_field("tool", "Tool, if the address is an MCP server", "none")
        _draw_search_field("argument", "The tool's argument for the words", "query")
        _draw_search_field("path", "Keys to the list of results", "found by itself; else such as web.results")
        words = st.text_input("Words to try it with", key="chat.search.words")
        search = context.build_search()
        if st.button("Try the search", key="chat.search.try", disabled=not (search and words.strip())) and search:
            notices.attempt(lambda: _draw_results(search.search(words)))


def _draw_pages() -> None:
    """Pages and issues that a question names, under a policy with context providers."""
    with st.expander("Pages and issues", key="chat-pages"):
        st.html(f'<div class="chat-why">{escape(PAGES)}</div>')
        st.toggle("Read what a question names", key="chat.read_pages", persist_state="session")
        st.text_input("Server of issues", placeholder=ISSUES, key="chat.issues.address", persist_state="session")
        key = context.get_issue_key_name()
        st.text_input(
            "Token", type="password", placeholder="none", help="Kept in memory only.", key=key, persist_state="session"
        )


def _draw_search_field(name: str, label: str, placeholder: str) -> None:
    st.text_input(label, placeholder=placeholder, key=f"chat.search.{name}", persist_state="session")


def _draw_results(found: Sequence[ContextItem]) -> None:
    st.html(f'<div class="chat-why"><b>Results with a text: {len(found)}</b></div>')
    for one in found:
        st.html(f'<div class="chat-why">{escape(one.name)}: {len(one.text):,} characters</div>')


def _change(open_chat: open_chats.OpenChat, what: Callable[[Chat], None]) -> None:
    def apply() -> None:
        open_chats.change_chat(open_chat, what)
        st.rerun()

    notices.attempt(apply)
