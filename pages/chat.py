"""Live chat: a conversation through the assembler, with the next request's envelope and what the policy decided beside it."""

from pages.parts import shell

shell.ensure()

from functools import partial  # noqa: E402

import streamlit as st  # noqa: E402

from engine import TurnscopeError  # noqa: E402
from engine.live.events import Held  # noqa: E402
from pages.parts import chat_cards, chat_forms, chat_summaries, chatting, controls, theme, typing_box  # noqa: E402
from pages.parts.chat_values import value  # noqa: E402
from pages.parts.formats import short  # noqa: E402

POLL = 0.15  # seconds between looks at a turn under way
TITLE = 60  # characters of the first prompt that name a chat

theme.apply()
chat_cards.style()
here = chatting.thread()
chatting.prepare(here)
held = chat_forms.attempt(lambda: chatting.room(here)) if here else None
if held:
    chatting.show(here)


def submitted() -> None:
    """A message was sent. A callback, because a run that is cut short by the end of a turn would lose it."""
    text = (st.session_state["chat.input"] or "").strip()
    if not text:
        return
    try:
        room = held or chatting.create(short(text, TITLE), value("system"))
        chatting.start(room, lambda chat: chat.send(text))
    except TurnscopeError as error:
        st.session_state["chat.problem"] = (error.what, error.hint)
        st.session_state["chat.input"] = text  # back into the box: it need not be written again
        return
    st.session_state["chat.sent"] = text
    chatting.show(room.thread)


def go_on(room: chatting.Room, asked: bool) -> None:
    """Send what is there: an unanswered message, or past a limit that the person agreed to exceed."""
    chatting.start(room, lambda chat: chat.go_on(asked=asked))
    st.rerun()


def answering(room: chatting.Room) -> None:
    """The answer while it comes. Leaving the page or reloading it does not end it."""
    running = room.running
    with room.lock:
        room.absorb()
    if not room.busy or running is None or len(room.session.messages) != drawn:
        st.rerun()
    last = running.events[-1] if running.events else None
    st.html(chat_cards.streaming(running.text, running.thinking, last))
    if st.button("Stop", icon=":material/stop_circle:", key="chat.stop"):
        running.stop()


def beside() -> None:
    """The envelope of the next request, what was decided, and what the chat has used."""
    typed = typing_box.text()
    typed = "" if typed == st.session_state.get("chat.sent") else typed
    plan = chat_forms.attempt(lambda: chatting.planned(held, typed))
    fits = chatting.fits(held, plan)
    st.html(chat_cards.envelope(plan, fits, bool(typed), bool(held and held.busy)))
    st.html(chat_cards.decisions(held.log if held else {}, fits, held.session if held else None))
    chat_summaries.controls(held)
    if held:
        session = held.session
        since = int(session.about.get("live_from", 0))
        st.html(chat_cards.spending(session, held.chat.spent, chatting.settings().spend, since))


bar = st.container(key="chat-bar", horizontal=True, vertical_alignment="center", gap="small")
with bar:
    name = (held.session.title if held else "") or "New chat"
    row = next((row for row in chatting.threads().list() if held and row.id == held.thread), None)
    st.html(chat_cards.title(row.title if row else name, value("provider"), value("model")), width="stretch")
    if st.button("New", icon=":material/add:", key="chat.new", disabled=held is None):
        chatting.show("")
        st.rerun()
    chat_forms.chats(held)
    chat_forms.branches(held)
    chat_forms.settings(held)

busy = bool(held and held.busy)
drawn = len(held.session.messages) if held else 0
left, right = st.columns([3, 2], gap="medium")
with left:
    box = st.container(height=560, key="chat-box", autoscroll=True, border=False)
    with box:
        session = held.session if held else None
        if session is None or not any(m.role in ("user", "assistant") for m in session.messages):
            st.html(chat_cards.welcome(value("provider")))
        else:
            st.html(chat_cards.conversation(session, session.at if session.parent else 0))
        if held and not busy and not held.ended and chatting.broken(held):
            st.html(chat_cards.stopped())
        if held and busy:
            st.fragment(answering, run_every=POLL)(held)
        elif held and held.ended:
            st.html(chat_cards.ended(held.ended))
            if held.unsent and st.session_state.get("chat.sent"):
                st.code(st.session_state["chat.sent"], language=None, wrap_lines=True)
            if isinstance(held.ended, Held) and st.button("Go on", key="chat.over", type="primary"):
                chat_forms.attempt(partial(go_on, held, True))
    due = held and not busy and not isinstance(held.ended, Held) and chatting.due(held)
    if held and due and st.button("Answer this", icon=":material/play_arrow:", key="chat.answer"):
        chat_forms.attempt(partial(go_on, held, False))
    if problem := st.session_state.pop("chat.problem", None):
        controls.notice(*problem)
    st.chat_input("Message the model", key="chat.input", disabled=busy, on_submit=submitted)
with right:
    st.fragment(beside, run_every=4 * POLL if busy else None)()
    if held:
        chat_forms.requests(held)
