"""Page configuration and navigation, once for every way into the app.

A `pages/` folder next to `app.py` wakes Streamlit's old router: a deep link that is the first visit after a start runs the
page's file without `app.py`. So every page begins with `shell.ensure_app()`, which registers the navigation and starts over
through it.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.parts import demo, failures, opening, url

PAGES = Path(__file__).resolve().parent.parent
THROUGH_APP = "shell.through_app"


def run() -> None:
    """What `app.py` does on each run."""
    _configure()
    page = _build_navigation()
    demo.draw(page.url_path, find_page)
    st.session_state[THROUGH_APP] = True
    st.session_state[url.BEFORE] = st.session_state.get(url.PAGE, "")
    st.session_state[url.PAGE] = page.url_path
    try:
        page.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the app goes on
        failures.draw(error)
    opening.write_pending()


def ensure_app() -> None:
    """First line of every page: run it inside the app, or start over through the app."""
    if not st.session_state.pop(THROUGH_APP, False):
        _configure()
        _build_navigation()
        st.rerun()


def _configure() -> None:
    # An emoji, because icons of the material set are fetched from another host when used as the tab's icon.
    st.set_page_config(page_title="Turnscope", page_icon="🔭", layout="wide", initial_sidebar_state="collapsed")


def find_page(name: str) -> str:
    """Path of a page for links and switches."""
    return str(PAGES / f"{name}.py")


def _build_navigation() -> st.Page:
    return st.navigation(
        [
            # served at `/`; the name `start` only leaves `envelope` free for the hidden twin below
            st.Page(
                find_page("envelope"), title="Envelope", icon=":material/stacked_bar_chart:", url_path="start", default=True
            ),
            st.Page(find_page("heatmap"), title="Cost heatmap", icon=":material/grid_on:"),
            st.Page(find_page("debugger"), title="Debugger", icon=":material/bug_report:"),
            st.Page(find_page("compare"), title="Compare", icon=":material/balance:"),
            st.Page(find_page("policies"), title="Policies", icon=":material/rule:"),
            st.Page(find_page("plan"), title="Plan ahead", icon=":material/explore:"),
            st.Page(find_page("audit"), title="Audit", icon=":material/fact_check:"),
            st.Page(find_page("chat"), title="Live chat", icon=":material/forum:"),
            st.Page(find_page("library"), title="Library", icon=":material/folder_open:"),
            st.Page(find_page("fleet"), title="Fleet", icon=":material/groups:"),
            st.Page(find_page("search"), title="Search", icon=":material/search:", visibility="hidden"),
            st.Page(find_page("help"), title="Help", icon=":material/help:", visibility="hidden"),
            st.Page(find_page("lost"), title="What was lost", url_path="lost", visibility="hidden"),
            st.Page(find_page("usage"), title="Usage", url_path="usage", visibility="hidden"),
            st.Page(find_page("envelope"), title="Envelope", url_path="envelope", visibility="hidden"),
        ],
        position="top",
    )
