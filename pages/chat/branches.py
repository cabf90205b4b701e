"""Other ways on from a chat: an edited prompt, another system prompt, a new chat with a summary, the session of other pages."""

from __future__ import annotations

from typing import Any

import streamlit as st
from turnscope import Session
from turnscope.live import attachments
from turnscope.live.branches import continue_thread, find_summary, replace_system_prompt
from turnscope.numbering import index_request, number_request
from turnscope.views import Message

from pages.chat import choices, open_chats
from pages.chat.notices import attempt
from pages.parts import cache, chat_form, opening, url
from pages.parts.chat_form import get_value, list_settings
from pages.parts.formats import escape, make_unique, shorten


def draw(open_chat: open_chats.OpenChat | None) -> None:
    """Other ways on: an edited prompt, a new chat with a summary, the session of the other pages from a request."""
    with st.popover("Branch", icon=":material/fork_right:", key="chat-branch"):
        if open_chat and not open_chat.is_busy:
            _draw_resend(open_chat)
            _draw_summary(open_chat)
        _draw_continue()


def _draw_resend(open_chat: open_chats.OpenChat) -> None:
    session = open_chat.session
    prompts = {m.start: _split_prompt(session, m)[1] for m in session.messages if m.origin == "prompt"}
    if not prompts:
        return
    st.html(
        '<h2 class="chat-h">Edit and resend</h2><div class="chat-why" style="margin:0">What stands before the prompt is '
        "shared with the branch and still cached; this chat stays as it is.</div>"
    )
    newest = list(reversed(prompts))
    names = make_unique({at: shorten(text, 80) or "(only files)" for at, text in prompts.items()})
    key = f"chat.at.{open_chat.thread}.{newest[0]}"  # a newer prompt is the one to edit, not the one chosen before it came
    at = st.selectbox("Prompt", newest, format_func=names.__getitem__, key=key)
    text = st.text_area("Say instead", prompts[at], key=f"chat.instead.{open_chat.thread}.{at}", height=90)
    if st.button("Send as a branch", key="chat.resend", disabled=open_chat.is_busy or not text.strip()):
        attempt(lambda: _start_branch(open_chat, at, text))


def _split_prompt(session: Session, message: Message) -> tuple[list[Any], str]:
    """What is attached to a prompt, and its words."""
    return attachments.split_content([block.raw for block in session.blocks[message.start : message.stop]])


def _start_branch(open_chat: open_chats.OpenChat, at: int, text: str) -> None:
    title = f"{open_chat.session.title or 'Chat'} (branch)"
    about = {**list_settings(), "from": open_chat.thread}
    new = cache.open_chat_store().create(title=title, parent=open_chat.thread, at=at, about=about)
    files, _ = _split_prompt(open_chat.session, next(m for m in open_chat.session.messages if m.start == at))
    open_chats.start_turn(open_chats.open_thread(new), lambda chat: chat.send(attachments.append_text(files, text)))
    choices.show_thread(new)
    st.rerun()


def _draw_summary(open_chat: open_chats.OpenChat) -> None:
    st.html(
        '<h2 class="chat-h">New session with a summary</h2><div class="chat-why" style="margin:0">A new chat whose system '
        "prompt ends with this summary. It begins small, with a cold cache.</div>"
    )
    session = open_chat.session
    if not session.requests:
        return
    key = f"chat.sum.{open_chat.thread}.{len(session.requests)}"
    text = st.text_area("Summary", find_summary(open_chat.chat), key=key, height=110)
    if st.button("Begin with this summary", key="chat.begin", disabled=not text.strip()):
        attempt(lambda: _start_from_summary(open_chat, text))


def _start_from_summary(open_chat: open_chats.OpenChat, text: str) -> None:
    system = f"{get_value('system')}\n\nSummary of the conversation before this one:\n{text}".strip()
    session = open_chat.session
    about = {"from": open_chat.thread, "from_request": len(session.requests), "summary": True}
    made = open_chats.create_chat(f"{session.title or 'Chat'} (from a summary)", system, about)
    choices.show_thread(made.thread)
    st.rerun()


def _draw_continue() -> None:
    """The session that the other pages show, from any of its requests, in a new chat."""
    noted = url.get_noted()
    entry = cache.find_entry(noted["session"])
    st.html('<h2 class="chat-h">Continue the open session</h2>')
    if entry is None:
        st.html('<div class="ts-empty">Open a session on another page first.</div>')
        return
    if not opening.is_open(entry) and not st.button("Read it", key="chat.read"):
        st.html(f'<div class="ts-small ts-faint">{escape(shorten(entry.name, 60))}</div>')
        return
    shown = attempt(lambda: opening.open_session(entry, int(noted.get("part", 0))))
    if shown is None or not len(shown.view):
        return
    last = len(shown.view) - 1
    seen = int(noted.get("request", last))
    st.html(
        f'<div class="ts-small ts-faint">{escape(shorten(entry.name, 60))}: taken as recorded up to a request, then the '
        "policy chosen here. Another provider's cache is cold.</div>"
    )
    number = st.number_input(
        "From request", 1, number_request(last), number_request(min(seen, last)), key=f"chat.from.{shown.key}"
    )
    if st.button("Continue as a new chat", key="chat.continue"):
        attempt(lambda: _continue_session(shown, index_request(int(number))))


def _continue_session(shown: opening.ShownSession, request: int) -> None:
    about = {**list_settings(), "from_session": shown.entry.id}
    choices.show_thread(continue_thread(cache.open_chat_store(), shown.trace, request, about, chat_form.get_destination()))
    st.rerun()


def draw_system_branch(open_chat: open_chats.OpenChat | None) -> None:
    """A branch of this chat with the system prompt that the form holds."""
    if open_chat is not None and st.button("Branch with this system prompt", key="chat.reword", disabled=open_chat.is_busy):
        attempt(lambda: _start_system_branch(open_chat))


def _start_system_branch(open_chat: open_chats.OpenChat) -> None:
    session = replace_system_prompt(open_chat.session, get_value("system"))
    about = {**list_settings(), "live_from": len(session.requests), "from": open_chat.thread}
    title = f"{session.title or 'Chat'} (other system prompt)"
    goes = cache.open_chat_store().find_destination(open_chat.thread)
    choices.show_thread(cache.open_chat_store().create(title=title, base=session, about=about, place=goes))
    st.rerun()
