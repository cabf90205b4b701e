"""The settings of a chat, each with what it does to the cache."""

from __future__ import annotations

from typing import Any

import streamlit as st
from turnscope import TurnscopeError, library
from turnscope.live.endpoints import FIXED, OFFLINE_MODELS, SERVICES
from turnscope.live.offline import FAULTS as ORDERED

from pages.chat import branches, choices, notices, open_chats, policy_form
from pages.parts import chat_form, widgets
from pages.parts.chat_form import TOOLS, get_value
from pages.parts.formats import escape

PROVIDERS = {kind: service.label for kind, service in SERVICES.items()}
ADDRESS_ALONE = "Requests go to {}. What else was typed, as a password or a query, is left out: type a key below."
TTLS = {"": "off", "5m": "5 minutes", "1h": "1 hour"}
FAULTS = {"none": "nothing goes wrong", **ORDERED}
CACHE = {
    "provider": "Another provider starts with an empty cache.",
    "model": "Caches belong to a model: another one reads nothing that was cached before.",
    "policy": "What it cuts changes the prefix; the cache is lost from the first cut on, then built anew.",
    "thinking": "On or off changes how messages are cached: their part is written again; system and tools stay.",
    "max": "No effect on the cache. It is reserved in the window, so the policy cuts earlier. 0 = the policy's part of it.",
    "tools": "Tool definitions are fixed by the first message. A tool switched off later is refused; the cache is kept.",
    "folder": "No effect on the cache. Tools only read, and only below this folder; without one there is the calculator.",
    "spend": "No effect on the cache. At the limit the chat asks before it goes on.",
    "growth": "No effect on the cache. A turn that grows by more asks before it goes on. 0 = no limit.",
    "condense": "A summary replaces old messages: the cache is lost there once, then a shorter prefix is cached.",
    "summary": "No effect on the chat's cache; a summary request reads none. Empty = the chat's own model.",
    "window": "No effect on the cache. 0 = the known window of the model, or what the server reports.",
    "temperature": "No effect on the cache. Empty = the model's own; not used with thinking on.",
    "cache": "How long the prefix is kept for the next request: writing it costs 1.25 times the input, for 1 hour twice.",
    "fault": "The next request of the built-in model fails this way, once. Nothing is lost; the cache is kept.",
    "system": "It stands before all messages: another one is a branch of this chat with a cold cache.",
}


def _explain(name: str) -> None:
    st.html(f'<div class="chat-why">{escape(CACHE[name])}</div>')


def _build_key(name: str) -> dict[str, Any]:
    return {"key": f"chat.{name}", "persist_state": "session"}


def _reset_model() -> None:
    st.session_state["chat.model"] = next(iter(SERVICES[get_value("provider")].models), "")
    st.session_state["chat.url"] = ""
    st.session_state["chat.summary"] = ""
    _reset_window()
    st.session_state["chat.condense"] = get_value("provider") == "offline"


def _reset_window() -> None:
    st.session_state["chat.window"] = 0  # another model, or another server's


def draw(open_chat: open_chats.OpenChat | None) -> None:
    """Everything that is in force for the next request."""
    with st.popover("Settings", icon=":material/tune:", key="chat-settings"), st.container(key="chat-form"):
        left, right = st.columns(2, gap="medium")
        with left:
            _draw_provider()
            known = choices.list_policies()
            st.selectbox(
                "Policy", list(known), format_func=lambda name: policy_form.format_option(known[name]), **_build_key("policy")
            )
            _explain("policy")
            doubts = policy_form.list_doubts()
            if not doubts and (caution := choices.get_policy().caution):
                st.html(f'<div class="chat-why">{escape(caution)}</div>')
            for doubt in doubts:
                st.html(f'<div class="chat-why" role="note"><b>Not for this chat.</b> {escape(doubt)}</div>')
            st.toggle("Thinking", **_build_key("thinking"))
            _explain("thinking")
            st.number_input("Max output tokens", 0, 64_000, step=256, **_build_key("max"))
            _explain("max")
            st.number_input(
                "Temperature", 0.0, 1.0, step=0.1, format="%.1f", placeholder="the model's own", **_build_key("temperature")
            )
            _explain("temperature")
            st.selectbox("Prompt cache", list(TTLS), format_func=TTLS.__getitem__, **_build_key("cache"))
            _explain("cache")
            st.text_area("System prompt", height=100, **_build_key("system"))
            _explain("system")
            branches.draw_system_branch(open_chat)
        with right:
            st.text_input("Folder for the tools", placeholder="none", **_build_key("folder"))
            _explain("folder")
            _draw_folder_problem()
            st.multiselect("Tools", list(TOOLS), format_func=lambda name: name.replace("_", " "), **_build_key("tools"))
            _explain("tools")
            st.number_input("Spend limit, USD (0 = none)", 0.0, 10_000.0, step=0.5, format="%.2f", **_build_key("spend"))
            _explain("spend")
            st.number_input("Growth limit, tokens a turn", 0, 10_000_000, step=1_000, **_build_key("growth"))
            _explain("growth")
            st.toggle("Condense: let a model sum up what is cut", **_build_key("condense"))
            _explain("condense")
            st.text_input("Model for summaries", placeholder="same as the chat", **_build_key("summary"))
            _explain("summary")


def _draw_folder_problem() -> None:
    """Why no tool reads files, where a folder is typed and is none."""
    typed = str(get_value("folder") or "").strip()
    try:
        if typed and not library.parse_path(typed).is_dir():
            widgets.draw_notice(f"{typed} is no folder.", "Without one the tools read no files.")
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)


def _draw_provider() -> None:
    names = list(PROVIDERS)
    st.selectbox("Provider", names, format_func=PROVIDERS.__getitem__, on_change=_reset_model, **_build_key("provider"))
    _explain("provider")
    kind = get_value("provider")
    service = SERVICES[kind]
    if kind not in FIXED:
        example = service.url or "http://127.0.0.1:11434"
        st.text_input("Address", placeholder=example, on_change=_reset_window, **_build_key("url"))
        if (address := chat_form.get_address()) and address != get_value("url").strip().rstrip("/"):
            st.html(f'<div class="chat-why">{escape(ADDRESS_ALONE.format(address))}</div>')
    if service.about:
        st.html(f'<div class="chat-why">{escape(service.about)}</div>')
    if kind != "offline":
        st.text_input(
            "API key",
            type="password",
            placeholder="from the environment" if service.url else "none",
            help="Kept in memory only.",
            **_build_key(chat_form.get_key_name()),
        )
        known = service.models
        options = list(dict.fromkeys((*known, *([get_value("model")] if get_value("model") else []))))
        st.selectbox(
            "Model",
            options,
            accept_new_options=True,
            placeholder="type a model's name",
            on_change=_reset_window,
            **_build_key("model"),
        )
    else:
        if get_value("model") not in OFFLINE_MODELS:
            st.session_state["chat.model"] = OFFLINE_MODELS[0]
        st.selectbox("Model", list(OFFLINE_MODELS), **_build_key("model"))
    _explain("model")
    if kind != "offline":
        st.number_input("Window of the model, tokens", 0, 100_000_000, step=1_000, **_build_key("window"))
        if kind not in FIXED:
            st.button("Ask the server for its window", key="chat.ask", on_click=notices.fetch_window)
        _explain("window")
    if kind == "offline":
        st.selectbox("Simulate an error", list(FAULTS), format_func=FAULTS.__getitem__, **_build_key("fault"))
        _explain("fault")
