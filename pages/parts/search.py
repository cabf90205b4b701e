"""The search box of the header, which leads to the page Search, and the filters of that page and of the transcript."""

from __future__ import annotations

import streamlit as st
from turnscope.views import text_search

from pages.parts import opening, shell, url

ROLES = {"": "Any role", "user": "User", "assistant": "Assistant", "tool": "Tool results", "system": "System"}
BOX = "header-search"
_REQUESTED = "search.requested"


def draw_box() -> None:
    """Where the text is typed, in the header; nothing on the page Search, which has a field of its own."""
    if words := st.session_state.pop(_REQUESTED, ""):
        st.switch_page(shell.find_page("search"), query_params={**url.get_noted(), "q": words})
    if st.session_state.get(url.PAGE) == "search":
        return

    def ask() -> None:
        typed = st.session_state.get(BOX) or ""  # none where the box was left out of the run before
        st.session_state[_REQUESTED] = typed.strip()[: url.MOST]
        st.session_state[BOX] = ""

    st.text_input(
        "Search this session", key=BOX, placeholder="Search  /", label_visibility="collapsed", width=140, on_change=ask
    )


def draw_field() -> None:
    """The field of the page Search; its text stands in the address."""
    wanted = url.get_view("q")
    follow = url.bind("q", BOX, wanted)

    def ask() -> None:
        follow()
        url.set_view("block", "")

    st.text_input(
        "Search",
        wanted,
        key=BOX,
        placeholder="A text, a path, a name of code; Enter searches",
        label_visibility="collapsed",
        icon=":material/search:",
        on_change=ask,
    )


def draw_filters(name: str, shown: opening.ShownSession) -> tuple[str, str]:
    """A role and a tool, "" = any; they stand in the address.

    Args:
        name: begins the keys of the widgets.
        shown: the session that is shown.
    """
    wanted = url.get_view("role") if url.get_view("role") in ROLES else ""
    role = st.selectbox(
        "Role",
        list(ROLES),
        list(ROLES).index(wanted),
        format_func=ROLES.__getitem__,
        key=f"{name}.role",
        label_visibility="collapsed",
        width=150,
        on_change=url.bind("role", f"{name}.role", wanted),
    )
    names = ["", *text_search.list_tools(shown.trace)]
    wanted = url.get_view("tool") if url.get_view("tool") in names else ""
    tool = st.selectbox(
        "Tool",
        names,
        names.index(wanted),
        format_func=lambda name: name or "Any tool",
        key=f"{name}.tool",
        label_visibility="collapsed",
        width=180,
        on_change=url.bind("tool", f"{name}.tool", wanted),
    )
    return role or "", tool or ""
