"""The palette of the theme in use, and the files that the pages hand to the browser."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import streamlit as st
from turnscope import figures

from pages.parts.components import define_component

_BROWSER = Path(__file__).parent / "browser"


def get_theme() -> figures.Theme:
    """The theme the browser shows."""
    return "light" if st.context.theme.type == "light" else "dark"


def get_palette() -> Mapping[str, str]:
    """Colours of the theme in use."""
    return figures.PALETTES[get_theme()]


def apply_theme() -> None:
    """Put colours and style sheet on the page, and draw it again where the system's theme changes."""
    st.html(f"<style>{_build_sheet(get_theme())}</style>")
    with st.container(key="quiet-theme"):
        _theme_change(key="theme", data={"theme": get_theme()}, on_changed_change=lambda: None)


def add_sheet(sheet: Path) -> None:
    """Put another style sheet on the page."""
    st.html(f"<style>{_read_text(sheet)}</style>")


def read_files(folder: Path, *names: str) -> str:
    """The text of files for the browser, one after another.

    Args:
        folder: the folder.
        names: names of the files.
    """
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


_theme_change = define_component("turnscope_theme", html="", js=read_files(_BROWSER, "theme.js"))
REDRAW = read_files(_BROWSER, "redraw.js")  # what draws a list anew and leaves the focus, for scripts
NUMBERING = read_files(_BROWSER, "numbering.js")  # what converts numbers of requests, for scripts


@cache
def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _build_sheet(theme: figures.Theme) -> str:
    colours = figures.PALETTES[theme]
    variables = "".join(f"--ts-{key.replace('_', '-')}:{value};" for key, value in colours.items())
    inks = "".join(f"--ts-ink-{key.replace('_', '-')}:{figures.choose_ink(colours[key])};" for key in figures.STACK)
    return f":root{{{variables}{inks}}}{read_files(_BROWSER, 'page.css')}"
