"""The chat of the demo: pages of the documentation go to the built-in model, one after another, until the window is cut."""

from __future__ import annotations

import streamlit as st
from turnscope.live import attachments
from turnscope.views import Plan, documentation

from pages.chat import choices, gauge, notices, open_chats
from pages.chat.open_chats import OpenChat
from pages.parts import cache, demo, demo_stops
from pages.parts.chat_form import DEFAULTS, get_value

TITLE = "Demo: a chat that hits its limit"
MOST_MESSAGES = 8  # a window of 16,000 tokens is full before
LONGEST = 9_000  # characters of a page that is sent


def prepare(thread: str) -> str:
    """The chat to show: where the demo is at its chat, one of its own, with the built-in model; else the given one.

    Args:
        thread: id of the chat that is shown; "" = a new one.
    """
    if not demo.is_at("chat") or st.session_state.get(demo.CHAT):
        return thread
    known = {row.id: row.about for row in cache.open_chat_store().list()}
    if thread in known and known[thread].get("demo") and st.query_params.get("thread") == thread:  # the page was loaded anew
        st.session_state[demo.CHAT] = thread
        return thread
    for name, value in DEFAULTS.items():  # nothing of a demo is sent to a provider that somebody chose for a chat
        st.session_state[f"chat.{name}"] = [] if name == "tools" else value
    made = notices.attempt(lambda: open_chats.create_chat(TITLE, get_value("system"), {"demo": True}))
    if made is None:
        return thread
    st.session_state[demo.CHAT] = made.thread
    choices.show_thread(made.thread)
    return made.thread


def go_on(open_chat: OpenChat) -> None:
    """Send the next page where the demo's chat waits for one, and say how full its window is."""
    if not demo.is_at("chat") or open_chat.thread != st.session_state.get(demo.CHAT):
        return
    newest = open_chat.log[max(open_chat.log)] if open_chat.log else None
    cut = next((plan for plan in open_chat.log.values() if gauge.find_cuts(plan)), None)
    sent = sum(message.origin == "prompt" for message in open_chat.session.messages)
    if not (open_chat.is_busy or open_chat.ending or cut or sent >= MOST_MESSAGES):
        content = attachments.build_content(_write_prompt(sent), [])
        notices.attempt(lambda: open_chats.start_turn(open_chat, lambda chat: chat.send(content)))
    demo_stops.say(_describe(cut or newest, sent, bool(cut)), done=bool(cut or open_chat.ending or sent >= MOST_MESSAGES))


def _write_prompt(number: int) -> str:
    pages = [name for name in documentation.list_pages() if name != documentation.FIRST]
    name = pages[number % len(pages)]
    text = (documentation.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return f"What would a newcomer miss on this page?\n\n{text[:LONGEST]}"


def _describe(plan: Plan | None, sent: int, is_cut: bool) -> str:
    if plan is None:
        return ""
    window, size = plan.budget.window, plan.expected_tokens
    if not is_cut:
        many = f"{sent} message{'' if sent == 1 else 's'}"
        return f"A chat with the built-in model, no key and no network. After {many}: {size:,} of {window:,} tokens."
    made = gauge.find_cuts(plan)
    before, after = plan.calibration.predict(made[0].before), plan.calibration.predict(made[-1].after)
    return (
        f"The chat hit its limit: {made[0].edit.because}. The prompt went from {before:,} to {after:,} tokens before it "
        f"was sent, in a window of {window:,}."
    )
