"""The parameters of a policy: as a form shows them, changed by hand, and as the changes that a link holds.

Reads the types of parameters. What a policy does, its rules say; where its file lies, `planning.policy_catalog` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from turnscope.envelope.budget import FORMULAS
from turnscope.envelope.rule import Rule
from turnscope.errors import PolicyError
from turnscope.planning.policy import Policy, Step, check_model_tables, check_pattern, rename_old_parameters
from turnscope.planning.rule_registry import find_rule_package
from turnscope.session.model import JSON
from turnscope.views.parameter_labels import describe_parameter

Kind = Literal["flag", "whole", "real", "text", "choice", "list", "table"]
MODELS = "models"  # key of a change of all tables of models
_KINDS: Mapping[Any, Kind] = {bool: "flag", int: "whole", float: "real", str: "text", tuple: "list", Mapping: "table"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a policy.

    Attributes:
        key: `<group>.<field>`.
        label: its name for people, with its unit.
        help: one line.
        choices: the values of a `choice`.
        optional: whether it may be None.
    """

    key: str
    name: str
    label: str
    help: str
    kind: Kind
    value: JSON
    choices: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters of the budget or of one rule. `memory` is that of the rule, "" for the budget."""

    key: str
    title: str
    doc: str
    source: str
    memory: str
    parameters: tuple[Parameter, ...]


def group_parameters(policy: Policy) -> tuple[Group, ...]:
    """List every parameter of a policy, those of the budget first, then rule by rule. Rules count from 1, as in the file."""
    budget = Group(
        key="budget",
        title="Budget",
        doc="What a request may have.",
        source="",
        memory="",
        parameters=_list_parameters("budget", "budget", policy.budget),
    )
    rules = (
        Group(
            key=str(n),
            title=part.rule.name,
            doc=part.rule.doc,
            source=_name_source(part.rule),
            memory=part.rule.memory,
            parameters=_list_parameters(str(n), part.rule.name, part.params),
        )
        for n, part in enumerate(policy.rules, 1)
    )
    return (budget, *rules)


def _name_source(rule: Rule) -> str:
    package = find_rule_package(rule.name)
    return f"{rule.source}, in {package}" if package else rule.source


@cache
def _get_hints(params: type[Any]) -> Mapping[str, Any]:
    """The types of a rule's parameters by name. They are evaluated once: a form asks for them at every run of a page."""
    return get_type_hints(params, include_extras=True)


def _list_parameters(group: str, rule: str, params: Any) -> tuple[Parameter, ...]:
    hints = _get_hints(params.__class__)
    return tuple(
        _build_parameter(group, rule, name=f.name, hint=hints[f.name], value=getattr(params, f.name)) for f in fields(params)
    )


def _build_parameter(group: str, rule: str, name: str, hint: Any, value: JSON) -> Parameter:
    text = ""
    if get_origin(hint) is Annotated:
        hint, text = get_args(hint)[:2]
    inner = [part for part in get_args(hint) if part is not type(None)]
    optional = type(None) in get_args(hint)
    hint = inner[0] if optional else hint
    origin = get_origin(hint) or hint
    choices = tuple(FORMULAS) if (group, name) == ("budget", "formula") else get_args(hint) if origin is Literal else ()
    kind: Kind = "choice" if choices else "table" if origin is dict else _KINDS.get(origin, "text")
    shown = list(value) if kind == "list" else dict(value) if kind == "table" else value
    return Parameter(
        key=f"{group}.{name}",
        name=name,
        label=describe_parameter(rule, name),
        help=text,
        kind=kind,
        value=shown,
        choices=tuple(map(str, choices)),
        optional=optional,
    )


def apply_changes(policy: Policy, changes: Mapping[str, JSON]) -> Policy:
    """Change some parameters of a policy.

    Args:
        policy: the policy.
        changes: new values by key, as in `group_parameters`; `models`: all tables of models in place of the policy's.

    Raises:
        PolicyError: a key is unknown, or a value has the wrong type.

    >>> policy = next(policy for policy in turnscope.policies() if policy.name == "last-5-pairs")
    >>> changed = apply_changes(policy, {"1.pairs": 3})
    >>> changed.rules[0].params.pairs, find_changes(changed, policy)
    (3, {'1.pairs': 3})
    """
    parts: dict[str, dict[str, JSON]] = {}
    for key, value in changes.items():
        if key == MODELS:
            policy = replace(policy, models=_convert_models(policy, value))
            continue
        group, _, name = key.partition(".")
        parts.setdefault(group, {})[name] = value
    known = {group.key for group in group_parameters(policy)}
    if unknown := sorted(set(parts) - known):
        raise PolicyError(
            f"policy {policy.name!r} has no part {unknown[0]!r}", hint=f"Its parts are: {', '.join(sorted(known))}."
        )
    steps = tuple(Step(part.rule, _change_params(part.params, parts.get(str(n), {}))) for n, part in enumerate(policy.rules, 1))
    budget = _change_params(policy.budget, parts.get("budget", {}))
    if budget.formula not in FORMULAS:
        raise PolicyError(f"there is no budget formula {budget.formula!r}", hint=f"Known: {', '.join(FORMULAS)}.")
    return replace(policy, budget=budget, rules=steps)


def _convert_models(policy: Policy, value: JSON) -> dict[str, dict[str, dict[str, Any]]]:
    """Tables of models for a policy. PolicyError where they are malformed or do not suit it."""
    try:
        models = msgspec.convert(value, dict[str, dict[str, dict[str, Any]]])
    except msgspec.ValidationError as error:
        raise PolicyError(f"the tables of models cannot be read: {error}", hint="Open the policy without them.") from error
    for pattern in models:
        check_pattern(pattern)
    check_model_tables(policy.name, models, policy.rules)
    return models


def _change_params(params: Any, values: Mapping[str, JSON]) -> Any:
    hints = _get_hints(params.__class__)
    values = rename_old_parameters(values, hints)
    if unknown := sorted(set(values) - set(hints)):
        raise PolicyError(f"there is no parameter {unknown[0]!r}", hint=f"Its parameters are: {', '.join(hints) or 'none'}.")
    try:
        new = {name: msgspec.convert(value, hints[name], strict=True) for name, value in values.items()}
    except msgspec.ValidationError as error:
        raise PolicyError(f"{', '.join(values)}: {error}", hint="Give a value of the parameter's type.") from error
    try:
        return replace(params, **new) if new else params
    except ValueError as error:  # the rule itself rejects the value
        raise PolicyError(str(error), hint="Give another value.") from error


def find_changes(policy: Policy, base: Policy) -> dict[str, JSON]:
    """Find the changes that turn `base` into `policy`.

    Args:
        policy: the changed policy.
        base: the policy before; it has the same rules.
    """
    before = {parameter.key: parameter.value for group in group_parameters(base) for parameter in group.parameters}
    after = {parameter.key: parameter.value for group in group_parameters(policy) for parameter in group.parameters}
    changes = {key: value for key, value in after.items() if before.get(key) != value}
    if [*policy.models.items()] != [*base.models.items()]:  # their order counts: the first that fits a model holds
        changes[MODELS] = {
            pattern: {part: dict(row) for part, row in table.items()} for pattern, table in policy.models.items()
        }
    return changes


def list_labels(policy: Policy) -> dict[str, str]:
    """The names for people of all that `find_changes` may find, by key."""
    labels = {parameter.key: parameter.label for group in group_parameters(policy) for parameter in group.parameters}
    return labels | {MODELS: "For some models"}


def encode_changes(changed: Mapping[str, JSON]) -> str:
    """Write changes as text for a link; "" without changes.

    >>> encode_changes({"1.pairs": 3}), decode_changes('{"1.pairs":3}')
    ('{"1.pairs":3}', {'1.pairs': 3})
    """
    return json.dumps(dict(changed), separators=(",", ":"), ensure_ascii=False) if changed else ""


def decode_changes(text: str) -> dict[str, JSON]:
    """Read changes from a link. PolicyError: the text is not valid."""
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise PolicyError("the link's changed parameters cannot be read", hint="Open the policy without them.") from error
    if not isinstance(found, dict):
        raise PolicyError("the link's changed parameters are not a table", hint="Open the policy without them.")
    return found


def parse_field(parameter: Parameter, entry: Any) -> JSON:
    """Read the value of a form field: lists are separated by commas, tables are lines of `name = value`.

    Args:
        parameter: the parameter.
        entry: the field's content.
    """
    if parameter.kind == "list":
        return [part.strip() for part in str(entry).split(",") if part.strip()]
    if parameter.kind == "table":
        pairs = (line.partition("=") for line in str(entry).splitlines() if line.strip())
        return {name.strip(): _parse_number(value.strip()) for name, _, value in pairs}
    return entry


def format_field(parameter: Parameter) -> JSON:
    """Format a parameter's value for a form field."""
    if parameter.kind == "list":
        return ", ".join(map(str, parameter.value))
    if parameter.kind == "table":
        return "\n".join(f"{name} = {value}" for name, value in parameter.value.items())
    return parameter.value


def _parse_number(text: str) -> JSON:
    try:
        return float(text)
    except ValueError:
        return text
