"""Live chat: a conversation through the assembler, with the next request's envelope and what the policy decided beside it."""

from pages.parts import shell

shell.ensure()

import streamlit as st  # noqa: E402
from turnscope import TurnscopeError  # noqa: E402
from turnscope.live.events import Unkept  # noqa: E402
from turnscope.views import attachments  # noqa: E402

from pages.parts import (  # noqa: E402
    chat_branches,
    chat_cards,
    chat_chosen,
    chat_forms,
    chat_gauge,
    chat_hits,
    chat_list,
    chat_memory,
    chat_messages,
    chat_newest,
    chat_notices,
    chat_policy,
    chat_summaries,
    chat_weighed,
    chatting,
    controls,
    theme,
    typing_box,
)  # fmt: skip
from pages.parts.chat_values import value  # noqa: E402
from pages.parts.formats import esc, short  # noqa: E402

POLL = 0.15  # seconds between looks at a turn under way
LARGEST = 4  # MB of a file that the browser hands over; what may be sent is said in `attachments`
TITLE = 60  # characters of the first prompt that name a chat

theme.apply()
chat_cards.style()
here = chat_chosen.thread()
chat_chosen.prepare(here)
held = chat_notices.attempt(lambda: chatting.room(here)) if here else None
if held:
    chat_chosen.show(here)
# Before anything is drawn: a turn that ends amid this run is then still waited for, and its end draws the page again.
busy = bool(held and held.busy)
drawn = len(held.session.messages) if held else 0
complete = False  # a page that is cut short shows new messages beside an old message box; it is drawn to its end first


def submitted() -> None:
    """A message was sent. A callback, because a run that is cut short by the end of a turn would lose it."""
    given = st.session_state["chat.input"]
    text, files = (given.text.strip(), given.files) if given else ("", [])
    if not text and not files:
        return
    try:
        content = attachments.message(text, [(file.name, file.getvalue()) for file in files])
        room = held or chatting.create(short(text or files[0].name, TITLE), value("system"))
        chatting.start(room, lambda chat: chat.send(content))
    except TurnscopeError as error:
        again = " What was attached has to be chosen again." if files else ""
        st.session_state["chat.problem"] = (error.what, f"{error.hint}{again}")
        st.session_state["chat.input"] = text  # back into the box: it need not be written again
        return
    st.session_state["chat.sent"] = text
    st.session_state.pop("chat.sought", None)
    chat_chosen.show(room.thread)


def outdated(room: chatting.Room) -> bool:
    """The turn has ended, or a message of it is complete: the page has to be drawn again."""
    with room.lock:
        room.absorb()
    return not room.busy or len(room.session.messages) != drawn


def answering(room: chatting.Room) -> None:
    """The answer while it comes. Leaving the page or reloading it does not end it."""
    running = room.running
    if outdated(room) or running is None:
        if complete:
            st.rerun()
        return
    last = running.events[-1] if running.events else None
    if isinstance(last, Unkept):
        chat_notices.unkept(last.error)
        return
    st.html(chat_cards.streaming(*room.coming, last, room.stopping, drawn))


def beside() -> None:
    """The envelope of the next request, what was decided, and what the chat has used."""
    typed = typing_box.typed("{}.{}".format(*chat_hits.at()) if chat_hits.at()[0] else "")
    typed = typing_box.Typed() if typed.text and typed.text == st.session_state.get("chat.sent") else typed
    weighed = chat_notices.attempt(lambda: chat_weighed.weighed(held, typed.text, typed.blocks))
    ahead = chat_notices.attempt(lambda: chat_weighed.ahead(held))
    fits = chat_weighed.fits(held, weighed.plan if weighed else None)
    st.html(chat_gauge.envelope(weighed, fits, ahead, bool(typed), bool(held and held.busy)))
    if attached := chat_gauge.attached(weighed, typed):
        st.html(attached)
    st.html(chat_cards.decisions(held.log if held else {}, fits, held.session if held else None))
    chat_summaries.controls(held)
    if held:
        session = held.session
        since = int(session.about.get("live_from", 0))
        st.html(chat_cards.spending(session, held.chat.spent, chat_chosen.settings().spend, since))


bar = st.container(key="chat-bar", horizontal=True, vertical_alignment="center", gap="small")
with bar:
    name = (held.session.title if held else "") or "New chat"
    row = next((row for row in chat_chosen.threads().list() if held and row.id == held.thread), None)
    to, before = chat_chosen.goes(here)
    kind = chat_forms.PROVIDERS.get(to.kind, to.kind)
    st.html(chat_cards.title(row.title if row else name, kind, to.url, to.model, str(before or "")), width="stretch")
    if st.button("New", icon=":material/add:", key="chat.new", disabled=held is None):
        chat_chosen.show("")
        st.rerun()
    chat_list.chats(held)
    chat_branches.branches(held)
    chat_policy.form()
    chat_memory.panel(held)
    chat_forms.settings(held)

left, right = st.columns([3, 2], gap="medium")
with left:
    looked_for = held is not None and chat_hits.address(held.session) is not None  # then the box must not follow its end
    box = st.container(height=560, key="chat-box", autoscroll=not looked_for, border=False)
    with box:
        session = held.session if held else None
        if held is None or session is None or not any(m.role in ("user", "assistant") for m in session.messages):
            st.html(chat_cards.welcome(value("provider")))
        else:
            weighed = chat_notices.attempt(lambda: chat_weighed.weighed(held))
            states = weighed.states if weighed else ()
            chat_messages.conversation(held, states)
        if held and not busy and not held.ended and chat_newest.broken(held):
            st.html(chat_cards.stopped())
        if held and busy:
            st.fragment(answering, run_every=POLL)(held)
        elif held and held.ended:
            chat_notices.ended(held, held.ended)
            if held.unsent and st.session_state.get("chat.sent"):
                st.code(st.session_state["chat.sent"], language=None, wrap_lines=True)
        elif held and (problem := chat_newest.problem(held)):
            chat_notices.before(held, problem)
        if held and not busy:
            chat_notices.remarks(held)
    with st.container(key="chat-now", horizontal=True, horizontal_alignment="right", gap="small", height=44, border=False):
        if held and busy:
            # Here, beside the message box, it stays where it is however long the answer grows.
            st.button(
                "Stop", icon=":material/stop_circle:", key="chat.stop", type="primary", on_click=chatting.stop, args=(held,)
            )
        elif held:
            chat_notices.next_steps(held)
    if note := st.session_state.pop("chat.note", None):
        st.html(f'<p class="chat-more" role="status">{esc(note)}</p>')
    if problem := st.session_state.pop("chat.problem", None):
        controls.notice(*problem)
    st.chat_input(
        "Message the model",
        key="chat.input",
        disabled=busy,
        on_submit=submitted,
        accept_file="multiple",
        max_upload_size=LARGEST,
    )
with right:
    st.fragment(beside, run_every=4 * POLL if busy else None)()
    if held:
        chat_messages.requests(held)
complete = True
if held and busy and outdated(held):
    st.rerun()
