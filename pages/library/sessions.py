"""The list of sessions, a page of it: a click on a line opens it, one on a heading sorts, one on its tags changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st
from turnscope import TurnscopeError
from turnscope.library import tags

from pages.library import filters
from pages.library.rows import Row
from pages.parts import theme, url, widgets
from pages.parts.components import define_component
from pages.parts.formats import format_usd, get_today, shorten, to_datetime

_HERE = Path(__file__).parent / "browser"
PAGE, FIRST = 50, 8  # rows of a page; above what was found in texts
KEY, START, TAGGED = "library.table", "library.start", "library.tagged"
COLUMNS: tuple[tuple[str, str, str], ...] = (  # class, heading, and the order that a click on it gives
    ("title", "Title", "title"),
    ("project", "Project", "project"),
    ("model", "Model", "model"),
    ("requests", "Requests", "requests"),
    ("fill", "Fill over requests", "fill"),
    ("cuts", "Truncated", "cuts"),
    ("cost", "Cost", "cost"),
    ("when", "When", "new"),
)
FILL_WARNED = 0.8  # of the window
_table = define_component(
    "turnscope_sessions",
    html='<div class="box"></div>',
    css=theme.read_files(_HERE, "table.css"),
    js=theme.REDRAW + theme.read_files(_HERE, "curve.js", "table.js"),
)


def draw(left: Sequence[Row], every: int, show: Callable[[str], object], size: int = PAGE) -> None:
    """The list.

    Args:
        left: the rows that the filters leave.
        every: how many there are without filters.
        show: called with the id of a row that is chosen.
        size: rows of a page.
    """
    st.html('<h2 class="ts-section">Sessions</h2>')
    if not every:
        st.html(
            '<div class="ts-empty">No session yet: no supported tool keeps sessions in its usual folder on this machine. '
            "Open a file or a folder above.</div>"
        )
        return
    begin = widgets.find_page_start(START, len(left), size)
    listed = left[begin : begin + size]
    if listed:
        order = st.session_state.get(filters.ORDER, "new")
        data = {"rows": [build_line(row) for row in listed], "columns": [list(each) for each in COLUMNS], "order": order}
        sent = _table(key=KEY, data=data, default={"event": None}, on_event_change=_follow).event or {}
        opened = next((row.id for row in listed if row.id == sent.get("open")), "")
        if opened and sent.get("seq") != st.session_state.get("library.opened"):
            st.session_state["library.opened"] = sent.get("seq")
            show(opened)
    unread = sum(not row.read for row in left)
    of = f" of {every:,}" if len(left) < every else ""
    widgets.draw_pager(START, len(left), size, begin, f"sessions{of}" + (f"; {unread:,} not read yet" if unread else ""))
    _draw_tags({row.id: row for row in listed})


def _follow() -> None:
    """A click on a heading sorts, one on a row's tags opens their dialog; on_change, so that the run that follows knows."""
    sent = widgets.read_report(KEY, "event") or {}
    if sent.get("sort") in filters.ORDERS:
        now = st.session_state.get(filters.ORDER)
        st.session_state[filters.ORDER] = "old" if sent["sort"] == now == "new" else sent["sort"]
    st.session_state[TAGGED] = str(sent.get("tag") or "")


def build_line(row: Row) -> dict[str, Any]:
    """A row as the browser gets it: text alone."""
    curve = [int(each) for each in row.line.curve.split(",")] if row.line and row.line.curve else []
    return {
        "id": row.id,
        "title": shorten(row.title or row.name, 160),
        "file": row.name,
        "tile": make_tile(row.tool),
        "tool": row.tool,
        "project": _name_project(row.project),
        "path": row.project,
        "model": row.models,
        "requests": f"{row.requests:,}" if row.requests else "",
        "curve": curve,
        "fill": f"{row.fill:.0%}" if row.read and row.fill else "",
        "full": row.fill >= FILL_WARNED,
        "cuts": (f"{row.cuts:,}" if row.cuts else "–") if row.read else "",
        "cost": format_usd(row.usd) if row.usd is not None else "no price" if row.read else "not read",
        "when": "live" if row.live else format_day(row.at),
        "time": f"{at:%Y-%m-%d %H:%M}" if (at := to_datetime(row.at)) else "",
        "live": row.live,
        "recorded": f"With what a tap recorded: {', '.join(row.recordings)}" if row.recordings else "",
        "tags": list(row.tags),
    }


def make_tile(tool: str) -> str:
    """Two letters for a tool.

    >>> [make_tile(name) for name in ("Claude Code session", "Codex CLI rollout", "Gemini CLI chat", "")]
    ['CC', 'CO', 'GE', '']
    """
    words = [word for word in tool.split() if word not in ("CLI", "session", "rollout", "chat", "export", "log", "of")]
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else "".join(words)[:2]
    return letters.upper()


def _name_project(project: str) -> str:
    """The last part of a path, which is what people call a project."""
    return project.replace("\\", "/").rstrip("/").rpartition("/")[2] or project


def format_day(seconds: float | None) -> str:
    """A day, with its year where that is another one than now."""
    at = to_datetime(seconds)
    if at is None:
        return ""
    return f"{at.day} {at:%b}" + ("" if at.year == get_today().year else f" {at.year}")


def _draw_tags(listed: Mapping[str, Row]) -> None:
    """The dialog of a session's tags, from a click on its sign until it is closed: runs of the page meanwhile keep it open."""
    switched = st.session_state.get(url.BEFORE) != st.session_state.get(url.PAGE)
    row = None if switched else listed.get(st.session_state.get(TAGGED, ""))
    if row is None:
        _close_tags()
        return

    @st.dialog("Tags", on_dismiss=_close_tags)
    def draw_dialog() -> None:
        st.text(shorten(row.title or row.name, 90))
        with st.form("library.tags", border=False):
            text = st.text_input(
                "Tags of this session, with commas between them", ", ".join(row.tags), placeholder="slow, to read"
            )
            if known := sorted({tag for each in listed.values() for tag in each.tags}):
                st.text(f"In this list: {shorten(', '.join(known), 200)}")
            if st.form_submit_button("Save", type="primary"):
                try:
                    tags.set_tags([row.key], text.split(","))
                    _close_tags()
                    st.rerun()
                except TurnscopeError as error:
                    widgets.draw_notice(error.what, error.hint)

    draw_dialog()


def _close_tags() -> None:
    st.session_state.pop(TAGGED, None)
