"""The page of a policy, as data: what it is and guarantees, its rules with parameters and pictures, constants, sources.

The app and the README of the policies (`python -m tests.regenerate policies`) are made of it. Runs nothing, and reads
only text files of the package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from turnscope.counting.tokens import get_counter
from turnscope.envelope.budget import BudgetParams
from turnscope.planning import policy as policies
from turnscope.planning.policy import PAIRING, Policy
from turnscope.planning.policy_catalog import PolicyCatalog
from turnscope.planning.rule_registry import find_rule, find_rule_package
from turnscope.views.model_values import ModelValue, list_model_values
from turnscope.views.parameters import Group, Parameter, group_parameters
from turnscope.views.policy_groups import group_policies

HERE = Path(__file__).resolve().parent
PICTURES = (HERE.parent / "rules" / "pictures", HERE.parents[2] / "tests" / "pictures")  # in a wheel, and in a clone
README = policies.HERE / "README.md"
PICTURE_LINES = (
    "params",
    "first",
    "then",
    "limit",
    "budget",
    "session",
    "after",
    "verdict",
    "model",
)  # lines of a picture that are shown
MEMORY = {
    "": "",
    "remembers": "what it cut stays cut",
    "monotone": "what it cut stays cut while limit and model stay",
    "fresh": "decides anew for each request",
}
GUARANTEES = {
    "fits": "every request that is sent is within its budget",
    "paired": "no call without its result, and the reverse",
    "prefix": "system prompt and tools are never touched",
}
EXCEPT_UNANSWERED = ", except calls that have no result in the log"
MENDS_CALLS = PAIRING | {"keep_pairs_together"}  # rules that answer or leave out a call without a result


@dataclass(frozen=True, slots=True)
class RulePage:
    """One rule: what it does, its source, its parameters with their values, and a picture of it at work."""

    name: str
    doc: str
    memory: str
    source: str
    parameters: tuple[tuple[str, str, str], ...]  # label, value, help
    picture: str = ""


@dataclass(frozen=True, slots=True)
class PolicyPage:
    """A policy for people. `facts`: names and values, only those that it has."""

    name: str
    title: str
    group: str
    doc: str
    facts: tuple[tuple[str, str], ...]
    budget: RulePage
    models: tuple[ModelValue, ...]  # what differs for models of some names
    rules: tuple[RulePage, ...]
    constants: tuple[tuple[str, str], ...]


NO_SAVING = "no published figure is known; Compare measures it on a session"


def build_page(policy: Policy, group: str = "") -> PolicyPage:
    """Build the page of a policy.

    Args:
        policy: the policy.
        group: the title of its group in the list of policies.
    """
    rows = {
        "Package": policy.package,
        "Source": policy.source,
        "Version": policy.version,
        "Fidelity": policy.fidelity,
        "Counts with": _describe_counter(policy),
        "Tools are sent as": "XML text" if policy.tools else "",
        "Guarantees": "; ".join(f"{name}: {_describe_guarantee(policy, name)}" for name in policy.guarantees) or "none",
        "When to use it": _mark_unsourced(policy.when),
        "Cost to build": policy.build_cost,
        "Saving, as published": policy.saving or NO_SAVING,
        "Loss": _mark_unsourced(policy.loss),
        "Caution": policy.caution,
    }
    facts = tuple((name, text) for name, text in rows.items() if text)
    budget, *rules = group_parameters(policy)
    constants = tuple((name, str(value)) for name, value in policy.constants.items())
    return PolicyPage(
        name=policy.name,
        title=policy.title or policy.name,
        group=group,
        doc=policy.doc,
        facts=facts,
        budget=_build_budget_page(budget),
        models=list_model_values(policy),
        rules=tuple(map(_build_rule_page, rules)),
        constants=constants,
    )


def build_pages(shelf: PolicyCatalog) -> tuple[PolicyPage, ...]:
    """Build the pages of all policies, in the order of the list."""
    return tuple(build_page(shelf.policies[name], group.title) for group in group_policies(shelf) for name in group.names)


def _describe_guarantee(policy: Policy, name: str) -> str:
    """What a guarantee means. A policy without rules that repair calls sends one that has no result as the log has it."""
    repairs = any(part.rule.name in MENDS_CALLS for part in policy.rules)
    return GUARANTEES[name] + (EXCEPT_UNANSWERED if name == "paired" and not repairs else "")


def _mark_unsourced(text: str) -> str:
    """A sentence with its sources in brackets; a sentence without a source says that it is our own."""
    return text if not text or "(" in text else f"{text} (our words: no source is known)"


def _describe_counter(policy: Policy) -> str:
    """The counter of a policy's decisions, with its error against recorded usage, if it has a name here."""
    if policy.counter:
        return f"{policy.counter} ({get_counter(policy.counter).label})"
    return str(policy.constants.get("counter") or "the session's own counter")


def get_first_sentence(doc: str) -> str:
    """The first sentence of a text."""
    return doc.partition(". ")[0].rstrip(".") + "." if doc else ""


def _build_budget_page(group: Group) -> RulePage:
    """The parameters of the budget that differ from their defaults."""
    usual = {field.name: getattr(BudgetParams(), field.name) for field in fields(BudgetParams)} | {"formula": ""}
    return _build_rule_page(
        replace(
            group, parameters=tuple(parameter for parameter in group.parameters if parameter.value != usual[parameter.name])
        )
    )


def _build_rule_page(group: Group) -> RulePage:
    rows = tuple((parameter.label, _format_value(parameter), parameter.help) for parameter in group.parameters)
    picture = _read_picture(group.title) if group.memory else ""
    return RulePage(
        name=group.title,
        doc=group.doc,
        memory=MEMORY.get(group.memory, group.memory),
        source=group.source,
        parameters=rows,
        picture=picture,
    )


def _format_value(parameter: Parameter) -> str:
    if isinstance(parameter.value, str):
        return parameter.value or "none"
    return json.dumps(parameter.value, ensure_ascii=False, default=str).replace("null", "none")


@cache
def _read_picture(rule: str) -> str:
    """The first picture that shows a rule at work: a small session, and what is sent of it; "" = there is none."""
    folder = next((folder for folder in PICTURES if folder.is_dir()), PICTURES[0])
    if find_rule_package(rule):  # the picture of a package's rule lies next to the rule
        module = sys.modules.get(getattr(find_rule(rule).edits, "__module__", ""))
        folder = Path(getattr(module, "__file__", None) or folder).parent
    path = folder / f"{rule}.txt"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    drawn = [case.strip().splitlines() for case in f"\n{text}".split("\n## ")[1:]]
    title, *lines = next(filter(_shows_change, drawn), drawn[0] if drawn else [""])
    shown = [line for line in lines if line.partition(":")[0].partition(" ")[0] in PICTURE_LINES]
    return "\n".join((title, *shown)) if shown else ""


def _shows_change(case: list[str]) -> bool:
    """Whether a picture's last request is changed, warned about, refused or sent to another model."""
    pairs = [line.partition(":")[::2] for line in case[1:]]
    return any(mark in text for key, text in pairs for mark in ("-", "~", "[", "+") if key == "after") or any(
        key in ("verdict", "model") for key, _ in pairs
    )


# Markdown


def to_markdown(shelf: PolicyCatalog) -> str:
    """Write all pages as one Markdown text."""
    made = build_pages(shelf)
    lines = ["# The policies", "", *_INTRODUCTION, ""]
    for group in dict.fromkeys(each.group for each in made):
        lines += [f"- **{group}**: " + " · ".join(f"[{each.title}](#{each.name})" for each in made if each.group == group)]
    drawn: set[str] = set()
    for each in made:
        lines += ["", *_render_page(each, drawn)]
        drawn |= {rule.name for rule in each.rules}
    return "\n".join(lines) + "\n"


_INTRODUCTION = (
    "Made by `python -m tests.regenerate policies` from the policies' TOML files; a test holds it to them.",
    "In a picture `A1` is unchanged, `-A1` is left out, `~R2` has a placeholder, `[summary:A1..R2]` stands for several blocks;",
    "`U` is the user's text, `A` an answer, `C` a call, `R` its result, `H` thinking, `S` the system prompt.",
    "A rule is drawn once, where it first stands.",
)


def _render_page(made: PolicyPage, drawn: set[str]) -> Iterator[str]:
    yield f'<a id="{made.name}"></a>'
    yield f"## {made.title}"
    yield ""
    yield f"`{made.name}` · {made.group}. {_escape(made.doc)}"
    yield ""
    yield from (f"- {name}: {_escape(text)}" for name, text in made.facts)
    yield f"- Budget: {_format_parameters(made.budget)}"
    for pattern in dict.fromkeys(value.pattern for value in made.models):
        values = (f"{value.label} = {_escape(value.text)}" for value in made.models if value.pattern == pattern)
        yield f"- For models like `{pattern}`: {'; '.join(values)}."
    for number, rule in enumerate(made.rules, 1):
        yield ""
        more = "; ".join(text for text in (rule.memory, rule.source) if text)
        yield f"{number}. `{rule.name}`: {_escape(rule.doc)} ({_escape(more)})"
        if rule.parameters:
            yield f"   Parameters: {_format_parameters(rule)}"
        if rule.picture and rule.name not in drawn:
            title, *lines = rule.picture.splitlines()
            yield from ("", f"   {_escape(title[:1].upper() + title[1:])}:", "", "   ```text")
            yield from (f"   {line}" for line in lines)
            yield "   ```"
    if made.constants:
        yield from ("", "Constants of the original:", "")
        yield from (f"- {name}: {_escape(text)}" for name, text in made.constants)


def _format_parameters(rule: RulePage) -> str:
    return "; ".join(f"{words} = {_escape(value)[:200]}" for words, value, _ in rule.parameters) + "."


def _escape(text: str) -> str:
    """Text on one line, with Markdown's markup escaped."""
    line = " ".join(text.split())
    for mark in ("\\", "*", "_", "<", "[", "`"):
        line = line.replace(mark, f"\\{mark}")
    return line
