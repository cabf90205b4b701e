"""The documentation, readable without a network: a list of its pages, and the one that the address names."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from turnscope import TurnscopeError
from turnscope.views import documentation

from pages.parts import header, theme, widgets
from pages.parts.formats import escape

SHEET = Path(__file__).parent / "browser" / "help.css"


def draw() -> None:
    """Draw the page."""
    header.draw_optional_header(middle=False, title='<div class="ts-title"><h1>Help</h1></div>')
    theme.add_sheet(SHEET)
    name = st.query_params.get("page", documentation.FIRST)
    try:
        shown = documentation.read_page(name)
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        shown = documentation.read_page(documentation.FIRST)
    contents, text = st.columns([1, 4], gap="large")
    contents.html(_list_pages(shown.name))
    text.html(f'<article class="help-text {theme.get_theme()}">{shown.html}</article>')


def _list_pages(shown: str) -> str:
    """Links to all pages, the shown one marked."""
    rows = (
        f'<a href="/help?page={escape(name)}" target="_self"{" aria-current=page" if name == shown else ""}>{escape(title)}</a>'
        for name, title in documentation.list_pages().items()
    )
    return f'<nav class="help-pages" aria-label="Documentation">{"".join(rows)}</nav>'
