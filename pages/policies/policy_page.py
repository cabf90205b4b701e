"""A page about a policy, and the list of all of them, from what the engine says of each."""

from __future__ import annotations

import streamlit as st
from turnscope import library
from turnscope.extensions import list_problems
from turnscope.views import policy_groups, policy_pages

from pages.parts import shell, widgets
from pages.parts.formats import escape, shorten


def draw_list(known: library.PolicyCatalog, wanted: str) -> None:
    """All policies by system, each with how sure it is and one sentence.

    Args:
        known: all policies.
        wanted: a name that is none of theirs; "" = none was wanted.
    """
    if wanted:
        st.html(
            f'<div class="ts-card nothing" role="status"><b>There is no policy {escape(shorten(wanted, 60))} here.</b></div>'
        )
    st.html('<div class="ts-title"><h1>Policies</h1></div>')
    for problem in list_problems():
        widgets.draw_notice(problem)
    st.html("".join(_render_group(known, group) for group in policy_groups.group_policies(known)))


def _render_group(known: library.PolicyCatalog, group: policy_groups.PolicyGroup) -> str:
    rows = "".join(_render_row(known, name) for name in group.names)
    return f'<section class="policy-list"><h4>{escape(group.title)}</h4><ul>{rows}</ul></section>'


def _render_row(known: library.PolicyCatalog, name: str) -> str:
    policy = known.policies[name]
    sure = f'<span class="ts-chip" title="{escape(policy.fidelity)}">{escape(policy_groups.summarize_fidelity(policy))}</span>'
    link = f'<a href="policies?policy={escape(name)}" target="_self">{escape(policy.title)}</a>'
    return f"<li>{link} {sure} <span>{escape(policy_pages.get_first_sentence(policy.doc))}</span></li>"


def draw(known: library.PolicyCatalog, name: str) -> None:
    """The page of one policy, with ways to the list and to the debugger.

    Args:
        known: all policies.
        name: name of the policy.
    """
    groups = (group.title for group in policy_groups.group_policies(known) if name in group.names)
    made = policy_pages.build_page(known.policies[name], next(groups, ""))
    with st.container(horizontal=True, vertical_alignment="center"):
        chips = f'<span class="ts-chip">{escape(made.group)}</span><span class="ts-chip">{escape(made.name)}</span>'
        st.html(f'<div class="ts-title"><h1>{escape(made.title)}</h1>{chips}</div>', width="stretch")
        st.page_link(shell.find_page("policies"), label="All policies", icon=":material/list:")
        debugger = {"policy": name}
        st.page_link(shell.find_page("debugger"), label="In the debugger", icon=":material/bug_report:", query_params=debugger)
    facts = "".join(f"<dt>{escape(fact)}</dt><dd>{escape(text)}</dd>" for fact, text in made.facts)
    models = "".join(f"<dt>For models like {escape(pattern)}</dt><dd>{escape(text)}</dd>" for pattern, text in made.models)
    budget = ", ".join(f"{words} = {value}" for words, value, _ in made.budget.parameters)
    rules = "".join(map(_render_rule, made.rules)) or "<li>No rule: everything is kept.</li>"
    constants = "".join(f"<dt>{escape(key)}</dt><dd>{escape(text)}</dd>" for key, text in made.constants)
    st.html(
        f'<div class="policy-page"><p>{escape(made.doc)}</p>'
        f'<dl class="ts-glossary">{facts}<dt>Budget</dt><dd>{escape(budget)}</dd>{models}</dl>'
        f"<h4>Rules, in order</h4><ol>{rules}</ol>"
        + (f'<h4>Constants of the original</h4><dl class="ts-glossary">{constants}</dl>' if constants else "")
        + "</div>"
    )


def _render_rule(rule: policy_pages.RulePage) -> str:
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td>{escape(shorten(value, 300))}</td><td>{escape(text)}</td></tr>"
        for words, value, text in rule.parameters
    )
    table = f"<table>{rows}</table>" if rows else ""
    title, _, lines = rule.picture.partition("\n")
    picture = f"<figure><figcaption>{escape(title)}</figcaption><pre>{escape(lines)}</pre></figure>" if lines else ""
    more = " · ".join(text for text in (rule.memory, rule.source) if text)
    name = escape(rule.name.replace("_", " "))
    return f"<li><b>{name}</b> {escape(rule.doc)} <small>{escape(more)}</small>{table}{picture}</li>"
