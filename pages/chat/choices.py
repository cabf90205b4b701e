"""What is chosen for a chat's next request: which chat, its policy and settings, where it goes and with which key.

`?thread=<id>` names a chat. A typed key stays in this tab's memory (`st.session_state`) and in the provider made from it; it is
never in the URL, a log or the store.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import streamlit as st
from turnscope import Policy
from turnscope.live import endpoints, injected_context
from turnscope.live.chat import Settings
from turnscope.live.secrets import KeyRing
from turnscope.live.threads import Destination
from turnscope.live.tools import DEFINITIONS
from turnscope.live.window_lookup import Window
from turnscope.views import parameters

from pages.chat import context
from pages.parts import cache, chat_form, policies, url
from pages.parts.chat_form import DEFAULTS, POLICY, get_value


def find_thread() -> str:
    """The chat that the URL names, else the one last looked at; "" = a new one."""
    wanted = st.query_params.get("thread")
    wanted = st.session_state.get("chat.thread", "") if wanted is None else wanted
    return wanted if wanted and any(row.id == wanted for row in cache.open_chat_store().list()) else ""


def show_thread(thread: str) -> None:
    """Show another chat; "" = a new one."""
    st.session_state["chat.thread"] = thread
    if thread:
        st.query_params.from_dict({"thread": thread} | url.get_demo())
    else:
        st.query_params.from_dict(url.get_demo())


def prepare_form(thread: str) -> None:
    """Give the form its first values, or those of the chat that is opened now."""
    if st.session_state.pop("chat.fault_used", False):
        st.session_state["chat.fault"] = "none"
    for name, default in DEFAULTS.items():
        st.session_state.setdefault(f"chat.{name}", list(default) if isinstance(default, list) else default)
    if thread and st.session_state.get("chat.settled") != thread:
        about = next((row.about for row in cache.open_chat_store().list() if row.id == thread), {})
        for name in ("policy", "folder"):
            if about.get(name):
                st.session_state[f"chat.{name}"] = about[name]
        to = cache.open_chat_store().find_destination(thread) or Destination(
            "server"
        )  # of a chat that does not say it, an address is needed
        for name, value in (("provider", to.kind), ("url", to.url), ("model", to.model), ("window", to.window)):
            st.session_state[f"chat.{name}"] = value
        _restore_parameters(thread)
        if get_value("policy") not in list_policies():
            st.session_state["chat.policy"] = POLICY
        st.session_state["chat.placed"] = chat_form.get_destination()
    st.session_state["chat.settled"] = thread


def _restore_parameters(thread: str) -> None:
    """The chat's policy was turned by hand, or has rules beside its own: the form shows it so."""
    stored = cache.open_chat_store().list_policies(thread)
    base = list_policies().get(stored[-1][1].name) if stored else None
    if base is None:
        return
    sent = stored[-1][1]
    st.session_state["chat.repeat"] = injected_context.repeats_user_rules(sent) and not injected_context.repeats_user_rules(
        base
    )
    plain = injected_context.remove_added_rules(sent, base)
    if [part.rule.name for part in plain.rules] == [part.rule.name for part in base.rules]:
        get_changes()[base.name] = parameters.find_changes(plain, base)


def get_changes() -> dict[str, dict[str, Any]]:
    """Changed parameters of policies, by the policy's name, as this tab has them."""
    found: dict[str, dict[str, Any]] = st.session_state.setdefault("chat.turned", {})
    return found


def get_policy() -> Policy:
    """The policy that is chosen, with the parameters that were changed."""
    known = list_policies()
    base = known.get(get_value("policy")) or known[POLICY]
    return parameters.apply_changes(base, get_changes().get(base.name, {}))


def list_policies() -> dict[str, Policy]:
    """Every policy that can send a chat, Turnscope's own first."""
    known = dict(policies.load_policies().policies)
    known.pop(policies.RECORDED, None)
    first = [name for name in (POLICY, "keep-everything") if name in known]
    return {name: known[name] for name in [*first, *(name for name in known if name not in first)]}


def build_settings() -> Settings:
    """What is in force for the next request."""
    spend = get_value("spend")
    return Settings(
        model=get_value("model") or DEFAULTS["model"],
        policy=context.add_repetition(context.add_memory(get_policy())),
        max_tokens=int(get_value("max")),
        thinking=bool(get_value("thinking")),
        summary_model=get_value("summary") or "",
        condense=bool(get_value("condense")),
        spend_limit=Decimal(str(spend)) if spend else None,
        growth_limit=int(get_value("growth") or 0),
        window=int(get_value("window") or 0),
        temperature=get_value("temperature"),
        cache=get_value("cache"),
    )


def find_destination(thread: str = "") -> tuple[Destination, Destination | None]:
    """Where the next request goes; and where those before it went, where that was changed in the form since."""
    known, wanted = cache.open_chat_store().find_destination(thread) if thread else None, chat_form.get_destination()
    if known is None or known == wanted:
        return wanted, None
    return (known, None) if wanted == st.session_state.get("chat.placed") else (wanted, known)


def fetch_window() -> Window:
    """What the server says of its model's window: a request over the network, of a few seconds."""
    to, keys = chat_form.get_destination(), KeyRing()
    keys.set_key(endpoints.make_endpoint(to).address, (st.session_state.get(f"chat.{chat_form.get_key_name()}") or "").strip())
    return endpoints.fetch_destination_window(to, keys)


def list_tools() -> list[dict[str, Any]]:
    return [
        *(tool for tool in DEFINITIONS if tool["name"] in get_value("tools")),
        *context.list_memory_tools(build_settings().policy),
    ]
