"""The parameters of the chat's policy: budget, marks and what it keeps, with the fields of the debugger's form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st
from turnscope import Policy, TurnscopeError, library
from turnscope.live import trial
from turnscope.views import parameters

from pages.chat import choices
from pages.parts import chat_form, policies, widgets
from pages.parts.chat_form import POLICY, get_value
from pages.parts.formats import escape, shorten

REPEAT = "Repeat my rules once they have left"
REPEAT_HELP = (
    "Sentences such as “never push” or “always run the tests” are said again, word for word, once the policy has cut them. "
    "Each takes about 20 to 50 tokens in every request. Rules in other words are not found, and a rule in the prompt may be "
    "ignored all the same."
)


def format_option(policy: Policy) -> str:
    """What stands in the list of policies: its title, and in a few words why it is not for chats."""
    why = trial.summarize_doubts(policy, chat_form.get_destination())
    return f"{shorten(policy.title, 60)} — {why}" if why else shorten(policy.title, 60)


def list_doubts() -> tuple[str, ...]:
    """Why the policy that is chosen, as it is turned, must not send this chat to where the form says."""
    policy, summaries = choices.get_policy(), bool(get_value("condense"))
    changed = parameters.encode_changes(choices.get_changes().get(policy.name, {}))
    known = trial.Trial() if trial.edits_on_server(policy) else _try_policy(policy.name, changed, summaries, policy)
    return trial.list_doubts(policy, chat_form.get_destination(), known, summaries)


@st.cache_resource(max_entries=64, show_spinner=False)
def _try_policy(name: str, changed: str, summaries: bool, _policy: Policy) -> trial.Trial:  # noqa: ARG001  what the cache goes by
    return trial.get_trial(_policy, summaries, shipped=not changed)


def draw() -> None:
    """A form with every parameter of the policy that is chosen; what is applied holds from the next request on."""
    base = choices.list_policies().get(get_value("policy")) or choices.list_policies()[POLICY]
    current = choices.get_policy()
    turned = choices.get_changes().get(base.name, {})
    with st.popover("Policy", icon=":material/rule:", key="chat-policy"):
        st.html(
            f'<div class="chat-why" style="margin:0"><b>{escape(base.title)}</b>, from the next request on. '
            "Another mark or budget changes what is cut, and the cache is lost from the first cut on.</div>"
        )
        st.toggle(REPEAT, key="chat.repeat", persist_state="session", help=REPEAT_HELP)
        digest = parameters.encode_changes(turned)
        with st.form(f"chat.policy.{base.name}.{digest}", border=False):
            values: dict[str, Any] = {}
            for group in parameters.group_parameters(current):
                if group.parameters:
                    policies.draw_fields(group, f"chat.{base.name}.{digest}", values)
            rows = policies.draw_model_values(current, f"chat.{base.name}.{digest}")
            notice = st.container()  # what is wrong, above the buttons
            with st.container(horizontal=True, vertical_alignment="bottom"):
                applied = st.form_submit_button("Apply", type="primary")
                reset = st.form_submit_button("Reset", disabled=not turned)
                own = base.name if base.name in policies.load_policies().own else f"my-{base.name}"
                name = st.text_input("Name", own, key=f"chat.own.{base.name}", width=260)
                saved = st.form_submit_button("Save to my policies")
        if reset:
            choices.get_changes().pop(base.name, None)
            st.rerun()
        if applied or saved:
            try:
                wanted = policies.read_form(current, base, values, rows)
                if saved:
                    _save_policy(name.strip(), base, wanted)
                else:
                    choices.get_changes()[base.name] = parameters.find_changes(wanted, base)
            except TurnscopeError as error:
                with notice:
                    widgets.draw_notice(error.what, error.hint)
            except OSError as error:
                with notice:
                    widgets.draw_notice("The policy could not be written.", str(error))
            else:
                st.rerun()


def _save_policy(name: str, base: Policy, wanted: Policy) -> None:
    """Save a policy as one of the user's own, and choose it for the chat."""
    if name != base.name and wanted.title == base.title:
        wanted = replace(wanted, title=f"{base.title} ({name})")  # so that the list tells them apart
    library.save_policy(name, wanted.to_toml(), policies.find_folder())
    choices.get_changes().pop(base.name, None)
    choices.get_changes().pop(name, None)
    st.session_state["chat.policy"] = name
