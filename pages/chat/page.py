"""Live chat: a conversation through the assembler, with the next request's envelope and what the policy decided next to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live import attachments, endpoints, injected_context
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
    open_chats,
    policy_form,
    preview,
    search_hits,
    settings_form,
    summaries,
    typing_box,
    walkthrough,
)
from pages.parts import cache, theme, widgets
from pages.parts.chat_form import get_value
from pages.parts.formats import escape, shorten

SHEET = Path(__file__).parent / "browser" / "chat.css"
POLL = 0.15  # seconds between looks at a turn under way
LARGEST = 4  # MB of a file that the browser hands over; `attachments` holds what may be sent
TITLE = 60  # characters of the first prompt that name a chat


@dataclass(slots=True)
class PageRun:
    """What a run of the page has drawn: `messages` of its chat; `complete` when it has come to its end."""

    messages: int
    complete: bool = False


def draw() -> None:
    """Draw the page."""
    theme.apply_theme()
    theme.add_sheet(SHEET)
    here = walkthrough.prepare(choices.find_thread())
    choices.prepare_form(here)
    open_chat = notices.attempt(lambda: open_chats.open_thread(here)) if here else None
    if open_chat:
        choices.show_thread(here)
        walkthrough.go_on(open_chat)
    # Before anything is drawn: a turn that ends during this run is then still waited for, and its end draws the page again.
    busy, drawn = bool(open_chat and open_chat.is_busy), PageRun(len(open_chat.session.messages) if open_chat else 0)
    _draw_bar(here, open_chat)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _draw_chat(open_chat, busy, drawn)
    with right:
        st.fragment(_draw_next_request, run_every=4 * POLL if busy else None)(open_chat)
        if open_chat:
            messages.draw_requests(open_chat)
    drawn.complete = True
    if open_chat and busy and _is_outdated(open_chat, drawn):
        st.rerun()


def _draw_bar(here: str, open_chat: open_chats.OpenChat | None) -> None:
    """Draw the chat's name, where it goes, and the buttons that open lists and forms."""
    with st.container(key="chat-bar", horizontal=True, vertical_alignment="center", gap="small"):
        name = (open_chat.session.title if open_chat else "") or "New chat"
        row = next((row for row in cache.open_chat_store().list() if open_chat and row.id == open_chat.thread), None)
        to, before = choices.find_destination(here)
        kind = settings_form.PROVIDERS[endpoints.make_endpoint(to).kind]
        st.html(markup.render_title(row.title if row else name, kind, to.url, to.model, str(before or "")), width="stretch")
        if st.button("New", icon=":material/add:", key="chat.new", disabled=open_chat is None):
            choices.show_thread("")
            st.rerun()
        chats.draw(open_chat)
        branches.draw(open_chat)
        policy_form.draw()
        memory_panel.draw(open_chat)
        settings_form.draw(open_chat)


def _draw_chat(open_chat: open_chats.OpenChat | None, busy: bool, drawn: PageRun) -> None:
    """Draw the messages, the buttons under them and the message box."""
    looked_for = (
        open_chat is not None and search_hits.find_sought_block(open_chat.session) is not None
    )  # then the box must not follow its end
    with st.container(height=560, key="chat-box", autoscroll=not looked_for, border=False):
        _draw_messages(open_chat, busy, drawn)
    with st.container(key="chat-now", horizontal=True, horizontal_alignment="right", gap="small", height=44, border=False):
        if open_chat and busy:
            # Here, next to the message box, it stays where it is however long the answer grows.
            st.button(
                "Stop",
                icon=":material/stop_circle:",
                key="chat.stop",
                type="primary",
                on_click=open_chats.stop_turn,
                args=(open_chat,),
            )
        elif open_chat:
            notices.draw_next_steps(open_chat)
    if note := st.session_state.pop("chat.note", None):
        st.html(f'<p class="chat-more" role="status">{escape(note)}</p>')
    if problem := st.session_state.pop("chat.problem", None):
        widgets.draw_notice(*problem)
    st.chat_input(
        "Message the model",
        key="chat.input",
        disabled=busy,
        on_submit=_send_message,
        args=(open_chat,),
        accept_file="multiple",
        max_upload_size=LARGEST,
    )


def _draw_messages(open_chat: open_chats.OpenChat | None, busy: bool, drawn: PageRun) -> None:
    """Draw the conversation, the answer that is coming, and what is to be known of the newest turn."""
    if open_chat is None or not any(m.role in ("user", "assistant") for m in open_chat.session.messages):
        st.html(markup.render_welcome(get_value("provider")))
    else:
        weighed = notices.attempt(lambda: preview.preview_request(open_chat))
        messages.draw(open_chat, weighed.states if weighed else ())
    if open_chat is None:
        return
    if not busy and not open_chat.ending and newest_message.is_interrupted(open_chat):
        st.html(markup.render_interruption())
    if busy:
        st.fragment(_draw_answer, run_every=POLL)(open_chat, drawn)
    elif open_chat.ending:
        notices.draw_ending(open_chat, open_chat.ending)
        if open_chat.unsent and st.session_state.get("chat.sent"):
            st.code(st.session_state["chat.sent"], language=None, wrap_lines=True)
    elif problem := newest_message.find_problem(open_chat):
        notices.draw_stored_problem(open_chat, problem)
    if not busy:
        notices.draw_remarks(open_chat)


def _is_outdated(room: open_chats.OpenChat, drawn: PageRun) -> bool:
    """Whether the turn has ended or a message of it is complete, so that the page has to be drawn again."""
    with room.lock:
        room.absorb_events()
    return not room.is_busy or len(room.session.messages) != drawn.messages


def _draw_answer(room: open_chats.OpenChat, drawn: PageRun) -> None:
    """Draw the answer while it comes. Leaving the page or reloading it does not end it.

    A page is drawn to its end before it is drawn again: cut short, it has the new messages above the old message box.
    """
    running = room.turn
    if running is None or _is_outdated(room, drawn):
        if drawn.complete:
            widgets.rerun_page()
        return
    last = running.events[-1] if running.events else None
    if isinstance(last, WriteFailed):
        notices.draw_write_failure(last.error)
        return
    st.html(markup.render_growing_answer(*room.partial_answer, last, room.stopping, drawn.messages))


def _draw_next_request(open_chat: open_chats.OpenChat | None) -> None:
    """Draw the envelope of the next request, what was decided, and what the chat has used."""
    typed = typing_box.read_draft("{}.{}".format(*search_hits.get_sought()) if search_hits.get_sought()[0] else "")
    typed = typing_box.Draft() if typed.text and typed.text == st.session_state.get("chat.sent") else typed
    weighed = notices.attempt(lambda: preview.preview_request(open_chat, typed.text, typed.blocks))
    ahead = notices.attempt(lambda: preview.predict_cut(open_chat))
    fits = preview.list_fits(open_chat, weighed.plan if weighed else None)
    st.html(gauge.render_envelope(weighed, fits, ahead, bool(typed), bool(open_chat and open_chat.is_busy)))
    _draw_lost_rules(weighed)
    if attached := gauge.render_attachments(weighed, typed):
        st.html(attached)
    st.html(markup.render_decisions(open_chat.log if open_chat else {}, fits, open_chat.session if open_chat else None))
    summaries.draw(open_chat)
    if open_chat:
        session = open_chat.session
        since = int(session.about.get("live_from", 0))
        st.html(markup.render_spending(session, open_chat.chat.spent_usd, choices.build_settings().spend_limit, since))


def _draw_lost_rules(weighed: preview.RequestPreview | None) -> None:
    """Draw which rules of the user's are lost, and the button that has them repeated from then on."""
    if lost := gauge.render_lost_rules(weighed):
        st.html(lost)
        if not injected_context.repeats_user_rules(choices.build_settings().policy):
            st.button("Repeat my rules", key="chat.repeat_rules", on_click=_repeat_rules, help=policy_form.REPEAT_HELP)


def _repeat_rules() -> None:
    st.session_state["chat.repeat"] = True


def _send_message(open_chat: open_chats.OpenChat | None) -> None:
    """Send a message. A callback, because a run that is cut short by the end of a turn would lose it."""
    message = st.session_state.get("chat.input")
    text, files = (message.text.strip(), message.files) if message else ("", [])
    if not text and not files:
        return
    try:
        content = attachments.build_content(text, [(file.name, file.getvalue()) for file in files])
        room = open_chat or open_chats.create_chat(shorten(text or files[0].name, TITLE), get_value("system"))
        open_chats.start_turn(room, lambda chat: chat.send(content))
    except TurnscopeError as error:
        again = " What was attached has to be chosen again." if files else ""
        st.session_state["chat.problem"] = (error.what, f"{error.hint}{again}")
        st.session_state["chat.input"] = text  # back into the box: it need not be written again
        return
    st.session_state["chat.sent"] = text
    st.session_state.pop("chat.sought", None)
    choices.show_thread(room.thread)
