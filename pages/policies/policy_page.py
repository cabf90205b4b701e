"""The details of one policy: what it does, what is left of a full window, its figures, rules, parameters and evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

import streamlit as st
from turnscope import library
from turnscope.views import policy_figures, policy_pages, policy_traits

from pages.parts import shell
from pages.parts.formats import escape, shorten
from pages.policies import full_window

EVIDENCE = ("Source", "Version", "Fidelity", "Counts with", "Tools are sent as", "Package")  # facts that stand at the end

STEM = 5  # letters by which two forms of a word are the same
COMMON = frozenset("the and for that which from with each".split())
REPEATED = 0.6  # share of a text's words that its label has already


def draw(known: library.PolicyCatalog, traits: policy_traits.Traits) -> None:
    """Draw the details of a policy, with ways to the debugger and back to the list.

    Args:
        known: all policies.
        traits: the policy.
    """
    made = policy_pages.build_page(known.policies[traits.name], traits.system)
    with st.container(key="policy-detail"):
        with st.container(horizontal=True, vertical_alignment="center"):
            tone = "good" if traits.proof in ("wire", "verified") else ""
            proof = f'<span class="ts-chip {tone}">{policy_traits.PROOFS[traits.proof]}</span>'
            st.html(f'<div class="policy-title"><h2>{escape(made.title)}</h2>{proof}</div>', width="stretch")
            st.page_link(
                shell.find_page("debugger"),
                label="In the debugger",
                icon=":material/bug_report:",
                query_params={"policy": traits.name},
            )
            if st.button("Close", icon=":material/close:", type="tertiary", key="policies.close"):
                st.query_params.pop("policy", None)
                st.rerun()
        sentences = "".join(f"<li>{escape(each)}</li>" for each in _split_sentences(made.doc))
        st.html(
            f'<div class="policy-page"><ol class="doc">{sentences}</ol>{full_window.render(traits.figures)}'
            f"{_render_samples(traits.figures)}{_render_facts(made, of_evidence=False)}{_render_rules(made)}"
            f"<details><summary>Evidence and constants</summary>{_render_facts(made, of_evidence=True)}</details></div>"
        )


def _split_sentences(doc: str) -> list[str]:
    return [f"{each.rstrip('.')}." for each in doc.split(". ") if each]


def _render_samples(figures: policy_figures.PolicyFigures | None) -> str:
    """Its figures on each sample."""
    if figures is None or not figures.samples:
        return ""
    rows = "".join(
        f'<tr><td><a href="/compare?session={escape(name)}" target="_self">{escape(name.replace("-", " "))}</a></td>'
        f"<td>×{each.factor:.2f}</td><td>{each.lost:.1%}</td><td>{f'{each.unsent:.0%}' if each.unsent else 'none'}</td></tr>"
        for name, each in figures.samples.items()
    )
    head = "<tr><th>sample session</th><th>cost × record</th><th>lost references</th><th>requests rejected</th></tr>"
    return f'<h3>Measured</h3><table class="numbers"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _render_facts(made: policy_pages.PolicyPage, *, of_evidence: bool) -> str:
    facts: Sequence[tuple[str, str]] = [(name, text) for name, text in made.facts if (name in EVIDENCE) is of_evidence]
    if of_evidence:
        facts = [*facts, *made.constants]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f'<dl class="ts-glossary">{rows}</dl>'


def _render_rules(made: policy_pages.PolicyPage) -> str:
    """The budget and the rules in their order, each with its parameters; what it does stands in the first line."""
    budget = _render_parameters(made.budget.parameters)
    rules = "".join(map(_render_rule, made.rules)) or "<li>No rule: everything is kept.</li>"
    return f"<h3>Budget</h3>{budget}{_render_models(made)}<h3>Rules, in order</h3><ol>{rules}</ol>"


def _render_models(made: policy_pages.PolicyPage) -> str:
    """What differs for models of some names; nothing where nothing does."""
    if not made.models:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(value.pattern)}</code></td><td>{escape(shorten(value.text, 300))}</td>"
        f"<td>{escape(value.label)}</td></tr>"
        for value in made.models
    )
    head = "<tr><th>models like</th><th>value</th><th>parameter</th></tr>"
    return (
        "<h3>For some models: the first pattern that fits the model's name holds</h3>"
        f'<table class="models"><thead>{head}</thead><tbody>{rows}</tbody></table>'
    )


def _render_rule(rule: policy_pages.RulePage) -> str:
    more = " · ".join(text for text in (rule.memory, rule.source) if text)
    name = escape(rule.name.replace("_", " "))
    return f"<li><b>{name}</b> {escape(rule.doc)} <small>{escape(more)}</small>{_render_parameters(rule.parameters)}</li>"


def _render_parameters(parameters: Sequence[tuple[str, str, str]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td>{escape(shorten(value, 300))}</td>"
        f"<td>{'' if _repeats(words, text) else escape(text)}</td></tr>"
        for words, value, text in parameters
    )
    return f"<table>{rows}</table>" if rows else ""


def _repeats(label: str, text: str) -> bool:
    """Whether most words of a text are in its label, in whatever form, so that it adds nothing."""
    known, words = ({word[:STEM] for word in re.findall(r"[a-z]{3,}", each.lower())} - COMMON for each in (label, text))
    return bool(words) and len(words & known) >= REPEATED * len(words)
