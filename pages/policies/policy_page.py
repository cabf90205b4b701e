"""A page about a policy, and the list of all of them, from what the engine says of each."""

from __future__ import annotations

import streamlit as st
from turnscope import library
from turnscope.extensions import list_problems
from turnscope.views import policy_groups, policy_pages

from pages.parts import shell, widgets
from pages.parts.formats import esc, short


def listed(known: library.PolicyCatalog, wanted: str) -> None:
    """All policies by system, each with how sure it is and one sentence. `wanted`: a name that is none of theirs."""
    if wanted:
        st.html(f'<div class="ts-card nothing" role="status"><b>There is no policy {esc(short(wanted, 60))} here.</b></div>')
    st.html('<div class="ts-title"><h1>Policies</h1></div>')
    for problem in list_problems():
        widgets.notice(problem)
    st.html("".join(_group(known, group) for group in policy_groups.group_policies(known)))


def _group(known: library.PolicyCatalog, group: policy_groups.PolicyGroup) -> str:
    rows = "".join(_row(known, name) for name in group.names)
    return f'<section class="policy-list"><h4>{esc(group.title)}</h4><ul>{rows}</ul></section>'


def _row(known: library.PolicyCatalog, name: str) -> str:
    policy = known.policies[name]
    sure = f'<span class="ts-chip" title="{esc(policy.fidelity)}">{esc(policy_groups.summarize_fidelity(policy))}</span>'
    link = f'<a href="policies?policy={esc(name)}" target="_self">{esc(policy.title)}</a>'
    return f"<li>{link} {sure} <span>{esc(policy_pages.get_first_sentence(policy.doc))}</span></li>"


def draw(known: library.PolicyCatalog, name: str) -> None:
    """The page of one policy, with ways to the list and to the debugger."""
    groups = (group.title for group in policy_groups.group_policies(known) if name in group.names)
    made = policy_pages.build_page(known.policies[name], next(groups, ""))
    with st.container(horizontal=True, vertical_alignment="center"):
        chips = f'<span class="ts-chip">{esc(made.group)}</span><span class="ts-chip">{esc(made.name)}</span>'
        st.html(f'<div class="ts-title"><h1>{esc(made.title)}</h1>{chips}</div>', width="stretch")
        st.page_link(shell.page("policies"), label="All policies", icon=":material/list:")
        debugger = {"policy": name}
        st.page_link(shell.page("debugger"), label="In the debugger", icon=":material/bug_report:", query_params=debugger)
    facts = "".join(f"<dt>{esc(fact)}</dt><dd>{esc(text)}</dd>" for fact, text in made.facts)
    models = "".join(f"<dt>For models like {esc(pattern)}</dt><dd>{esc(text)}</dd>" for pattern, text in made.models)
    budget = ", ".join(f"{words} = {value}" for words, value, _ in made.budget.parameters)
    rules = "".join(map(_rule, made.rules)) or "<li>No rule: everything is kept.</li>"
    constants = "".join(f"<dt>{esc(key)}</dt><dd>{esc(text)}</dd>" for key, text in made.constants)
    st.html(
        f'<div class="policy-page"><p>{esc(made.doc)}</p>'
        f'<dl class="ts-glossary">{facts}<dt>Budget</dt><dd>{esc(budget)}</dd>{models}</dl>'
        f"<h4>Rules, in order</h4><ol>{rules}</ol>"
        + (f'<h4>Constants of the original</h4><dl class="ts-glossary">{constants}</dl>' if constants else "")
        + "</div>"
    )


def _rule(rule: policy_pages.RulePage) -> str:
    rows = "".join(
        f"<tr><td>{esc(words)}</td><td>{esc(short(value, 300))}</td><td>{esc(text)}</td></tr>"
        for words, value, text in rule.parameters
    )
    table = f"<table>{rows}</table>" if rows else ""
    title, _, lines = rule.picture.partition("\n")
    picture = f"<figure><figcaption>{esc(title)}</figcaption><pre>{esc(lines)}</pre></figure>" if lines else ""
    more = " · ".join(text for text in (rule.memory, rule.source) if text)
    return f"<li><b>{esc(rule.name.replace('_', ' '))}</b> {esc(rule.doc)} <small>{esc(more)}</small>{table}{picture}</li>"
