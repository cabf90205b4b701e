"""Every policy there is, and a form of a policy's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import Policy, library, settings
from turnscope.views import model_values, parameters
from turnscope.views.model_values import ModelValue

from pages.parts.formats import escape, escape_markdown, shorten

RECORDED = "as-recorded"
COLUMNS = 4


def find_folder() -> Path:
    """The user's own policies."""
    return settings.find_data_folder() / "policies"


def load_policies() -> library.PolicyCatalog:
    """Every policy there is, read again when the user's folder changes."""
    files = sorted(find_folder().glob("*.toml"))
    return _load_policies(str(find_folder()), tuple((file.name, file.stat().st_mtime_ns) for file in files))


@st.cache_resource(max_entries=4, show_spinner=False)
def _load_policies(where: str, files: tuple[tuple[str, int], ...]) -> library.PolicyCatalog:  # noqa: ARG001  what the cache goes by
    return library.load_catalog(find_folder(), settings.read_context_pairs())


def draw_fields(group: parameters.Group, key: str, values: dict[str, Any]) -> None:
    """A field for each of a group's parameters. Inside a form.

    Args:
        group: the parameters.
        key: begins the keys of the widgets.
        values: filled with what the fields hold, by key.
    """
    number = "" if group.key == "budget" else f"{group.key}. "
    st.html(
        f'<div class="policy-group"><b>{number}{escape(group.title.replace("_", " "))}</b> '
        f"<span>{escape(group.doc)}</span></div>"
    )
    for start in range(0, len(group.parameters), COLUMNS):
        columns = st.columns(COLUMNS, vertical_alignment="bottom")
        for column, parameter in zip(columns, group.parameters[start : start + COLUMNS], strict=False):
            with column:
                values[parameter.key] = _draw_field(parameter, f"{key}.{parameter.key}")


def _draw_field(parameter: parameters.Parameter, key: str) -> Any:
    name, value = parameter.label, parameters.format_field(parameter)
    if parameter.kind == "flag":
        return st.toggle(name, value, key=key, help=parameter.help)
    if parameter.kind == "choice":
        choices = list(dict.fromkeys((*parameter.choices, str(value))))
        return st.selectbox(name, choices, choices.index(str(value)), key=key, help=parameter.help)
    if parameter.kind == "whole":
        return st.number_input(name, value=value, step=1, format="%d", key=key, help=parameter.help)
    if parameter.kind == "real":
        return st.number_input(name, value=float(value), step=0.05, format="%.3g", key=key, help=parameter.help)
    if parameter.kind == "table" or (isinstance(value, str) and ("\n" in value or len(value) > 60)):
        return st.text_area(name, value, height=88, key=key, help=parameter.help)
    return st.text_input(name, value, key=key, help=parameter.help)


def draw_model_values(policy: Policy, key: str) -> list[ModelValue]:
    """Draw a field for each value that holds for some models only, and fields for one more. Inside a form.

    Args:
        policy: the policy.
        key: begins the keys of the widgets.

    Returns:
        The values as the fields have them, without those that shall go.
    """
    st.html(
        '<div class="policy-group"><b>For some models</b> <span>In place of the values above. The first pattern that fits the '
        "model's name holds; * stands for any text.</span></div>"
    )
    rows: list[ModelValue] = []
    known = model_values.list_model_parameters(policy)
    for n, value in enumerate(model_values.list_model_values(policy)):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            label = escape_markdown(f"{shorten(value.pattern, 60)} · {value.label}")
            several = "\n" in value.text or known[value.key].kind == "table"
            field = partial(st.text_area, height=88) if several else st.text_input
            text = field(label, value.text, key=f"{key}.models.{n}", width="stretch")
            if not st.checkbox("Remove", key=f"{key}.models.{n}.remove"):
                rows.append(replace(value, text=text))
    added = _draw_new_value(policy, f"{key}.models.new")
    return [*rows, added] if added else rows


def _draw_new_value(policy: Policy, key: str) -> ModelValue | None:
    """The fields for one more value; None while all are empty."""
    known = model_values.list_model_parameters(policy)
    where, what, which = st.columns([2, 3, 2], vertical_alignment="bottom")
    pattern = where.text_input("Models like", placeholder="claude-haiku-*", key=f"{key}.pattern")
    name = what.selectbox("Parameter", list(known), None, format_func=lambda name: known[name].label, key=f"{key}.parameter")
    text = which.text_input("Value", key=f"{key}.value")
    return ModelValue(pattern, name or "", text) if pattern or name or text else None


def read_form(policy: Policy, base: Policy, values: Mapping[str, Any], rows: Sequence[ModelValue]) -> Policy:
    """Read a form of parameters.

    Args:
        policy: the policy whose values the form showed.
        base: the policy that is changed.
        values: what the fields hold, by key.
        rows: the values for some models.

    Raises:
        PolicyError: a value is wrong.
    """
    known = {parameter.key: parameter for group in parameters.group_parameters(policy) for parameter in group.parameters}
    changes = {key: parameters.parse_field(known[key], value) for key, value in values.items()}
    tables = model_values.build_model_tables(policy, rows)
    return parameters.apply_changes(base, changes | {parameters.MODELS: tables})
