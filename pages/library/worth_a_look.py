"""The sessions that are worth a look first, a card each with the reason; a click opens the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st
from turnscope.library import find_notable

from pages.library.rows import Row
from pages.library.sessions import build_line
from pages.parts import theme
from pages.parts.components import define_component

_HERE = Path(__file__).parent / "browser"
MOST = 3
KEY = "library.notable"
_cards = define_component(
    "turnscope_notable",
    html='<div class="cards"></div>',
    css=theme.read_files(_HERE, "notable.css"),
    js=theme.REDRAW + theme.read_files(_HERE, "curve.js", "notable.js"),
)


def draw(rows: Sequence[Row], show: Callable[[str], object]) -> None:
    """The cards; nothing where no session stands out.

    Args:
        rows: the rows to look among.
        show: called with the id of a row that is chosen.
    """
    known = {row.key: row for row in rows if row.line and not row.sample}
    found = find_notable((row.line for row in known.values() if row.line), MOST)
    if not found:
        return
    of = f'<small class="ts-small ts-faint">{len(found)} of {len(known):,} sessions</small>'
    st.html(f'<h2 class="ts-section">Worth a look {of}</h2>')
    shown = [
        build_line(known[one.row.path, one.row.entry]) | {"kind": one.kind, "head": one.title, "reason": one.reason}
        for one in found
    ]
    sent = _cards(key=KEY, data={"rows": shown}, default={"event": None}, on_event_change=lambda: None).event or {}
    opened = next((each["id"] for each in shown if each["id"] == sent.get("open")), "")
    if opened and sent.get("seq") != st.session_state.get("library.opened"):
        st.session_state["library.opened"] = sent.get("seq")
        show(opened)
