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
from engine.live import branches, gateway, providers
from engine.live.chat import Chat, Settings
from engine.live.events import Assumed, Ending, Event, Planned, Stopped, Text, Thinking
from engine.live.offline import Offline
from engine.live.provider import Provider
from engine.live.running import Running
from engine.live.secrets import Keys
from engine.live.sinks import Unkept
from engine.live.threads import Place, Threads
from engine.live.tools import DEFINITIONS
from engine.live.windows import Window
from engine.views import Plan, knobs, next_request
from pages.parts import replays, state
from pages.parts.chat_values import DEFAULTS, POLICY, about, value

DELAY = 0.05  # seconds between the pieces of the built-in model's answers: quick, but slow enough to be watched and stopped
KEPT = 40  # requests that the decision log looks back on


@dataclass(slots=True)
class Room:
    """One chat that is open in this process. `log`: its newest plans; `ended`: how its last turn ended, if not well;
    `remarks`: what else is to be known of that turn; `stopping`: the person pressed stop.

    `stale`: a write failed, so the store knows better than the room; `unsent`: the message may not have been kept.
    While a turn is under way, `chat` belongs to the turn's thread alone; pages read `session`, its value at the last event.
    """

    thread: str
    chat: Chat
    session: Session
    running: Running | None = None
    log: dict[int, Plan] = field(default_factory=dict)
    ended: Ending | None = None
    remarks: tuple[Stopped | Assumed, ...] = ()
    stopping: bool = False
    unsent: bool = False
    stale: bool = False
    policy: str = ""  # the one in force, as text
    told: int = 0  # the window that the newest turn began with
    learned: dict[str, int] = field(default_factory=dict)  # windows that servers named in refusals, by model
    foreseen: tuple[object, next_request.Ahead] | None = None  # and what it was found for
    lock: Lock = field(default_factory=Lock)

    @property
    def busy(self) -> bool:
        """A turn is under way."""
        return self.running is not None and not self.running.done

    @property
    def unkept(self) -> TurnscopeError | None:
        """Why what was said last is not written yet, but held in memory."""
        return self.chat.keeping.last if self.chat.keeping.waiting else None

    @property
    def coming(self) -> tuple[str, str]:
        """Text and thinking of the answer that is coming; nothing of it once it stands in the session."""
        if self.running is None:
            return "", ""
        sent = next((event.plan.request.n for event in reversed(self.running.events) if isinstance(event, Planned)), -1)
        return (self.running.text, self.running.thinking) if sent >= len(self.session.requests) else ("", "")

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
            self.remarks = tuple(event for event in self.running.events if isinstance(event, Stopped | Assumed))
            if self.chat.settings.window != self.told:
                self.learned[self.chat.settings.model] = self.chat.settings.window
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
        to = threads().place(thread) or Place("server")  # of a chat that does not say it, an address is asked for
        for name, held in (("provider", to.kind), ("url", to.url), ("model", to.model), ("window", to.window)):
            st.session_state[f"chat.{name}"] = held
        _turned_back(thread)
        if value("policy") not in policies():
            st.session_state["chat.policy"] = POLICY
        st.session_state["chat.placed"] = place()
    st.session_state["chat.settled"] = thread


def _turned_back(thread: str) -> None:
    """The chat's policy was turned by hand: the form shows it so."""
    kept = threads().policies(thread)
    base = policies().get(kept[-1][1].name) if kept else None
    if base and [part.rule.name for part in kept[-1][1].rules] == [part.rule.name for part in base.rules]:
        turned()[base.name] = knobs.changes(kept[-1][1], base)


def turned() -> dict[str, dict[str, Any]]:
    """Changed parameters of policies, by the policy's name, as this tab has them."""
    found: dict[str, dict[str, Any]] = st.session_state.setdefault("chat.turned", {})
    return found


def policy() -> Policy:
    """The policy that is chosen, with the parameters that were changed."""
    known = policies()
    base = known.get(value("policy")) or known[POLICY]
    return knobs.tuned(base, turned().get(base.name, {}))


def policies() -> dict[str, Policy]:
    """Every policy that can send a chat, Turnscope's own first."""
    known = dict(replays.shelf().policies)
    known.pop(replays.RECORDED, None)
    first = [name for name in (POLICY, "keep-everything") if name in known]
    return {name: known[name] for name in [*first, *(name for name in known if name not in first)]}


def settings() -> Settings:
    """What is in force for the next request."""
    spend = value("spend")
    return Settings(
        model=value("model") or DEFAULTS["model"],
        policy=policy(),
        max_tokens=int(value("max")),
        thinking=bool(value("thinking")),
        summary_model=value("summary") or "",
        condense=bool(value("condense")),
        spend=Decimal(str(spend)) if spend else None,
        growth=int(value("growth") or 0),
        window=int(value("window") or 0),
        temperature=value("temperature"),
        cache=value("cache"),
    )


def place() -> Place:
    """Where the form says that a chat goes."""
    kind = value("provider")
    url = value("url").strip() if kind == "server" else ""
    return Place(kind, url, value("model") or "", int(value("window") or 0))


def goes(held: Room | None) -> tuple[Place, Place | None]:
    """Where the next request goes; and where those before it went, where that was changed in the form since."""
    known, wanted = threads().place(held.thread) if held else None, place()
    if known is None or known == wanted:
        return wanted, None
    return (known, None) if wanted == st.session_state.get("chat.placed") else (wanted, known)


def window() -> Window:
    """What the server says of its model's window: asked over the network, for a few seconds."""
    to, keys = place(), Keys()
    keys.put(to.url, (st.session_state.get(f"chat.{key()}") or "").strip())
    return providers.window(to, keys)


def key() -> str:
    """Under which name this tab's memory has the key of the form's address: each origin has one of its own."""
    return f"key.{providers.Endpoint(value('provider'), value('url')).origin}"


def provider(to: Place | None = None) -> Provider:
    """The provider where a chat goes, else where the form says. TurnscopeError where a key or an address is missing."""
    to = to or place()
    if not to.model:
        raise TurnscopeError("no model is chosen", hint="Type its name in the settings.")
    endpoint = providers.Endpoint(to.kind, to.url)  # type: ignore[arg-type]
    typed = (st.session_state.get(f"chat.key.{endpoint.origin}") or "").strip()
    return providers.provider(replace(endpoint, key=typed), offline())


def _decided(held: Room) -> Place:
    """Where the next request goes; a change is kept as the person's decision."""
    to, before = goes(held)
    if before is not None or threads().place(held.thread) is None:
        provider(to)  # what is not reachable for want of a key or an address is no decision
        threads().sink(held.thread).place(to, len(held.chat.growing.session.requests))
    st.session_state["chat.placed"] = place()
    return to


def _chosen(held: Room, to: Place) -> Settings:
    """The settings of the next request, for where it goes. A window that a server named in a refusal is not forgotten."""
    return replace(settings(), model=to.model, window=to.window or held.learned.get(to.model, 0))


# Rooms


def room(thread: str) -> Room:
    """The chat of a stored thread, opened where it is not. Raises `TurnscopeError`s."""
    with _opening():
        held = _rooms().get(thread)
        if held is None:
            to = threads().place(thread)
            chosen = replace(settings(), model=to.model, window=to.window) if to else settings()
            session = threads().load(thread)
            spare = providers.provider(providers.Endpoint(), offline())  # replaced before anything is sent
            known = threads().policies(thread)
            chat, plans = branches.resumed(session, spare, threads().sink(thread), chosen, policies=known, place=to)
            held = Room(
                thread,
                chat,
                chat.growing.session,
                log={plan.request.n: plan for plan in plans[-KEPT:]},
                policy=knobs.as_text(known[-1][1]) if known else "",
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
    made, to = provider(), place()
    id = threads().create(title=title, about={**about(), **(more or {})}, place=to)
    chat = branches.begun(id, made, threads().sink(id), settings(), system, _definitions(), to)
    st.session_state["chat.placed"] = to
    _rooms()[id] = Room(id, chat, chat.growing.session)
    return _rooms()[id]


def start(held: Room, turn: Callable[[Chat], Generator[Event]]) -> None:
    """Begin a turn with the settings chosen now; one at a time. Raises `TurnscopeError`s."""
    with held.lock:
        if held.busy:
            raise TurnscopeError("a turn of this chat is under way", hint="Wait for its end, or stop it.")
        held.absorb()
        chat = held.chat
        to = chat.place = _decided(held)
        made, chosen = provider(to), _chosen(held, to)
        chat.provider, chat.settings, chat.sink = made, chosen, threads().sink(held.thread)
        chat.tools = providers.toolbox(value("folder"), value("tools"))
        if held.policy != knobs.as_text(chosen.policy):
            chat.sink.policy(chosen.policy, len(chat.growing.session.requests))
            held.policy = knobs.as_text(chosen.policy)
        if value("provider") == "offline" and value("fault") != "none":
            offline().faults.append(value("fault"))
            st.session_state["chat.fault_used"] = True  # the form shows "none" from the next run on
        held.ended, held.unsent, held.remarks, held.stopping, held.told = None, False, (), False, chosen.window
        held.running = Running(_watched(held, turn(chat)), chat)


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


def stop(held: Room) -> None:
    """End the turn at the next piece of the answer."""
    running = held.running
    if running is not None:
        held.stopping = True
        running.stop()


def change(held: Room, what: Callable[[Chat], object]) -> None:
    """Do something to a chat between two turns. Raises `TurnscopeError`s."""
    with held.lock:
        if held.busy:
            raise TurnscopeError("a turn of this chat is under way", hint="Wait for its end, or stop it.")
        what(held.chat)
        held.session = held.chat.growing.session


def leave_out(held: Room) -> None:
    """Leave the newest message out of every further request; of tool results, the calls, too."""
    messages = held.session.messages
    newest = max(n for n, message in enumerate(messages) if message.role == "user")
    gone = [newest - 1, newest] if messages[newest].origin == "tool" and messages[newest - 1].role == "assistant" else [newest]

    def leave(chat: Chat) -> None:
        for number in gone:
            chat.leave_out(number)

    change(held, leave)
    held.ended = None


def again(held: Room) -> list[int]:
    """Numbers of the messages that answer the newest prompt; none where it waits for one."""
    messages = held.session.messages
    asked = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].origin == "prompt"), None)
    if asked is None or due(held):
        return []
    out = _left_out(held.session)
    said = ("user", "assistant")
    return [n for n in range(asked + 1, len(messages)) if messages[n].role in said and messages[n].start not in out]


def regenerate(held: Room) -> None:
    """Ask for another answer to the newest prompt; the one there is stays in the chat, and in no further request."""
    gone = again(held)

    def leave(chat: Chat) -> None:
        for number in gone:
            chat.leave_out(number)

    change(held, leave)
    start(held, lambda chat: chat.go_on())


def delete(held: Room) -> None:
    """Delete a chat for good, and show a new one."""
    change(held, lambda _: threads().delete(held.thread))
    _rooms().pop(held.thread, None)
    show("")
    st.rerun()


def problem(held: Room) -> dict[str, Any] | None:
    """Why the newest request is not complete, as the store has it; None where it is, or nothing is known."""
    last = held.session.requests[-1] if held.session.requests else None
    if last is None or last.stop_reason not in ("interrupted", "refused", "error"):
        return None
    if last.stop == last.cut and not due(held):  # what it was to answer was left out since
        return None
    found = threads().problems(held.thread).get(last.n)
    return dict(found) if found else None


def _left_out(session: Session) -> set[int]:
    """Where the messages begin that were left out by hand."""
    wishes = (wish.edit for wishes in session.recorded.wishes.values() for wish in wishes)
    return {edit.span.start for edit in wishes if edit.action == "drop" and edit.span}


def due(held: Room) -> bool:
    """The newest message that was not left out waits for an answer."""
    out = _left_out(held.session)
    said = [m for m in held.session.messages if m.role in ("user", "assistant") and m.start not in out]
    return bool(said) and said[-1].role == "user"


def broken(held: Room) -> bool:
    """The newest request was stopped, or its stream broke."""
    return bool(held.session.requests) and held.session.requests[-1].stop_reason == "interrupted"


@dataclass(frozen=True, slots=True)
class Weighed:
    """The next request, and why it would not be sent; `states`: what it carries of each message."""

    plan: Plan
    session: Session
    refused: TurnscopeError | None = None

    @property
    def states(self) -> tuple[next_request.State, ...]:
        return next_request.states(self.plan, self.session)


def weighed(held: Room | None, text: str = "") -> Weighed | None:
    """The next request, were `text` said first; while a turn is under way, the request that is being answered."""
    if held is None:
        return _weighed(draft(), text)
    with held.lock:
        held.absorb()
        if held.busy:
            return Weighed(held.log[max(held.log)], held.session) if held.log else None
        held.chat.settings = _chosen(held, goes(held)[0])
        return _weighed(held.chat, text)


def _weighed(chat: Chat, text: str) -> Weighed:
    plan, growing = chat.weighed([("user", text)] if text else ())
    refused = gateway.refusal(plan, growing.session, chat.settings.max_tokens, growing.ledger)
    return Weighed(plan, growing.session, refused)


def ahead(held: Room | None) -> next_request.Ahead | None:
    """When the chat is cut next; None while a turn is under way."""
    chat = held.chat if held else draft()
    if held is None:
        return _ahead(chat)
    with held.lock:
        if held.busy:
            return None
        session = chat.growing.session
        key = (len(session.blocks), len(session.requests), session.recorded, chat.settings)
        if held.foreseen is None or held.foreseen[0] != key:
            held.foreseen = (key, _ahead(chat))
        return held.foreseen[1]


def _ahead(chat: Chat) -> next_request.Ahead:
    plan, growing = chat.weighed(())
    growth = next_request.growth(growing.session, growing.ledger, plan.calibration.scale)
    found = next_request.ahead(lambda said: chat.weighed(said)[0], growth)
    room = plan.budget.window - chat.settings.max_tokens  # beyond it nothing is sent, whatever the policy says
    if plan.budget.known and (found.mark is None or found.mark > room > 0):
        return next_request.Ahead(room, max(1, (room - plan.projected) // growth + 1) if growth else None, growth)
    return found


def fits(held: Room | None, plan: Plan | None) -> next_request.Fits:
    """Prefix and scale of every request so far and of the one that is planned; () where there is no chat yet."""
    return next_request.fits(held.session, held.chat.sizes, plan) if held else ()
