"""Components that run in the browser. Session text goes into them as data and is only ever set as text content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from pages.parts import theme

_HERE = Path(__file__).parent / "browser"


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


_navigator = st.components.v2.component(
    "turnscope_navigator", html=_read("navigator.html"), css=_read("navigator.css"), js=_read("navigator.js")
)
_rows = st.components.v2.component(
    "turnscope_rows", html='<div class="list"></div>', css=_read("rows.css"), js=_read("rows.js")
)
_keys = st.components.v2.component("turnscope_keys", html="", js=_read("keys.js"))


def navigator(key: str, *, chart: str, at: int, count: int, marks: Sequence[int], go: Callable[[int], None]) -> None:
    """Previous, next and go to; arrow keys; a cursor on the chart with key `chart`, and its clicks."""

    def moved() -> None:
        sent = st.session_state[key].get("go")
        if sent:
            go(int(sent["request"]))

    colours = theme.palette()
    data = {"chart": chart, "at": at, "count": count, "marks": list(marks), "colour": colours["text"], "ink": colours["ground"]}
    _navigator(key=key, data=data, default={"go": None}, on_go_change=moved)


def rows(key: str, items: Sequence[dict[str, object]], *, at: int, count: int, go: Callable[[int], None]) -> None:
    """A list in which each line leads to a request. Items: title, text, request; spans and colour for a strip."""

    def chosen() -> None:
        sent = st.session_state[key].get("go")
        if sent:
            go(int(sent["request"]))

    _rows(key=key, data={"items": list(items), "at": at, "count": count}, default={"go": None}, on_go_change=chosen)


def keys() -> None:
    """`/` goes to the search box, `?` opens the help."""
    with st.container(key="quiet"):
        _keys(key="keys")
