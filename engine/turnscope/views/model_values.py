"""What a policy's tables of models hold, value by value: to be shown, and to be changed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from turnscope.envelope.budget import FORMULAS
from turnscope.errors import PolicyError
from turnscope.planning.policy import Policy, rename_old_parameters
from turnscope.session.model import JSON
from turnscope.views.parameters import Parameter, format_field, group_parameters, parse_field

_SWITCH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_SHARE = "0 to 1"  # in the label of a share


@dataclass(frozen=True, slots=True)
class ModelValue:
    """One value of a table of models.

    Attributes:
        pattern: pattern of the models' names.
        key: `<part>.<parameter>`, as in `list_model_parameters`.
        text: the value as a form's field has it.
        label: the part and the parameter for people.
    """

    pattern: str
    key: str
    text: str
    label: str = ""


def list_model_parameters(policy: Policy) -> dict[str, Parameter]:
    """The parameters that a table of models may hold, by `<part>.<parameter>`; the label names the part too."""
    found: dict[str, Parameter] = {}
    for group in group_parameters(policy):
        part = group.key if group.key == "budget" else group.title  # a table holds for every rule of that name
        for parameter in group.parameters:
            label = f"{part.replace('_', ' ').capitalize()}: {parameter.label}"
            found.setdefault(f"{part}.{parameter.name}", replace(parameter, key=f"{part}.{parameter.name}", label=label))
    return found


def list_model_values(policy: Policy) -> tuple[ModelValue, ...]:
    """The values of a policy's tables of models, in the order in which patterns are tried."""
    known = list_model_parameters(policy)
    names = {part: [p.name for key, p in known.items() if key.startswith(f"{part}.")] for part in _list_parts(policy)}
    return tuple(
        _build_value(pattern, known[f"{part}.{name}"], value)
        for pattern, table in policy.models.items()
        for part, row in table.items()
        for name, value in rename_old_parameters(row, names[part]).items()
    )


def _list_parts(policy: Policy) -> list[str]:
    return ["budget", *(step.rule.name for step in policy.rules)]


def _build_value(pattern: str, parameter: Parameter, value: JSON) -> ModelValue:
    text = ("yes" if value else "no") if parameter.kind == "flag" else str(format_field(replace(parameter, value=value)))
    return ModelValue(pattern, parameter.key, text, parameter.label)


def build_model_tables(policy: Policy, values: Sequence[ModelValue]) -> dict[str, dict[str, dict[str, JSON]]]:
    """Build the tables of models from a form's rows, for `parameters.apply_changes`.

    Args:
        policy: the policy; its patterns keep their order. A new one stands before those that fit whatever it fits.
        values: all values that the tables shall hold; of two for the same, the last counts.

    Raises:
        PolicyError: a parameter is unknown, or a value is not one of its type.
    """
    known = list_model_parameters(policy)
    order = [*policy.models]
    tables: dict[str, dict[str, dict[str, JSON]]] = {}
    for value in values:
        if value.key not in known:
            raise PolicyError(
                f"no parameter is chosen for models like {value.pattern!r}" if not value.key else f"there is no {value.key!r}",
                hint="Choose one in the list.",
            )
        part, _, name = value.key.partition(".")
        tables.setdefault(value.pattern, {}).setdefault(part, {})[name] = parse_model_value(known[value.key], value.text)
        if value.pattern not in order:
            wider = (at for at, other in enumerate(order) if fnmatchcase(value.pattern, other))
            order.insert(next(wider, len(order)), value.pattern)
    return {pattern: tables[pattern] for pattern in order if pattern in tables}


def parse_model_value(parameter: Parameter, text: str) -> JSON:
    """Read a value that was typed.

    Args:
        parameter: the parameter that it is for.
        text: the value, as `ModelValue.text` has it.

    Raises:
        PolicyError: it is not a value of the parameter's type.
    """
    text = text if parameter.kind == "text" else text.strip()
    if parameter.kind in ("whole", "real"):
        return _parse_amount(parameter, text)
    if parameter.kind == "flag":
        if text.lower() not in _SWITCH:
            raise PolicyError(f"{parameter.label}: {text!r} is neither yes nor no", hint="Type yes or no.")
        return _SWITCH[text.lower()]
    if parameter.kind == "choice" and text not in parameter.choices:
        known = ", ".join(FORMULAS if parameter.key == "budget.formula" else parameter.choices)
        raise PolicyError(f"{parameter.label}: {text!r} is not one of its values", hint=f"Its values are: {known}.")
    return parse_field(parameter, text)


def _parse_amount(parameter: Parameter, text: str) -> int | float:
    kind: Any = int if parameter.kind == "whole" else float
    try:
        amount: int | float = kind(text.replace(",", ""))
    except ValueError:
        noun, example = ("whole number", "8000") if kind is int else ("number", "0.6")
        raise PolicyError(f"{parameter.label}: {text!r} is not a {noun}", hint=f"Type digits, such as {example}.") from None
    if not isfinite(amount) or amount < 0:
        raise PolicyError(f"{parameter.label}: {text!r} is not an amount", hint="Type 0 or more.")
    if _SHARE in parameter.label and amount > 1:
        raise PolicyError(f"{parameter.label}: {text!r} is above 1", hint="Type a share from 0 to 1; 0.6 is 60 %.")
    return amount
