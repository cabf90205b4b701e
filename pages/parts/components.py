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
_lines = st.components.v2.component(
    "turnscope_lines", html='<div class="list" role="group" aria-label="Transcript"></div>', css=_read("lines.css"),
    js=_read("lines.js"),
)  # fmt: skip
_keys = st.components.v2.component("turnscope_keys", html="", js=_read("keys.js"))
_selecting = st.components.v2.component("turnscope_selecting", html="", js=_read("selecting.js"))


def navigator(
    key: str, *, chart: str, at: int, count: int, marks: Sequence[int], go: Callable[[int], None],
    span: tuple[int, int] | None = None, mark: Callable[[int, int], None] | None = None,
) -> None:  # fmt: skip
    """Previous, next and go to; arrow keys; a cursor on the chart with key `chart`, its clicks, and ranges drawn on it.

    `span`: requests [start, stop) that are marked on the chart; `mark` is told of others.
    """

    def drawn() -> None:
        sent = st.session_state[key].get("range")
        if sent and mark:
            mark(int(sent["start"]), int(sent["stop"]))

    def moved() -> None:
        sent = st.session_state[key].get("go")
        if sent:
            go(int(sent["request"]))

    colours = theme.palette()
    data: dict[str, object] = {"chart": chart, "at": at, "count": count, "marks": list(marks), "range": span}
    data |= {"colour": colours["text"], "ink": colours["ground"]}
    _navigator(key=key, data=data, default={"go": None, "range": None}, on_go_change=moved, on_range_change=drawn)


def rows(key: str, items: Sequence[dict[str, object]], *, at: int, count: int, go: Callable[[int], None]) -> None:
    """A list in which each line leads to a request. Items: title, text, request; spans and colour for a strip."""

    def chosen() -> None:
        sent = st.session_state[key].get("go")
        if sent:
            go(int(sent["request"]))

    _rows(key=key, data={"items": list(items), "at": at, "count": count}, default={"go": None}, on_go_change=chosen)


def lines(key: str, items: Sequence[dict[str, object]], *, at: int, choose: Callable[[int], None]) -> None:
    """Lines of the transcript, of which a click chooses one; `at`: the block that is chosen."""

    def clicked() -> None:
        sent = st.session_state[key].get("choose")
        if sent:
            choose(int(sent["at"]))

    _lines(key=key, data={"items": list(items), "at": at, "warn": theme.palette()["warn"]}, default={"choose": None},
           on_choose_change=clicked)  # fmt: skip


def keys() -> None:
    """`/` goes to the search box, `?` opens the help."""
    with st.container(key="quiet"):
        _keys(key="keys")


def selecting(session: dict[str, object]) -> None:
    """Beside a selected text of a session a link to when it left the window. `session`: what names it in an address."""
    _selecting(key="selecting", data=session)
