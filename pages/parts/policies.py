"""Every policy there is, and a form of a policy's parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import library, settings
from turnscope.views import parameters

from pages.parts.formats import escape

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
        for column, knob in zip(columns, group.parameters[start : start + COLUMNS], strict=False):
            with column:
                values[knob.key] = _draw_field(knob, f"{key}.{knob.key}")


def _draw_field(knob: parameters.Parameter, key: str) -> Any:
    name, value = knob.label, parameters.format_field(knob)
    if knob.kind == "flag":
        return st.toggle(name, value, key=key, help=knob.help)
    if knob.kind == "choice":
        choices = list(dict.fromkeys((*knob.choices, str(value))))
        return st.selectbox(name, choices, choices.index(str(value)), key=key, help=knob.help)
    if knob.kind == "whole":
        return st.number_input(name, value=value, step=1, format="%d", key=key, help=knob.help)
    if knob.kind == "real":
        return st.number_input(name, value=float(value), step=0.05, format="%.3g", key=key, help=knob.help)
    if knob.kind == "table" or (isinstance(value, str) and ("\n" in value or len(value) > 60)):
        return st.text_area(name, value, height=88, key=key, help=knob.help)
    return st.text_input(name, value, key=key, help=knob.help)
