"""Live chat: a conversation through the assembler, with the next request's envelope and what the policy decided beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live import attachments
from turnscope.live.events import WriteFailed

from pages.chat import (
    branches,
    chats,
    choices,
    gauge,
    markup,
    memory_panel,
    messages,
    newest_message,
    notices,
    policy_form,
    preview,
    rooms,
    search_hits,
    settings_form,
    summaries,
    typing_box,
)
from pages.parts import cache, theme, widgets
from pages.parts.chat_form import value
from pages.parts.formats import esc, short

SHEET = Path(__file__).parent / "browser" / "chat.css"
POLL = 0.15  # seconds between looks at a turn under way
LARGEST = 4  # MB of a file that the browser hands over; what may be sent is said in `attachments`
TITLE = 60  # characters of the first prompt that name a chat


@dataclass(slots=True)
class Drawn:
    """What a run of the page has drawn: `messages` of its chat; `complete` when it has come to its end."""

    messages: int
    complete: bool = False


def draw() -> None:
    """Draw the page."""
    theme.apply()
    theme.add_sheet(SHEET)
    here = choices.thread()
    choices.prepare(here)
    held = notices.attempt(lambda: rooms.room(here)) if here else None
    if held:
        choices.show(here)
    # Before anything is drawn: a turn that ends during this run is then still waited for, and its end draws the page again.
    busy, drawn = bool(held and held.busy), Drawn(len(held.session.messages) if held else 0)
    _draw_bar(here, held)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _draw_chat(held, busy, drawn)
    with right:
        st.fragment(_draw_next_request, run_every=4 * POLL if busy else None)(held)
        if held:
            messages.requests(held)
    drawn.complete = True
    if held and busy and _outdated(held, drawn):
        st.rerun()


def _draw_bar(here: str, held: rooms.Room | None) -> None:
    """Draw the chat's name, where it goes, and the buttons that open lists and forms."""
    with st.container(key="chat-bar", horizontal=True, vertical_alignment="center", gap="small"):
        name = (held.session.title if held else "") or "New chat"
        row = next((row for row in cache.chat_store().list() if held and row.id == held.thread), None)
        to, before = choices.goes(here)
        kind = settings_form.PROVIDERS.get(to.kind, to.kind)
        st.html(markup.title(row.title if row else name, kind, to.url, to.model, str(before or "")), width="stretch")
        if st.button("New", icon=":material/add:", key="chat.new", disabled=held is None):
            choices.show("")
            st.rerun()
        chats.chats(held)
        branches.branches(held)
        policy_form.form()
        memory_panel.panel(held)
        settings_form.settings(held)


def _draw_chat(held: rooms.Room | None, busy: bool, drawn: Drawn) -> None:
    """Draw the messages, the buttons under them and the message box."""
    looked_for = held is not None and search_hits.address(held.session) is not None  # then the box must not follow its end
    with st.container(height=560, key="chat-box", autoscroll=not looked_for, border=False):
        _draw_messages(held, busy, drawn)
    with st.container(key="chat-now", horizontal=True, horizontal_alignment="right", gap="small", height=44, border=False):
        if held and busy:
            # Here, next to the message box, it stays where it is however long the answer grows.
            st.button("Stop", icon=":material/stop_circle:", key="chat.stop", type="primary", on_click=rooms.stop, args=(held,))
        elif held:
            notices.next_steps(held)
    if note := st.session_state.pop("chat.note", None):
        st.html(f'<p class="chat-more" role="status">{esc(note)}</p>')
    if problem := st.session_state.pop("chat.problem", None):
        widgets.notice(*problem)
    st.chat_input(
        "Message the model",
        key="chat.input",
        disabled=busy,
        on_submit=_send,
        args=(held,),
        accept_file="multiple",
        max_upload_size=LARGEST,
    )


def _draw_messages(held: rooms.Room | None, busy: bool, drawn: Drawn) -> None:
    """Draw the conversation, the answer that is coming, and what is to be known of the newest turn."""
    if held is None or not any(m.role in ("user", "assistant") for m in held.session.messages):
        st.html(markup.welcome(value("provider")))
    else:
        weighed = notices.attempt(lambda: preview.weighed(held))
        messages.conversation(held, weighed.states if weighed else ())
    if held is None:
        return
    if not busy and not held.ended and newest_message.broken(held):
        st.html(markup.stopped())
    if busy:
        st.fragment(_draw_answer, run_every=POLL)(held, drawn)
    elif held.ended:
        notices.ended(held, held.ended)
        if held.unsent and st.session_state.get("chat.sent"):
            st.code(st.session_state["chat.sent"], language=None, wrap_lines=True)
    elif problem := newest_message.problem(held):
        notices.before(held, problem)
    if not busy:
        notices.remarks(held)


def _outdated(room: rooms.Room, drawn: Drawn) -> bool:
    """Whether the turn has ended or a message of it is complete, so that the page has to be drawn again."""
    with room.lock:
        room.absorb()
    return not room.busy or len(room.session.messages) != drawn.messages


def _draw_answer(room: rooms.Room, drawn: Drawn) -> None:
    """Draw the answer while it comes. Leaving the page or reloading it does not end it.

    A page is drawn to its end before it is drawn again: cut short, it has the new messages above the old message box.
    """
    running = room.running
    if running is None or _outdated(room, drawn):
        if drawn.complete:
            st.rerun()
        return
    last = running.events[-1] if running.events else None
    if isinstance(last, WriteFailed):
        notices.unkept(last.error)
        return
    st.html(markup.streaming(*room.coming, last, room.stopping, drawn.messages))


def _draw_next_request(held: rooms.Room | None) -> None:
    """Draw the envelope of the next request, what was decided, and what the chat has used."""
    typed = typing_box.typed("{}.{}".format(*search_hits.at()) if search_hits.at()[0] else "")
    typed = typing_box.Typed() if typed.text and typed.text == st.session_state.get("chat.sent") else typed
    weighed = notices.attempt(lambda: preview.weighed(held, typed.text, typed.blocks))
    ahead = notices.attempt(lambda: preview.ahead(held))
    fits = preview.fits(held, weighed.plan if weighed else None)
    st.html(gauge.envelope(weighed, fits, ahead, bool(typed), bool(held and held.busy)))
    if attached := gauge.attached(weighed, typed):
        st.html(attached)
    st.html(markup.decisions(held.log if held else {}, fits, held.session if held else None))
    summaries.controls(held)
    if held:
        session = held.session
        since = int(session.about.get("live_from", 0))
        st.html(markup.spending(session, held.chat.spent_usd, choices.settings().spend_limit, since))


def _send(held: rooms.Room | None) -> None:
    """Send a message. A callback, because a run that is cut short by the end of a turn would lose it."""
    given = st.session_state["chat.input"]
    text, files = (given.text.strip(), given.files) if given else ("", [])
    if not text and not files:
        return
    try:
        content = attachments.build_content(text, [(file.name, file.getvalue()) for file in files])
        room = held or rooms.create(short(text or files[0].name, TITLE), value("system"))
        rooms.start(room, lambda chat: chat.send(content))
    except TurnscopeError as error:
        again = " What was attached has to be chosen again." if files else ""
        st.session_state["chat.problem"] = (error.what, f"{error.hint}{again}")
        st.session_state["chat.input"] = text  # back into the box: it need not be written again
        return
    st.session_state["chat.sent"] = text
    st.session_state.pop("chat.sought", None)
    choices.show(room.thread)
