"""The palette of the theme in use, and the one style sheet of the pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import streamlit as st
from turnscope import figures

SHEET = Path(__file__).parent / "browser" / "page.css"


def name() -> figures.Theme:
    """The theme the browser shows."""
    return "light" if st.context.theme.type == "light" else "dark"


def palette() -> Mapping[str, str]:
    """Colours of the theme in use."""
    return figures.PALETTES[name()]


def apply() -> None:
    """Put colours and style sheet on the page."""
    st.html(f"<style>{_sheet(name())}</style>")


@cache
def _sheet(theme: figures.Theme) -> str:
    colours = figures.PALETTES[theme]
    variables = "".join(f"--ts-{key.replace('_', '-')}:{value};" for key, value in colours.items())
    inks = "".join(f"--ts-ink-{key.replace('_', '-')}:{figures.choose_ink(colours[key])};" for key in figures.STACK)
    return f":root{{{variables}{inks}}}{SHEET.read_text(encoding='utf-8')}"
