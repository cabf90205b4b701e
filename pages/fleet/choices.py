"""What is looked at: days, owners, the part of the page. The address says all of it, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, TypeVar, get_args

import streamlit as st
from turnscope.fleet import queries
from turnscope.fleet.queries import OWNERS, Group
from turnscope.fleet.warehouse import Selection, Warehouse

from pages.parts.formats import shorten

VIEWS = {
    "costs": "Costs",
    "distributions": "Distributions",
    "anomalies": "Anomalies",
    "sessions": "Sessions",
    "policies": "Policies",
    "sql": "SQL",
}
GROUPS: Mapping[Group, str] = {name: name.capitalize() for name in get_args(Group)}
NEXT: Mapping[Group, Group] = {"team": "project", "project": "person", "person": "day", "tool": "model", "model": "day"}
NAMES = ("fleet", "view", "by", "from", "to", *OWNERS)
SAVED = "fleet.address"  # in the session state: what the address said last
C = TypeVar("C", bound=str)
MOST_NAMES = 500  # in a list
UNKNOWN = "not known"


def read_address() -> None:
    """After a switch of pages, have the address say again what it did."""
    if not any(name in st.query_params for name in NAMES):
        for name, value in st.session_state.get(SAVED, {}).items():
            st.query_params[name] = value
    st.session_state[SAVED] = {name: st.query_params[name] for name in NAMES if name in st.query_params}


def write(name: str, value: str | None) -> None:
    """Have the address say something else.

    Args:
        name: one of `NAMES`.
        value: what it says; None = nothing, so the default.
    """
    if value is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = value
    st.session_state[SAVED] = {each: st.query_params[each] for each in NAMES if each in st.query_params}


def draw_group(warehouse: Warehouse, label: str, options: Mapping[Group, str] = GROUPS) -> Group:
    """Choose what a row is; gives it. Where nobody chose, it is the first owner that sets requests apart.

    Args:
        warehouse: the tables.
        label: what is chosen, for who cannot see it.
        options: the words of each.
    """
    return draw_choice("by", label, options, queries.find_group(warehouse))


def go_down(by: Group, name: str) -> None:
    """Look at one of a group alone, by what lies below it.

    Args:
        by: the group.
        name: the one.
    """
    if by == "day":
        write("from", name)
        write("to", name)
        write("by", None)
    else:
        write(by, name)
        write("by", NEXT[by])


def draw_filters(warehouse: Warehouse) -> Selection:
    """Draw the filters; gives what they say.

    Args:
        warehouse: the tables.
    """
    span = queries.find_days(warehouse)
    with st.container(key="fleet-filters", horizontal=True, vertical_alignment="bottom", gap="small"):
        since, until = (_draw_day(name, label, span) for name, label in (("from", "From"), ("to", "To")))
        chosen = {name: _draw_owner(name, queries.list_names(warehouse, name)) for name in OWNERS}
        if any(name in st.query_params for name in ("from", "to", *OWNERS)):
            st.button("Clear", key="fleet.clear", type="tertiary", icon=":material/close:", on_click=_clear)
    return Selection(since, until, **chosen)


def _clear() -> None:
    for name in ("from", "to", *OWNERS):
        write(name, None)


def _draw_day(name: str, label: str, span: tuple[date, date] | None) -> date | None:
    wanted = None
    with suppress(ValueError):
        wanted = date.fromisoformat(st.query_params.get(name, ""))
    key = f"fleet.{name}"
    first, last = span or (date.today(), date.today())  # noqa: DTZ011  only the ends of a calendar without days
    first, last = min(first, wanted or first), max(last, wanted or last)
    return st.date_input(
        label,
        None,
        first,
        last,
        key=_bind(key, wanted),
        on_change=_writer(name, key, lambda day: day.isoformat() if day else None),
        format="YYYY-MM-DD",
        width=140,
    )


def _draw_owner(name: Group, names: Sequence[str]) -> str | None:
    wanted, key = st.query_params.get(name), f"fleet.{name}"
    listed = [*names[:MOST_NAMES]]
    if wanted is not None and wanted not in listed:
        listed.append(wanted)
    return st.selectbox(
        GROUPS[name],
        listed,
        index=None,
        key=_bind(key, wanted),
        placeholder="all",
        format_func=lambda each: shorten(each, 60, "tail") or UNKNOWN,
        on_change=_writer(name, key, lambda each: each),
        width=190,
    )


def draw_choice(name: str, label: str, options: Mapping[C, str], otherwise: C) -> C:
    """One of several, as buttons; the address says which.

    Args:
        name: one of `NAMES`.
        label: what is chosen, for who cannot see it.
        options: the words of each.
        otherwise: the one that no address says.
    """
    wanted = next((each for each in options if each == st.query_params.get(name)), otherwise)
    key = f"fleet.{name}"
    st.segmented_control(
        label,
        [*options],
        required=True,
        format_func=options.__getitem__,
        key=_bind(key, wanted),
        label_visibility="collapsed",
        on_change=_writer(name, key, lambda each: None if each == otherwise else each),
    )
    return wanted


def _bind(key: str, wanted: object) -> str:
    """Let the widget with the key, which is drawn next, show what the address says."""
    if key not in st.session_state or st.session_state[key] != wanted:
        st.session_state[key] = wanted
    return key


def _writer(name: str, key: str, to_text: Callable[[Any], object]) -> Callable[[], None]:
    """What the widget with a key does when it changes."""

    def change() -> None:
        if key not in st.session_state:
            return  # said late, of a widget that the page shown by then does not have
        value = to_text(st.session_state[key])
        write(name, None if value is None else str(value))

    return change
