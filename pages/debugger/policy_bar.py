"""Which policy, with which parameters: the picker, the form made from the rules' own parameters, and the editor of its text.

A changed policy is a value that the link holds; saving writes its text into the user's policy folder and nothing else.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from turnscope import Policy, TurnscopeError, library
from turnscope.views import model_values, parameters, policy_pages, policy_traits
from turnscope.views.policy_traits import PROOFS

from pages.debugger import address, policy_picker
from pages.parts import policies, shell, widgets
from pages.parts.formats import escape, escape_markdown, shorten

MEMORY = {
    "remembers": "what it cut stays cut",
    "monotone": "what it cut stays cut while limit and model stay",
    "fresh": "decides anew for each request",
}

GUARANTEES = {"fits": "always fits", "paired": "tool pairs kept", "prefix": "prefix untouched"}


def choose() -> tuple[Policy, DeltaGenerator]:
    """Draw the picker with its form and editor; gives the policy to replay, and the bar, for what the page says of it."""
    address.recall_policy()
    known = policies.load_policies()
    name = address.read_policy_name(known)
    base = known.policies[name]
    _warn_unknown(known, name)
    changed, problem = _apply_link(base)
    current = changed or base
    bar = st.container(key="policy-bar", horizontal=True, vertical_alignment="center", gap="small")
    with bar:
        _draw_picker(known, name)
        _draw_about(base)
        _draw_parameters(base, current)
        _draw_editor(base, current, name in known.own)
    if problem:
        widgets.draw_notice(
            f"The parameters of this link are not used: {problem.what}.",
            f"{problem.hint} {base.title} is shown with its defaults; Parameters, Reset, takes them out of the link.",
        )
    for bad, error in known.problems.items():
        widgets.draw_notice(f"Your policy {bad!r} is left out: {error.what}", error.hint)
    st.html(_render_line(base, current, name in known.own))
    return current, bar


def _apply_link(base: Policy) -> tuple[Policy | None, TurnscopeError | None]:
    try:
        return parameters.apply_changes(base, address.read_changes()), None
    except TurnscopeError as error:
        return None, error


def _warn_unknown(known: library.PolicyCatalog, name: str) -> None:
    """Say it where the link names a policy that there is not: what is shown is another one."""
    wanted = st.query_params.get("policy", "")
    if not wanted or wanted == name:
        return
    close = get_close_matches(wanted, known.policies, 1)
    meant = f" Perhaps {known.policies[close[0]].title} ({close[0]}) is meant." if close else ""
    widgets.draw_notice(
        f"There is no policy {shorten(wanted, 60)!r} here; {known.policies[name].title} is shown instead.",
        f"Choose another one in the list.{meant} If it was saved on another machine, put its file into "
        f"{policies.find_folder()}.",
    )


def _draw_picker(known: library.PolicyCatalog, name: str) -> None:
    """Every policy in groups, behind a button that says which one is shown."""
    label = escape_markdown(known.policies[name].title)
    with st.popover(label, icon=":material/rule:", key=f"policy-pick-{name}"):
        picked = policy_picker.draw(known, name)
    if picked and picked in known.policies and picked != name:
        address.choose_policy(picked)
        st.rerun()


def _render_line(base: Policy, current: Policy, own: bool) -> str:
    """One sentence about the policy, with how sure it is and what was changed."""
    changes = parameters.find_changes(current, base)
    chips = [f'<span class="ts-chip" title="{escape(base.fidelity)}">{PROOFS[policy_traits.find_proof(base)]}</span>']
    chips += ['<span class="ts-chip">yours</span>'] if own else []
    chips += [
        f'<span class="ts-chip" title="{escape(policy_pages.GUARANTEES[law])}">{escape(GUARANTEES[law])}</span>'
        for law in base.guarantees
    ]
    names = parameters.list_labels(base)
    for key, value in list(changes.items())[:6]:
        if key == parameters.MODELS:
            many = len(model_values.list_model_values(current))
            chips.append(f'<span class="ts-chip warn">{escape(names[key])}: {many} value{"" if many == 1 else "s"}</span>')
            continue
        chips.append(
            f'<span class="ts-chip warn">{escape(_name_rule(base, key))}: {escape(names[key])} = {escape(value)}</span>'
        )
    return f'<div class="policy-line"><span>{escape(base.doc or base.title)}</span>{"".join(chips)}</div>'


def _name_rule(base: Policy, key: str) -> str:
    group = key.partition(".")[0]
    return (base.rules[int(group) - 1].rule.name if group.isdigit() else group).replace("_", " ")


def _draw_about(base: Policy) -> None:
    with st.popover("About", icon=":material/info:", key="policy-about"):
        page = {"policy": base.name}
        st.page_link(
            shell.find_page("policies"), label="Its page, with pictures", icon=":material/menu_book:", query_params=page
        )
        rows = {"Source": base.source, "Version": base.version, "Fidelity": base.fidelity, "Counts with": base.counter}
        listed = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in rows.items() if value)
        rules = "".join(
            f"<li><b>{escape(part.rule.name.replace('_', ' '))}</b> {escape(part.rule.doc)} "
            f'<span class="ts-faint">{MEMORY[part.rule.memory]}; {escape(part.rule.source)}</span></li>'
            for part in base.rules
        )
        constants = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in base.constants.items())
        st.html(
            f'<div class="policy-about"><h3>{escape(base.title)}</h3><p>{escape(base.doc)}</p>'
            f'<dl class="ts-glossary">{listed}</dl>'
            + (f"<h4>Rules, in order</h4><ol>{rules}</ol>" if rules else "<p>No rule: everything is kept.</p>")
            + (f'<h4>Constants of the original</h4><dl class="ts-glossary">{constants}</dl>' if constants else "")
            + "</div>"
        )


# Parameters


def _draw_parameters(base: Policy, current: Policy) -> None:
    """A form with every parameter; Apply puts the changed ones into the link."""
    with st.popover("Parameters", icon=":material/tune:", key="policy-turn"):
        digest = parameters.encode_changes(parameters.find_changes(current, base))
        with st.form(f"policy.form.{base.name}.{digest}", border=False):
            values: dict[str, Any] = {}
            for group in parameters.group_parameters(current):
                if group.parameters:
                    policies.draw_fields(group, f"{base.name}.{digest}", values)
            rows = policies.draw_model_values(current, f"{base.name}.{digest}")
            notice = st.container()  # what is wrong, above the buttons
            with st.container(horizontal=True):
                applied = st.form_submit_button("Apply", type="primary")
                reset = st.form_submit_button("Reset", disabled=not digest)
        if reset:
            address.choose_policy(base.name)
            st.rerun()
        if applied:
            with notice:
                _apply_fields(base, current, values, rows)


def _apply_fields(base: Policy, current: Policy, values: dict[str, Any], rows: list[model_values.ModelValue]) -> None:
    try:
        wanted = policies.read_form(current, base, values, rows)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    changes = parameters.find_changes(wanted, base)
    if changes != parameters.find_changes(current, base):
        address.choose_policy(base.name, changes)
        st.rerun()


# Text


def _draw_editor(base: Policy, current: Policy, yours: bool) -> None:
    """The policy as TOML: to read, to change, to keep as one's own."""
    with st.popover("As text", icon=":material/edit_note:", key="policy-edit"):
        text = current.to_toml()
        digest = parameters.encode_changes(parameters.find_changes(current, base))
        with st.form(f"policy.text.{base.name}.{digest}", border=False):
            edited = st.text_area("Policy, in TOML", text, height=420, key=f"policy.toml.{base.name}.{digest}")
            with st.container(horizontal=True, vertical_alignment="bottom"):
                own = base.name if yours else f"my-{base.name}"
                name = st.text_input("Name", own, key=f"policy.name.{base.name}", width=260)
                saved = st.form_submit_button("Save to my policies", type="primary")
        st.html(f'<div class="ts-small ts-faint">Kept in {escape(policies.find_folder())}</div>')
        st.download_button(
            "Download",
            text,
            f"{base.name}.toml",
            "application/toml",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key="policy.download",
        )
    if saved:
        _save_policy(name.strip(), edited)


def _save_policy(name: str, text: str) -> None:
    try:
        library.save_policy(name, text, policies.find_folder())
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
    except OSError as error:
        widgets.draw_notice("The policy could not be written.", str(error))
    else:
        address.choose_policy(name)
        st.rerun()
