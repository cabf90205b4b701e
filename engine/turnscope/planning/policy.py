"""Policies as data: an ordered list of rules with their parameters, read from TOML and written to TOML.

Holds discovery, loading and writing. `assemble` applies a policy.
"""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w

from turnscope import notebook
from turnscope.counting.ledger import PER_MESSAGE
from turnscope.counting.tokens import COUNTERS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.rule import NoParams, Rule
from turnscope.errors import PolicyError, suggest_names
from turnscope.extensions import report_problem
from turnscope.planning.packaged_policies import SHIPPED, find_packaged_policies
from turnscope.planning.rule_registry import find_rule

HERE = SHIPPED
GUARANTEES = {"fits", "paired", "prefix"}
WISHES = "follow_wishes"  # the rule that follows a person's wishes (`envelope.wishes`)
# rules that repair a request; each sees the changes of those before it
REPAIRS = ("drop_blank_texts", "repair", "begin_with_question", "end_with_question", "strip_stale_thinking")
OURS = "ours"  # the fidelity of our own policies begins so
PAIRING = {"repair", "hide_oldest_pairs", "prune_by_pressure", "match_results_to_calls"}  # rules that repair pairs themselves
CHECKS = ("refuse_when_over", "warn_at")  # rules that change nothing
OLD_NAMES = {"staged": "chainreview-staged"}  # names in links and chats of earlier versions
OLD_PARAMETERS = {"mend": "repair"}  # of rules, in files of earlier versions
TEXTS = ("title", "line", "doc", "source", "fidelity", "version", "counter", "when", "build_cost", "saving", "loss", "tools")
FALLBACK = "fall_back_to_larger_window"  # the rule that sends what does not fit to another model
XML = "send_tools_as_xml"  # the rule of a policy with `tools = "xml"`
KEYS = ("name", *TEXTS, "per_message", "guarantees", "budget", "constants", "models", "rules")  # keys of a policy's file
PATTERN_EXAMPLE = "claude-haiku-* fits every name that begins so"
T = TypeVar("T")


class _File(msgspec.Struct):
    """The other keys of a policy's file, by type. `name` is written for chats only: otherwise the file's name counts."""

    per_message: int = PER_MESSAGE
    guarantees: tuple[str, ...] = ()
    budget: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    models: dict[str, dict[str, dict[str, Any]]] = {}
    rules: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One rule of a policy with its parameters."""

    rule: Rule
    params: Any


@dataclass(frozen=True, slots=True)
class Policy:
    """An ordered list of rules, as a TOML file says it.

    >>> policy = next(policy for policy in turnscope.policies() if policy.name == "last-5-pairs")
    >>> policy.title, policy.rules[0].params.pairs
    ('Last 5 pairs', 5)
    """

    name: str
    title: str
    doc: str
    source: str
    fidelity: str
    version: str = ""
    counter: str = ""  # counter of its decisions, one of `counting.tokens.COUNTERS`; "" = the session's
    per_message: int = PER_MESSAGE  # tokens that `counter` adds per message
    guarantees: tuple[str, ...] = ()  # of: fits, paired, prefix
    budget: BudgetParams = field(default_factory=BudgetParams)
    rules: tuple[Step, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)  # further constants of the original, and where they were read
    # for people who choose a policy; a publication is named in brackets, everything else is our judgement
    line: str = ""  # what it does, in 48 characters at most; "" = the first sentence of `doc` says it
    when: str = ""  # when to use it
    build_cost: str = ""  # what it costs to build and to run
    saving: str = ""  # published saving of tokens with its source; "" = none is published
    loss: str = ""  # what the conversation loses
    # by a pattern of model names: their values for the budget and, by rule, for parameters; the first match applies
    models: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    tools: str = ""  # how calls and results are sent: "" = as blocks, "xml" = as text
    package: str = field(default="", compare=False)  # what brings it; "" = Turnscope itself, or the user

    @property
    def caution(self) -> str:
        """What a person who chats under the policy should know; "" = nothing."""
        if "fits" in self.guarantees:
            return ""
        most = "It does not guarantee that every request fits."
        if all(part.rule.name in (WISHES, *REPAIRS, *CHECKS) for part in self.rules):
            return f"{most} A request that does not is not sent; then choose another policy."
        return f"{most} For one that does not, a chat leaves out its oldest turns, and says so."

    def to_toml(self) -> str:
        """The policy as TOML text that `parse` reads back to an equal policy. A prompt of several lines stays readable."""
        texts = {key: getattr(self, key) for key in TEXTS}
        document = texts | {"per_message": self.per_message, "guarantees": list(self.guarantees)}
        document |= {"budget": _convert_to_table(self.budget)} | ({"constants": dict(self.constants)} if self.constants else {})
        document |= (
            {"models": {key: {k: dict(v) for k, v in row.items()} for key, row in self.models.items()}} if self.models else {}
        )
        document |= {"rules": [{"rule": part.rule.name, **_convert_to_table(part.params)} for part in self.rules]}
        text = tomli_w.dumps(document, multiline_strings=True)
        # TOML readers change CRLF to LF in a text on several lines
        return text if tomllib.loads(text) == document else tomli_w.dumps(document)

    def __repr__(self) -> str:
        return f"<Policy {self.name!r}: {', '.join(part.rule.name for part in self.rules) or 'no rule, everything is kept'}>"

    def _repr_html_(self) -> str:
        """What it is, where it comes from, and its rules with their parameters."""
        rows = ((part.rule.name, part.rule.doc, _format_params(part.params)) for part in self.rules)
        parts = [notebook.render_line(self.doc), notebook.render_table(("rule", "what it does", "parameters"), rows)]
        note = " · ".join(text for text in (self.name, self.source, self.version, self.fidelity) if text)
        return notebook.render_card(self.title or self.name, *parts, note=note)


class Policies(notebook.Listed[Policy]):
    """Several policies."""

    __slots__ = ()
    head = ("name", "title", "what it does")
    noun = "policies"

    def _list_cells(self, value: Policy) -> Sequence[object]:
        return (value.name, value.title, value.doc)


def list_policies(folder: Path = HERE) -> tuple[str, ...]:
    """Return the names of the policies in a folder.

    >>> "last-5-pairs" in list_policies()
    True
    """
    return _list_shipped() if folder == HERE else _list_files(folder)


@cache
def _list_shipped() -> tuple[str, ...]:
    """The package's own policies: they do not change while it runs."""
    return _list_files(HERE)


def _list_files(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def resolve_name(name: str) -> str:
    """Return the current name of a shipped policy that was renamed."""
    return OLD_NAMES.get(name, name)


def load(name: str, folder: Path = HERE) -> Policy:
    """Return a policy by its name, or by a former name.

    Args:
        name: The name.
        folder: The folder with its TOML file.

    Raises:
        PolicyError: It does not exist, or its file is malformed.
    """
    name = resolve_name(name) if folder == HERE else name
    if name in list_policies(folder):
        return _load_shipped(name) if folder == HERE else _load_file(name, folder)
    packaged = find_packaged_policies() if folder == HERE else {}
    if name in packaged:
        return load_packaged(name)
    raise PolicyError(f"there is no policy {name!r}", hint=suggest_names(name, (*list_policies(folder), *packaged)))


@cache
def _load_shipped(name: str) -> Policy:
    return _load_file(name, HERE)


def _load_file(name: str, folder: Path) -> Policy:
    return parse(name, (folder / f"{name}.toml").read_text(encoding="utf-8"))


def load_packaged(name: str) -> Policy:
    """A policy that a package brings. PolicyError where it is malformed, which is reported too."""
    found = find_packaged_policies()[name]
    try:
        return replace(parse(name, found.text), package=found.package)
    except PolicyError as error:
        what = f"{error.what}. It comes from {found.package}"
        report_problem(f"policy {name}", f"{what[0].upper()}{what[1:]}.")
        raise PolicyError(what, hint=f"{error.hint} Or report it to the authors of {found.package}.") from error


def set_pairs(policy: Policy, pairs: int | None) -> Policy:
    """Return the policy with another number of pairs, if it has the rule `keep_last_pairs` and keeps any.

    Args:
        policy: The policy.
        pairs: How many pairs to keep; None = no change.
    """
    if pairs is None or not any(s.rule.name == "keep_last_pairs" and s.params.pairs > 0 for s in policy.rules):
        return policy
    changes = {"keep_last_pairs": {"pairs": pairs}, "condense": {"keep_turns": pairs + 1}}  # the summary covers all others
    steps = [replace(s, params=replace(s.params, **changes.get(s.rule.name, {}))) for s in policy.rules]
    return replace(policy, rules=tuple(steps))


def set_stateless_output(policy: Policy, tokens: int | None) -> Policy:
    """Return the policy with another limit of the answer, if its requests carry no history at all.

    Args:
        policy: The policy.
        tokens: The most tokens of an answer; None = no change.
    """
    if tokens is None or not any(s.rule.name == "keep_last_pairs" and s.params.pairs == 0 for s in policy.rules):
        return policy
    return replace(policy, budget=replace(policy.budget, output=tokens))


def add_wishes_rule(policy: Policy) -> Policy:
    """Return the policy with the rule that follows a person's wishes in front."""
    if policy.rules and policy.rules[0].rule.name in (WISHES, "follow_the_record"):  # the record contains the wishes
        return policy
    return replace(policy, rules=(Step(find_rule(WISHES), NoParams()), *policy.rules))


def add_repairs(policy: Policy) -> Policy:
    """Return the policy with the rules that repair what a provider would reject, unless it has them.

    Repairs come after all rules that cut, and before rules that only check the outcome. The record gets none.
    """
    names = [part.rule.name for part in policy.rules]
    if REPAIRS[-1] in names or "follow_the_record" in names:
        return policy
    steps = [*policy.rules]
    end = len(steps)
    while end and steps[end - 1].rule.name in CHECKS:
        end -= 1
    paired = not PAIRING.isdisjoint(names)
    changes = {"repair": {"begin": False}, REPAIRS[-1]: {"bound": True}}
    mending = (find_rule(name) for name in REPAIRS if name != "repair" or not paired)
    steps[end:end] = (Step(rule, replace(rule.params(), **changes.get(rule.name, {}))) for rule in mending)
    return replace(policy, rules=tuple(steps))


def make_sendable(policy: Policy) -> Policy:
    """Return the policy as a chat uses it: wishes first, repairs at the end.

    The model of a chat may change, so thinking behind an edit is sent to no model.
    """
    steps = add_repairs(add_wishes_rule(policy)).rules
    return replace(policy, rules=tuple(Step(s.rule, s.rule.params()) if s.rule.name == REPAIRS[-1] else s for s in steps))


def keep_repairs_only(policy: Policy) -> Policy:
    """Return a policy with the same budget that follows wishes and repairs what cannot be sent, and does nothing else."""
    return make_sendable(replace(policy, rules=(), models={}))


def keep_wishes_only(policy: Policy) -> Policy:
    """Return a policy with the same budget that follows wishes and does nothing else."""
    return replace(policy, rules=(Step(find_rule(WISHES), NoParams()),))


def parse(name: str, text: str) -> Policy:
    """Return the policy in a TOML text.

    Args:
        name: The policy's name.
        text: The TOML text.

    Raises:
        PolicyError: The text is malformed; the error names the place.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"policy {name!r} is not valid TOML: {error}", hint="Correct the file at the line named.") from error
    if unknown := sorted(set(data) - set(KEYS)):
        raise PolicyError(f"policy {name!r} has an unknown key {unknown[0]!r}", hint=f"Known: {', '.join(KEYS)}.")
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        raise PolicyError(f"policy {name!r}: {error}", hint="Use a value of the expected type.") from error
    if wrong := sorted(set(file.guarantees) - GUARANTEES):
        raise PolicyError(
            f"policy {name!r} declares an unknown guarantee {wrong[0]!r}", hint=f"Known: {', '.join(sorted(GUARANTEES))}."
        )
    if (counter := data.get("counter", "")) not in ("", *COUNTERS):
        raise PolicyError(f"policy {name!r} names an unknown counter {counter!r}", hint=f"Known: {', '.join(COUNTERS)}.")
    if (tools := data.get("tools", "")) not in ("", "xml"):
        raise PolicyError(f"policy {name!r} sends tools as {tools!r}", hint='Known: "" (as blocks), "xml" (as text).')
    steps = tuple(_parse_step(name, row) for row in file.rules)
    if tools and XML not in [part.rule.name for part in steps]:
        end = next((n for n, part in enumerate(steps) if part.rule.name in (*REPAIRS, *CHECKS)), len(steps))
        steps = (*steps[:end], Step(find_rule(XML), NoParams()), *steps[end:])
    check_model_tables(name, file.models, steps)
    policy = Policy(
        name,
        **{key: str(data.get(key, "")) for key in TEXTS},
        per_message=file.per_message,
        guarantees=file.guarantees,
        budget=_convert_params(f"the budget of policy {name!r}", BudgetParams, file.budget),
        rules=steps,
        constants=file.constants,
        models=file.models,
    )
    return add_repairs(policy) if policy.fidelity.startswith(OURS) else policy


def apply_model_table(policy: Policy, *names: str) -> tuple[Policy, str]:
    """Return the policy for a model, and the pattern of the table that applies to it ("" = none).

    Args:
        policy: The policy.
        *names: Names of the model.
    """
    fits = (pattern for pattern in policy.models if any(fnmatchcase(name, pattern) for name in names if name))
    pattern = next(fits, "")
    if not pattern:
        return policy, ""
    table = policy.models[pattern]
    budget = _override_params("budget", policy.budget, table.get("budget", {}))
    rules = (
        Step(part.rule, _override_params(part.rule.name, part.params, table.get(part.rule.name, {}))) for part in policy.rules
    )
    return replace(policy, budget=budget, rules=tuple(rules)), pattern


def list_fallback_models(policy: Policy) -> set[str]:
    """List the models that a policy may send a request to instead of its own."""
    tables = [getattr(part.params, "models", {}) for part in policy.rules if part.rule.name == FALLBACK]
    tables += [table.get(FALLBACK, {}).get("models", {}) for table in policy.models.values()]
    return {larger for table in tables for larger in table.values()}


def limit_fallback(policy: Policy, offered: Collection[str]) -> Policy:
    """Return the policy with a fallback to these models alone. One that is not offered is passed over for the next in its row.

    Args:
        policy: The policy.
        offered: The models that may be chosen.
    """

    def limit(table: Mapping[str, str]) -> dict[str, str]:
        found = ((name, _find_offered(table, name, offered)) for name in table)
        return {name: larger for name, larger in found if larger}

    def limit_overrides(table: Mapping[str, Any]) -> Mapping[str, Any]:
        own = table.get(FALLBACK, {})
        return {**table, FALLBACK: {**own, "models": limit(own["models"])}} if "models" in own else table

    rules = tuple(
        Step(part.rule, replace(part.params, models=limit(part.params.models))) if part.rule.name == FALLBACK else part
        for part in policy.rules
    )
    models = {pattern: limit_overrides(table) for pattern, table in policy.models.items()}
    return replace(policy, rules=rules, models=models)


def _find_offered(table: Mapping[str, str], name: str, offered: Collection[str]) -> str:
    """Follow a table of larger models from one to the first that is offered; "" = there is none."""
    passed: set[str] = set()
    while (name := table.get(name, "")) and name not in passed:
        if name in offered:
            return name
        passed.add(name)
    return ""


def _override_params(name: str, params: T, table: Mapping[str, Any]) -> T:
    """Parameters with those of a model's table in place of their own."""
    if not table:
        return params
    values = _convert_params(f"{name} in a table of models", type(params), table)
    given = rename_old_parameters(table, [f.name for f in fields(params)])  # type: ignore[arg-type]
    return replace(params, **{key: getattr(values, key) for key in given})  # type: ignore[type-var]


def check_model_tables(name: str, models: Mapping[str, Mapping[str, Any]], steps: Sequence[Step]) -> None:
    """Check the tables of models of a policy.

    Args:
        name: The policy's name.
        models: Values by pattern of model names and by part.
        steps: The policy's rules.

    Raises:
        PolicyError: A table names what the policy does not have, or has a value of a wrong type.
    """
    known: dict[str, Any] = {"budget": BudgetParams} | {part.rule.name: part.rule.params for part in steps}
    for pattern, table in models.items():
        whose = f"[models.{json.dumps(pattern)}] of policy {name!r}"
        if unknown := sorted(set(table) - set(known)):
            raise PolicyError(f"{whose} names {unknown[0]!r}", hint=f"It may hold: {', '.join(known)}.")
        for part, values in table.items():
            _convert_params(f"{part} in {whose}", known[part], values)


def check_pattern(pattern: str) -> None:
    """Check a pattern of model names that a person wrote. What is stored already is read whatever it says.

    Raises:
        PolicyError: It fits no name, or is not what its author means.
    """
    if not pattern.strip():
        raise PolicyError("the pattern of a model's name is empty", hint=f"Type a name or a part of one: {PATTERN_EXAMPLE}.")
    if pattern != pattern.strip() or not pattern.isprintable():
        raise PolicyError(
            f"the pattern {pattern!r} has blanks around it or unprintable characters, so it fits no model's name",
            hint=f"Type a name or a part of one: {PATTERN_EXAMPLE}.",
        )
    if "[" in re.sub(r"\[!?\]?[^\]]*\]", "", pattern):
        raise PolicyError(
            f"the pattern {pattern!r} opens a bracket that is not closed",
            hint="[abc] stands for one of these characters, [[] for a bracket; * stands for any text.",
        )


def _parse_step(policy: str, row: Mapping[str, Any]) -> Step:
    """A rule with its parameters. PolicyError: there is no such rule or parameter; it names the policy."""
    given = {key: value for key, value in row.items() if key != "rule"}
    try:
        rule = find_rule(str(row.get("rule", "")))
        return Step(rule, _convert_params(f"rule {rule.name!r}", rule.params, given))
    except PolicyError as error:
        raise PolicyError(f"policy {policy!r}: {error.what}", hint=error.hint) from error


def _convert_params(whose: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """Parameters as the frozen dataclass of the rule. PolicyError names an unknown or ill-typed one."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    known = ", ".join(names) or "none"
    values = rename_old_parameters(values, names)
    if unknown := sorted(set(values) - set(names)):
        raise PolicyError(f"{whose} has no parameter {unknown[0]!r}", hint=f"Its parameters are: {known}.")
    try:
        return msgspec.convert(dict(values), kind, strict=True)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{whose}: {error}", hint=f"Its parameters are: {known}.") from error


def rename_old_parameters(values: Mapping[str, T], names: Collection[str]) -> Mapping[str, T]:
    """Return values by today's names of their parameters, with a DeprecationWarning for each older name.

    Args:
        values: Values by parameter, as a file or a link has them.
        names: All parameters of the rule.
    """
    old = {name: new for name, new in OLD_PARAMETERS.items() if name in values and name not in names and new in names}
    for name, new in old.items():
        warnings.warn(f"the parameter {name!r} is now {new!r}", DeprecationWarning, stacklevel=2)
    return {old.get(name, name): value for name, value in values.items()}


def _format_params(params: Any) -> str:
    """Parameters in one line for people."""
    items = _convert_to_table(params).items()
    return "; ".join(f"{name} = {json.dumps(value, ensure_ascii=False, default=dict)}" for name, value in items)


def _convert_to_table(params: Any) -> dict[str, Any]:
    """Parameters as TOML has them: lists only, and no null."""
    values = {f.name: getattr(params, f.name) for f in fields(params)}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in values.items() if value is not None}
