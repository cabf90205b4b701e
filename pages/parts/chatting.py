"""Live chats on the page: the rooms in which they go on, which one the URL names, and what is chosen for the next request.

`?thread=<id>` names a chat. A room is shared by all tabs of this process, so a turn goes on whatever page is open. A typed key
stays in this tab's memory (`st.session_state`) and in the provider made from it; it is never in the URL, a log or the store.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from threading import Lock
from typing import Any

import streamlit as st

from engine import Policy, Session, TurnscopeError
from engine.live import branches, providers
from engine.live.chat import Chat, Settings
from engine.live.events import Ending, Event, Planned, Text, Thinking
from engine.live.offline import Offline
from engine.live.provider import Provider
from engine.live.running import Running
from engine.live.sinks import Unkept
from engine.live.threads import Place, Threads
from engine.live.tools import DEFINITIONS
from engine.views import Plan, next_request
from pages.parts import replays, state
from pages.parts.chat_values import DEFAULTS, POLICY, about, value

DELAY = 0.05  # seconds between the pieces of the built-in model's answers: quick, but slow enough to be watched and stopped
KEPT = 40  # requests that the decision log looks back on


@dataclass(slots=True)
class Room:
    """One chat that is open in this process. `log`: its newest plans; `ended`: how its last turn ended, if not well.

    `stale`: a write failed, so the store knows better than the room; `unsent`: the message may not have been kept.
    While a turn is under way, `chat` belongs to the turn's thread alone; pages read `session`, its value at the last event.
    """

    thread: str
    chat: Chat
    session: Session
    running: Running | None = None
    log: dict[int, Plan] = field(default_factory=dict)
    ended: Ending | None = None
    unsent: bool = False
    stale: bool = False
    policy: str = ""
    lock: Lock = field(default_factory=Lock)

    @property
    def busy(self) -> bool:
        """A turn is under way."""
        return self.running is not None and not self.running.done

    def absorb(self) -> None:
        """Take over what the turn has told so far; at its end, what went wrong."""
        if self.running is None:
            return
        for event in list(self.running.events):
            if isinstance(event, Planned):
                self.log[event.plan.request.n] = event.plan
        for number in sorted(self.log)[:-KEPT]:
            del self.log[number]
        if self.running.done:
            last = self.running.events[-1] if self.running.events else None
            self.ended = last if isinstance(last, Ending) else None
            self.stale = self.running.failed is not None and not self.chat.keeping.waiting
            self.running = None


# Resources


@st.cache_resource(show_spinner=False)
def offline() -> Offline:
    """The built-in model, one for this process."""
    return Offline(delay=DELAY)


@st.cache_resource(show_spinner=False)
def _rooms() -> dict[str, Room]:
    return {}


@st.cache_resource(show_spinner=False)
def _opening() -> Lock:
    return Lock()


def threads() -> Threads:
    """The store of chats."""
    return Threads(state.chats_file())


# Which chat


def thread() -> str:
    """The chat that the URL names, else the one last looked at; "" = a new one."""
    wanted = st.query_params.get("thread")
    wanted = st.session_state.get("chat.thread", "") if wanted is None else wanted
    return wanted if wanted and any(row.id == wanted for row in threads().list()) else ""


def show(thread: str) -> None:
    """Show another chat; "" = a new one."""
    st.session_state["chat.thread"] = thread
    if thread:
        st.query_params.from_dict({"thread": thread})
    else:
        st.query_params.clear()


# What is chosen for the next request


def prepare(thread: str) -> None:
    """Give the form its first values, or those of the chat that is opened now."""
    if st.session_state.pop("chat.fault_used", False):
        st.session_state["chat.fault"] = "none"
    for name, default in DEFAULTS.items():
        st.session_state.setdefault(f"chat.{name}", list(default) if isinstance(default, list) else default)
    if thread and st.session_state.get("chat.settled") != thread:
        about = next((row.about for row in threads().list() if row.id == thread), {})
        for name in ("policy", "folder"):
            if about.get(name):
                st.session_state[f"chat.{name}"] = about[name]
        goes = threads().place(thread) or Place("server")  # of a chat that does not say it, an address is asked for
        for name, held in (("provider", goes.kind), ("url", goes.url), ("model", goes.model)):
            st.session_state[f"chat.{name}"] = held
        if value("policy") not in policies():
            st.session_state["chat.policy"] = POLICY
        st.session_state["chat.placed"] = place()
    st.session_state["chat.settled"] = thread


def policies() -> dict[str, Policy]:
    """Every policy that can send a chat, Turnscope's own first."""
    known = dict(replays.shelf().policies)
    known.pop(replays.RECORDED, None)
    first = [name for name in (POLICY, "keep-everything") if name in known]
    return {name: known[name] for name in [*first, *(name for name in known if name not in first)]}


def settings() -> Settings:
    """What is in force for the next request."""
    spend, known = value("spend"), policies()
    return Settings(
        model=value("model") or DEFAULTS["model"],
        policy=known.get(value("policy")) or known[POLICY],
        max_tokens=int(value("max")),
        thinking=bool(value("thinking")),
        summary_model=value("summary") or "",
        condense=bool(value("condense")),
        spend=Decimal(str(spend)) if spend else None,
        growth=int(value("growth") or 0),
    )


def place() -> Place:
    """Where the form says that a chat goes."""
    kind = value("provider")
    return Place(kind, value("url").strip() if kind == "server" else "", value("model") or "")


def key() -> str:
    """Under which name this tab's memory has the key of the form's address: each origin has one of its own."""
    return f"key.{providers.Endpoint(value('provider'), value('url')).origin}"


def provider(to: Place | None = None) -> Provider:
    """The provider where a chat goes, else where the form says. TurnscopeError where a key or an address is missing."""
    to = to or place()
    endpoint = providers.Endpoint(to.kind, to.url)  # type: ignore[arg-type]
    typed = (st.session_state.get(f"chat.key.{endpoint.origin}") or "").strip()
    return providers.provider(replace(endpoint, key=typed), offline())


def _decided(held: Room) -> Place:
    """Where a chat goes now: where it says, unless the form was changed since it was filled in from that."""
    known, wanted = threads().place(held.thread), place()
    if known is not None and wanted == st.session_state.get("chat.placed"):
        return known
    if known is None or (known.kind, known.url, known.model) != (wanted.kind, wanted.url, wanted.model):
        provider(wanted)  # what is not reachable for want of a key or an address is no decision
        threads().sink(held.thread).place(wanted, len(held.chat.growing.session.requests))
        known = wanted
    st.session_state["chat.placed"] = wanted
    return known


# Rooms


def room(thread: str) -> Room:
    """The chat of a stored thread, opened where it is not. Raises `TurnscopeError`s."""
    with _opening():
        held = _rooms().get(thread)
        if held is None:
            goes = threads().place(thread)
            chosen = replace(settings(), model=goes.model, window=goes.window) if goes else settings()
            session = threads().load(thread)
            spare = providers.provider(providers.Endpoint(), offline())  # replaced before anything is sent
            known = threads().policies(thread)
            chat, plans = branches.resumed(session, spare, threads().sink(thread), chosen, policies=known, place=goes)
            held = Room(
                thread,
                chat,
                chat.growing.session,
                log={plan.request.n: plan for plan in plans[-KEPT:]},
                policy=known[-1][1].name if known else "",
            )
            _rooms()[thread] = held
    with held.lock:
        held.absorb()
    if held.stale:
        _rooms().pop(thread, None)
        ended, held = held.ended, room(thread)
        held.ended, held.unsent = ended, True
    return held


def draft() -> Chat:
    """A chat that is only weighed: what a first message would be sent with."""
    spare = providers.provider(providers.Endpoint(), offline())
    return branches.begun("draft", spare, Unkept(), settings(), value("system"), _definitions())


def _definitions() -> list[dict[str, Any]]:
    return [tool for tool in DEFINITIONS if tool["name"] in value("tools")]


def create(title: str, system: str, more: dict[str, Any] | None = None) -> Room:
    """A new thread with its system prompt and tools. Raises `TurnscopeError`s."""
    made, goes = provider(), place()
    id = threads().create(title=title, about={**about(), **(more or {})}, place=goes)
    chat = branches.begun(id, made, threads().sink(id), settings(), system, _definitions(), goes)
    st.session_state["chat.placed"] = goes
    _rooms()[id] = Room(id, chat, chat.growing.session)
    return _rooms()[id]


def start(held: Room, turn: Callable[[Chat], Generator[Event]]) -> None:
    """Begin a turn with the settings chosen now; one at a time. Raises `TurnscopeError`s."""
    with held.lock:
        if held.busy:
            raise TurnscopeError("a turn of this chat is under way", hint="Wait for its end, or stop it.")
        held.absorb()
        chat = held.chat
        goes = chat.place = _decided(held)
        made, chosen = provider(goes), replace(settings(), model=goes.model, window=goes.window)
        chat.provider, chat.settings, chat.sink = made, chosen, threads().sink(held.thread)
        chat.tools = providers.toolbox(value("folder"), value("tools"))
        if held.policy != chosen.policy.name:
            chat.sink.policy(chosen.policy, len(chat.growing.session.requests))
            held.policy = chosen.policy.name
        if value("provider") == "offline" and value("fault") != "none":
            offline().faults.append(value("fault"))
            st.session_state["chat.fault_used"] = True  # the form shows "none" from the next run on
        held.ended, held.unsent = None, False
        held.running = Running(_watched(held, turn(chat)))


def _watched(held: Room, turn: Generator[Event]) -> Iterator[Event]:
    """The turn's events; after each that changed the session, its new value is there to be read."""
    try:
        for event in turn:
            if not isinstance(event, Text | Thinking):
                held.session = held.chat.growing.session
            yield event
    finally:
        turn.close()
        held.session = held.chat.growing.session


def due(held: Room) -> bool:
    """The newest message waits for an answer."""
    return bool(branches.unanswered(held.session))


def broken(held: Room) -> bool:
    """The newest request was stopped, or its stream broke."""
    return bool(held.session.requests) and held.session.requests[-1].stop_reason == "interrupted"


def planned(held: Room | None, text: str = "") -> Plan | None:
    """The next request, were `text` said first; while a turn is under way, the request that is being answered."""
    if held is None:
        return draft().planned(text)
    with held.lock:
        held.absorb()
        if held.busy:
            return held.log[max(held.log)] if held.log else None
        held.chat.settings = settings()
        return held.chat.planned(text)


def fits(held: Room | None, plan: Plan | None) -> next_request.Fits:
    """Prefix and scale of every request so far and of the one that is planned; () where there is no chat yet."""
    return next_request.fits(held.session, held.chat.sizes, plan) if held else ()
