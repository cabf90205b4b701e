"""Live chats on the page: the rooms in which they go on, and turns that begin, are stopped and end there.

A room is shared by all tabs of this process, so a turn goes on whatever page is open.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import streamlit as st
from turnscope import Session, TurnscopeError
from turnscope.library import forget_chat
from turnscope.live import branches, endpoints
from turnscope.live.background_turn import BackgroundTurn
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    Event,
    FellBack,
    RequestDone,
    RequestPlanned,
    TextDelta,
    ThinkingDelta,
    TurnStopped,
    UnfinishedTurn,
    UsageIgnored,
    WindowAssumed,
)
from turnscope.live.threads import Destination
from turnscope.telemetry import trace_turn
from turnscope.views import Plan, next_request

from pages.chat import choices, context
from pages.parts import cache, chat_form
from pages.parts.chat_form import get_value, list_settings

KEPT = 40  # requests that the decision log looks back on
ENDING = 0.5  # seconds that a click on Stop waits for the end, so that the run after it draws the page as it is then


@dataclass(slots=True)
class OpenChat:
    """One chat that is open in this process. `log`: its newest plans; `ended`: how its last turn ended, if not well;
    `remarks`: what else is to be known of that turn; `stopping`: the person pressed stop.

    `stale`: a write failed, so the store knows better than the room; `unsent`: the message may not have been kept.
    While a turn is under way, `chat` belongs to the turn's thread alone; pages read `session`, its value at the last event.
    """

    thread: str
    chat: Chat
    session: Session
    turn: BackgroundTurn | None = None
    log: dict[int, Plan] = field(default_factory=dict)
    ending: UnfinishedTurn | None = None
    remarks: tuple[TurnStopped | WindowAssumed | FellBack | UsageIgnored, ...] = ()
    stopping: bool = False
    unsent: bool = False
    stale: bool = False
    policy: str = ""  # the one in force, as text
    turn_window: int = 0  # the window that the newest turn began with
    learned_windows: dict[str, int] = field(default_factory=dict)  # windows that servers named in refusals, by model
    cut_forecast: tuple[object, next_request.NextCut] | None = None  # and what it was found for
    lock: Lock = field(default_factory=Lock)

    @property
    def is_busy(self) -> bool:
        """A turn is under way, or its outcome is not taken over yet: a page would draw the turn before."""
        return self.turn is not None

    @property
    def write_error(self) -> TurnscopeError | None:
        """Why the last message is not written yet, but held in memory."""
        return self.chat.writes.last_error if self.chat.writes.pending else None

    @property
    def partial_answer(self) -> tuple[str, str]:
        """Text and thinking of the answer that is coming; nothing of it once it stands in the session."""
        if self.turn is None:
            return "", ""
        sent = next((event.plan.request.n for event in reversed(self.turn.events) if isinstance(event, RequestPlanned)), -1)
        return (self.turn.text, self.turn.thinking) if sent >= len(self.session.requests) else ("", "")

    def absorb_events(self) -> None:
        """Take over what the turn has reported so far; at its end, what went wrong."""
        if self.turn is None:
            return
        for event in list(self.turn.events):
            if isinstance(event, RequestPlanned | RequestDone) and event.plan:
                self.log[event.plan.request.n] = event.plan
        for number in sorted(self.log)[:-KEPT]:
            del self.log[number]
        if self.turn.is_done:
            last = self.turn.events[-1] if self.turn.events else None
            self.ending = last if isinstance(last, UnfinishedTurn) else None
            self.remarks = tuple(
                event for event in self.turn.events if isinstance(event, TurnStopped | WindowAssumed | FellBack | UsageIgnored)
            )
            if self.chat.settings.window != self.turn_window:
                self.learned_windows[self.chat.settings.model] = self.chat.settings.window
            self.stale = self.turn.error is not None and not self.chat.writes.pending
            self.turn = None


@st.cache_resource(show_spinner=False)
def _get_chats() -> dict[str, OpenChat]:
    return {}


@st.cache_resource(show_spinner=False)
def _get_lock() -> Lock:
    return Lock()


def open_thread(thread: str) -> OpenChat:
    """The chat of a stored thread, opened where it is not. Raises `TurnscopeError`s."""
    with _get_lock():
        open_chat = _get_chats().get(thread)
        if open_chat is None:
            to = cache.open_chat_store().find_destination(thread)
            chosen = replace(choices.build_settings(), model=to.model, window=to.window) if to else choices.build_settings()
            session = cache.open_chat_store().load(thread)
            spare = endpoints.connect_endpoint(
                endpoints.Endpoint(), chat_form.get_offline_server()
            )  # replaced before anything is sent
            known = cache.open_chat_store().list_policies(thread)
            chat, plans = branches.resume_chat(
                session, spare, cache.open_chat_store().open_writer(thread), chosen, policies=known, destination=to
            )
            open_chat = OpenChat(
                thread,
                chat,
                chat.live_session.session,
                log={plan.request.n: plan for plan in plans[-KEPT:]},
                policy=known[-1][1].to_toml() if known else "",
            )
            _get_chats()[thread] = open_chat
    with open_chat.lock:
        open_chat.absorb_events()
    if open_chat.stale:
        _get_chats().pop(thread, None)
        ended, open_chat = open_chat.ending, open_thread(thread)
        open_chat.ending, open_chat.unsent = ended, True
    return open_chat


def create_chat(title: str, system: str, more: dict[str, Any] | None = None) -> OpenChat:
    """A new thread with its system prompt and tools.

    Args:
        title: title of the chat.
        system: system prompt; "" = none.
        more: what is stored about the thread besides its settings.

    Raises:
        TurnscopeError: the provider is not reachable as it is set up, or the store cannot be written.
    """
    made, to = chat_form.connect_provider(), chat_form.get_destination()
    id = cache.open_chat_store().create(title=title, about={**list_settings(), **(more or {})}, place=to)
    chat = branches.start_chat(
        id, made, cache.open_chat_store().open_writer(id), choices.build_settings(), system, choices.list_tools(), to
    )
    st.session_state["chat.placed"] = to
    _get_chats()[id] = OpenChat(id, chat, chat.live_session.session)
    return _get_chats()[id]


def start_turn(open_chat: OpenChat, turn: Callable[[Chat], Generator[Event]]) -> None:
    """Begin a turn with the settings chosen now; one at a time.

    Args:
        open_chat: the chat.
        turn: begins the turn.

    Raises:
        TurnscopeError: a turn is under way, or the provider is not reachable as it is set up.
    """
    with open_chat.lock:
        open_chat.absorb_events()
        if open_chat.is_busy:
            raise TurnscopeError("a turn of this chat is under way", hint="Wait for its end, or stop it.")
        chat = open_chat.chat
        before, to = chat.destination, _decide_destination(open_chat)
        if before is None or not to.is_same_server(before):
            chat.served_models = None
        chat.destination = to
        made, chosen = chat_form.connect_provider(to), resolve_settings(open_chat, to)
        chat.provider, chat.settings, chat.sink = made, chosen, cache.open_chat_store().open_writer(open_chat.thread)
        chat.tools = endpoints.build_toolbox(get_value("folder"), get_value("tools"))
        sink = chat.sink
        if open_chat.policy != chosen.policy.to_toml():
            sink.write_policy(chosen.policy, len(chat.live_session.session.requests))
            open_chat.policy = chosen.policy.to_toml()
        turn = trace_turn(context.attach(chat, open_chat.thread, turn))
        if get_value("provider") == "offline" and get_value("fault") != "none":
            chat_form.get_offline_server().faults.append(get_value("fault"))
            st.session_state["chat.fault_used"] = True  # the form shows "none" from the next run on
        open_chat.ending, open_chat.unsent, open_chat.remarks, open_chat.stopping, open_chat.turn_window = (
            None,
            False,
            (),
            False,
            chosen.window,
        )
        open_chat.turn = BackgroundTurn(_watch_events(open_chat, turn(chat)), chat)


def _watch_events(open_chat: OpenChat, turn: Generator[Event]) -> Iterator[Event]:
    """The turn's events; after each that changed the session, its new value is there to be read."""
    try:
        for event in turn:
            if not isinstance(event, TextDelta | ThinkingDelta):
                open_chat.session = open_chat.chat.live_session.session
            yield event
    finally:
        turn.close()
        open_chat.session = open_chat.chat.live_session.session


def _decide_destination(open_chat: OpenChat) -> Destination:
    """Where the next request goes; a change is kept as the person's decision."""
    to, before = choices.find_destination(open_chat.thread)
    if before is not None or cache.open_chat_store().find_destination(open_chat.thread) is None:
        chat_form.connect_provider(to)  # what is not reachable for want of a key or an address is no decision
        cache.open_chat_store().open_writer(open_chat.thread).write_destination(
            to, len(open_chat.chat.live_session.session.requests)
        )
    st.session_state["chat.placed"] = chat_form.get_destination()
    return to


def resolve_settings(open_chat: OpenChat, to: Destination) -> Settings:
    """The settings of the next request, for where it goes. A window that a server named in a refusal is not forgotten.

    Args:
        open_chat: the chat.
        to: where the request goes.
    """
    return replace(choices.build_settings(), model=to.model, window=to.window or open_chat.learned_windows.get(to.model, 0))


def stop_turn(open_chat: OpenChat) -> None:
    """End the turn at the next piece of the answer. Most have ended when this returns: one run less until the next message."""
    running = open_chat.turn
    if running is not None:
        open_chat.stopping = True
        running.stop()
        running.wait(ENDING)


def change_chat(open_chat: OpenChat, what: Callable[[Chat], object]) -> None:
    """Do something to a chat between two turns.

    Args:
        open_chat: the chat.
        what: does it.

    Raises:
        TurnscopeError: a turn is under way, or the change cannot be stored.
    """
    with open_chat.lock:
        open_chat.absorb_events()
        if open_chat.is_busy:
            raise TurnscopeError("a turn of this chat is under way", hint="Wait for its end, or stop it.")
        what(open_chat.chat)
        open_chat.session = open_chat.chat.live_session.session


def delete_chat(open_chat: OpenChat) -> None:
    """Delete a chat for good, and show a new one."""
    change_chat(open_chat, lambda _: cache.open_chat_store().delete(open_chat.thread))
    with suppress(TurnscopeError):  # what is deleted is not found on the library page either way
        forget_chat(cache.open_store().index_path, open_chat.thread)
    _get_chats().pop(open_chat.thread, None)
    choices.show_thread("")
    st.rerun()
