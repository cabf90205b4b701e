"""What is set and chosen around a chat: settings with what each does to the cache, the list of chats, and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st

from engine import TurnscopeError
from engine.live.branches import continued, reworded, summary
from engine.live.offline import FAULTS as ORDERED
from engine.live.providers import MODELS, OFFLINE
from engine.views import next_request
from pages.parts import chat_cards, chat_exports, chat_hits, chat_notices, chatting, controls, shell, state
from pages.parts.chat_values import POLICY, TOOLS, about, value
from pages.parts.formats import esc, short

PROVIDERS = {"offline": "Built-in offline model", "anthropic": "Anthropic API", "server": "Another server"}
TTLS = {"": "off", "5m": "5 minutes", "1h": "1 hour"}
T = TypeVar("T")
FAULTS = {"none": "nothing goes wrong", **ORDERED}
CACHE = {
    "provider": "Another provider starts with an empty cache.",
    "model": "Caches belong to a model: another one reads nothing that was cached before.",
    "policy": "What it cuts changes the prefix; the cache is lost from the first cut on, then built anew.",
    "thinking": "On or off changes how messages are cached: their part is written again; system and tools stay.",
    "max": "No effect on the cache. It is reserved in the window, so the policy cuts earlier.",
    "tools": "Definitions stand first in every request, fixed by the first message; later, off means refused: cache kept.",
    "folder": "No effect on the cache. Tools only read, and only below this folder; without one there is the calculator.",
    "spend": "No effect on the cache. At the limit the chat asks before it goes on.",
    "growth": "No effect on the cache. A turn that grows by more asks before it goes on. 0 = no limit.",
    "condense": "A summary replaces old messages: the cache is lost there once, then a shorter prefix is cached.",
    "summary": "No effect on the chat's cache; a summary request reads none. Empty = the chat's own model.",
    "window": "No effect on the cache. 0 = as the tables know it, or the server says in a refusal.",
    "temperature": "No effect on the cache. Empty = the model's own; not used with thinking on.",
    "cache": "How long the prefix is kept for the next request: writing it costs 1.25 times the input, for 1 hour twice.",
    "fault": "One request of the built-in model fails so; nothing is lost. The cache stays.",
    "system": "It stands before all messages: another one is a branch of this chat with a cold cache.",
}


def attempt(what: Callable[[], T]) -> T | None:
    """Do something that may be refused; shows why, and gives None."""
    try:
        return what()
    except TurnscopeError as error:
        controls.notice(error.what, error.hint)
    return None


def _why(name: str) -> None:
    st.html(f'<div class="chat-why">{esc(CACHE[name])}</div>')


def _key(name: str) -> dict[str, Any]:
    return {"key": f"chat.{name}", "persist_state": "session"}


def _provider_changed() -> None:
    first = {"offline": OFFLINE[0], "anthropic": MODELS[0]}
    st.session_state["chat.model"] = first.get(value("provider"), "")
    st.session_state["chat.summary"] = ""
    _model_changed()
    st.session_state["chat.condense"] = value("provider") == "offline"


def _model_changed() -> None:
    st.session_state["chat.window"] = 0  # another model, or another server's


def settings(held: chatting.Room | None) -> None:
    """Everything that is in force for the next request."""
    with st.popover("Settings", icon=":material/tune:", key="chat-settings"), st.container(key="chat-form"):
        left, right = st.columns(2, gap="medium")
        with left:
            _provider()
            names = list(chatting.policies())
            titles = {name: policy.title for name, policy in chatting.policies().items()}
            st.selectbox("Policy", names, format_func=lambda name: short(titles[name], 60), **_key("policy"))
            _why("policy")
            if (chosen := chatting.policies().get(value("policy"))) and chosen.caution:
                st.html(f'<div class="chat-why">{esc(chosen.caution)}</div>')
            st.toggle("Thinking", **_key("thinking"))
            _why("thinking")
            st.number_input("Most tokens of an answer", 1, 64_000, step=256, **_key("max"))
            _why("max")
            st.number_input(
                "Temperature", 0.0, 1.0, step=0.1, format="%.1f", placeholder="the model's own", **_key("temperature")
            )
            _why("temperature")
            st.selectbox("Prompt cache", list(TTLS), format_func=TTLS.__getitem__, **_key("cache"))
            _why("cache")
            _system(held)
        with right:
            st.text_input("Folder for the tools", placeholder="none", **_key("folder"))
            _why("folder")
            st.multiselect("Tools", list(TOOLS), format_func=lambda name: name.replace("_", " "), **_key("tools"))
            _why("tools")
            st.number_input("Spend limit, USD (0 = none)", 0.0, 10_000.0, step=0.5, format="%.2f", **_key("spend"))
            _why("spend")
            st.number_input("Growth limit, tokens a turn", 0, 10_000_000, step=1_000, **_key("growth"))
            _why("growth")
            st.toggle("Condense: let a model sum up what is cut", **_key("condense"))
            _why("condense")
            st.text_input("Model for summaries", placeholder="same as the chat", **_key("summary"))
            _why("summary")


def _provider() -> None:
    names = list(PROVIDERS)
    st.selectbox("Provider", names, format_func=PROVIDERS.__getitem__, on_change=_provider_changed, **_key("provider"))
    _why("provider")
    kind = value("provider")
    if kind == "server":
        st.text_input("Address", placeholder="http://127.0.0.1:11434", on_change=_model_changed, **_key("url"))
    if kind != "offline":
        from_env = "from the environment" if kind == "anthropic" else "none"
        st.text_input("API key", type="password", placeholder=from_env, help="Kept in memory only.", **_key(chatting.key()))
        known = MODELS if kind == "anthropic" else ()
        options = list(dict.fromkeys((*known, *([value("model")] if value("model") else []))))
        st.selectbox(
            "Model",
            options,
            accept_new_options=True,
            placeholder="type a model's name",
            on_change=_model_changed,
            **_key("model"),
        )
    else:
        if value("model") not in OFFLINE:
            st.session_state["chat.model"] = OFFLINE[0]
        st.selectbox("Model", list(OFFLINE), **_key("model"))
    _why("model")
    if kind != "offline":
        st.number_input("Window of the model, tokens", 0, 100_000_000, step=1_000, **_key("window"))
        if kind == "server":
            st.button("Ask the server for its window", key="chat.ask", on_click=chat_notices.asked)
        _why("window")
    if kind == "offline":
        st.selectbox("Next fault", list(FAULTS), format_func=FAULTS.__getitem__, **_key("fault"))
        _why("fault")


def _system(held: chatting.Room | None) -> None:
    st.text_area("System prompt", height=100, **_key("system"))
    _why("system")
    if held is not None and st.button("Branch with this system prompt", key="chat.reword", disabled=held.busy):
        attempt(lambda: _reworded(held))


def _reworded(held: chatting.Room) -> None:
    session = reworded(held.session, value("system"))
    kept = {**about(), "live_from": len(session.requests), "from": held.thread}
    title = f"{session.title or 'Chat'} (other system prompt)"
    goes = chatting.threads().place(held.thread)
    chatting.show(chatting.threads().create(title=title, base=session, about=kept, place=goes))
    st.rerun()


# Chats


def conversation(held: chatting.Room, states: Sequence[next_request.State]) -> None:
    """The newest messages, and on demand those before them, a page at a time."""
    session = held.session
    said = sum(message.role in ("user", "assistant") for message in session.messages)
    key = f"chat.first.{held.thread}"
    first = min(st.session_state.get(key, said), max(0, said - chat_cards.MOST))
    if (sought := chat_hits.sought(session)) is not None:
        first = min(first, max(0, sought - 2))
    if first:
        st.button(
            f"Show {min(first, chat_cards.MOST)} of {first:,} earlier messages", key="chat.earlier", type="tertiary",
            on_click=lambda: st.session_state.update({key: max(0, first - chat_cards.MOST)}),
        )  # fmt: skip
    shared = session.at if session.parent else 0
    st.html(chat_cards.conversation(session, states, shared, first, chat_hits.address(session)))


def chats(held: chatting.Room | None) -> None:
    """The list: open another chat, rename this one, find one by its words."""
    with st.popover("Chats", icon=":material/forum:", key="chat-list"):
        rows = chatting.threads().list()
        words = st.text_input("Search all chats", key="chat.words", placeholder="words of a message")
        if words.strip():
            hits = chatting.threads().search(words)
            found = {hit.thread for hit in hits}
            rows = tuple(row for row in rows if row.id in found)
            st.html(f'<div class="ts-small ts-faint">Found in {len(rows)} of your chats.</div>')
            chat_hits.choose(hits, {row.id: row.title or "Untitled chat" for row in rows})
        titles = {row.id: row.title or "Untitled chat" for row in rows}
        here = held.thread if held else ""
        place = list(titles).index(here) if here in titles else None
        key = f"chat.pick.{here}.{words}"
        picked = st.selectbox(
            "Open", list(titles), index=place, key=key, placeholder=f"{len(titles)} chats",
            format_func=lambda each: short(titles[each], 70),
        )  # fmt: skip
        if picked and picked != here:
            chatting.show(picked)
            st.rerun()
        if held:
            with st.form(f"chat.rename.{here}", border=False):
                title = st.text_input("Name of this chat", titles.get(here, ""), key=f"chat.title.{here}")
                if st.form_submit_button("Rename") and title.strip():
                    chatting.threads().rename(here, title.strip()[:200])
                    st.rerun()
            chat_exports.buttons(held)
            _delete(held)


def _delete(held: chatting.Room) -> None:
    """Delete this chat, asked twice."""
    key = f"chat.delete.{held.thread}"
    if not st.session_state.get(key):
        st.button(
            "Delete this chat", icon=":material/delete:", key="chat.delete", type="tertiary", disabled=held.busy,
            on_click=lambda: st.session_state.update({key: True}),
        )  # fmt: skip
        return
    st.html('<div class="chat-why" style="margin:0">Its messages, requests and decisions are gone for good.</div>')
    with st.container(horizontal=True, gap="small"):
        if st.button("Delete for good", key="chat.delete_now", type="primary"):
            attempt(lambda: chatting.delete(held))
        st.button("Keep it", key="chat.keep_it", on_click=lambda: st.session_state.update({key: False}))


# Branches


def branches(held: chatting.Room | None) -> None:
    """Other ways on: an edited prompt, a new chat with a summary, the session of the other pages from a request."""
    with st.popover("Branch", icon=":material/fork_right:", key="chat-branch"):
        if held and not held.busy:
            _resend(held)
            _summary(held)
        _continue()


def _resend(held: chatting.Room) -> None:
    session = held.session
    prompts = {m.start: session.blocks[m.start].text for m in session.messages if m.origin == "prompt"}
    if not prompts:
        return
    st.html('<h3 class="chat-h">Edit and resend</h3><div class="chat-why" style="margin:0">What stands before the prompt is '
            "shared with the branch and still cached; this chat stays as it is.</div>")  # fmt: skip
    newest = list(reversed(prompts))
    names = {at: short(text, 80) or "(empty)" for at, text in prompts.items()}
    key = f"chat.at.{held.thread}.{newest[0]}"  # a newer prompt is the one to edit, not the one chosen before it came
    at = st.selectbox("Prompt", newest, format_func=names.__getitem__, key=key)
    text = st.text_area("Say instead", prompts[at], key=f"chat.instead.{held.thread}.{at}", height=90)
    if st.button("Send as a branch", key="chat.resend", disabled=held.busy or not text.strip()):
        attempt(lambda: _branched(held, at, text))


def _branched(held: chatting.Room, at: int, text: str) -> None:
    title = f"{held.session.title or 'Chat'} (branch)"
    kept = {**about(), "from": held.thread}
    new = chatting.threads().create(title=title, parent=held.thread, at=at, about=kept)
    chatting.start(chatting.room(new), lambda chat: chat.send(text))
    chatting.show(new)
    st.rerun()


def _summary(held: chatting.Room) -> None:
    st.html('<h3 class="chat-h">New session with a summary</h3><div class="chat-why" style="margin:0">A new chat whose system '
            "prompt ends with this summary. It begins small, with a cold cache.</div>")  # fmt: skip
    session = held.session
    if not session.requests:
        return
    key = f"chat.sum.{held.thread}.{len(session.requests)}"
    text = st.text_area("Summary", summary(held.chat), key=key, height=110)
    if st.button("Begin with this summary", key="chat.begin", disabled=not text.strip()):
        attempt(lambda: _begun(held, text))


def _begun(held: chatting.Room, text: str) -> None:
    system = f"{value('system')}\n\nSummary of the conversation before this one:\n{text}".strip()
    session = held.session
    kept = {"from": held.thread, "from_request": len(session.requests), "summary": True}
    made = chatting.create(f"{session.title or 'Chat'} (from a summary)", system, kept)
    chatting.show(made.thread)
    st.rerun()


def _continue() -> None:
    """The session that the other pages show, from any of its requests, in a new chat."""
    entry = state.found_by(st.session_state.get("state.session", ""))
    st.html('<h3 class="chat-h">Continue the open session</h3>')
    if entry is None:
        st.html('<div class="ts-empty">Open a session on another page first.</div>')
        return
    if not state.is_open(entry) and not st.button("Read it", key="chat.read"):
        st.html(f'<div class="ts-small ts-faint">{esc(short(entry.name, 60))}</div>')
        return
    shown = attempt(lambda: state.opened(entry, int((st.session_state.get("state.query") or {}).get("part", 0))))
    if shown is None or not len(shown.view):
        return
    last = len(shown.view) - 1
    seen = int((st.session_state.get("state.query") or {}).get("request", last))
    st.html(f'<div class="ts-small ts-faint">{esc(short(entry.name, 60))}: taken as recorded up to a request, then the '
            "policy chosen here. Another provider's cache is cold.</div>")  # fmt: skip
    number = st.number_input("From request", 0, last, min(seen, last), key=f"chat.from.{shown.key}")
    if st.button("Continue as a new chat", key="chat.continue"):
        attempt(lambda: _continued(shown, int(number)))


def _continued(shown: state.Shown, request: int) -> None:
    kept = {**about(), "from_session": shown.entry.id}
    chatting.show(continued(chatting.threads(), shown.trace, request, kept, chatting.place()))
    st.rerun()


def requests(held: chatting.Room, most: int = 8) -> None:
    """A link into the debugger for each of the newest requests."""
    session = held.session
    since = int(session.about.get("live_from", 0))
    live = [request for request in session.requests if request.n >= since]
    if not live:
        return
    with st.expander(f"Requests in the debugger ({len(live)})", key="chat-requests"):
        for request in reversed(live[-most:]):
            used = f"{request.usage.prompt_tokens:,} tokens" if request.usage else request.stop_reason or "no answer"
            query = {"session": f"thread-{held.thread}", "request": str(request.n), "policy": value("policy") or POLICY}
            st.page_link(
                shell.page("debugger"), label=f"Request {request.n} · {used}", icon=":material/bug_report:", query_params=query
            )
