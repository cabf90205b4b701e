"""Search: a text in this session or in all indexed ones, and when a block that holds it left the window, under which policy."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import header, search, theme, url
from pages.search import block, library_hits, session_hits

SHEET = Path(__file__).parent / "browser" / "search.css"
SCOPES = {"session": "This session", "all": "All indexed sessions"}


def draw() -> None:
    """Draw the page."""
    shown = header.draw_optional_header(middle=False)
    theme.add_sheet(SHEET)
    st.html('<h2 class="ts-section">Search</h2>')
    search.draw_field()
    text = url.get_view("q")
    at = None
    if shown:
        url.remember_request(shown, url.read_request(shown))
        at = url.get_block(len(shown.trace.session.blocks))
    if shown and url.draw_choice("Where", SCOPES, "scope", "search.scope") == "session":
        session_hits.draw(shown, text)
        if at is not None:
            block.draw(shown, at)
    else:
        library_hits.draw(text)
